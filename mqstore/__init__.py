"""mqstore: a persistent message store with Apache RocketMQ's on-disk format and retry semantics.

Open a directory with `MessageStore.open`, put `Message`s, get `StoredMessage`s back. Errors of ours are
leaves of `StoreError` (all of them in `mqstore.store.errors`). Heavy packages (numba, lmdb, pyspark) are
imported when they are first needed.
"""

from mqstore.index.get_message import GetMessageResult
from mqstore.message_store import MessageStore
from mqstore.schedule.send_back import SendBackResult
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError
from mqstore.store.host import Host
from mqstore.store.message import Message
from mqstore.store.put_result import PutMessageResult
from mqstore.store.status import Disposition, GetMessageStatus, PutMessageStatus, ResponseCode
from mqstore.store.stored_message import StoredMessage
from mqstore.store_stats import StoreStats

__all__ = [
    "Disposition",
    "GetMessageResult",
    "GetMessageStatus",
    "Host",
    "Message",
    "MessageStore",
    "PutMessageResult",
    "PutMessageStatus",
    "ResponseCode",
    "SendBackResult",
    "StoreConfig",
    "StoreError",
    "StoreStats",
    "StoredMessage",
]
__version__ = "0.1.0"
