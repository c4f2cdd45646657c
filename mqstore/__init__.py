"""mqstore: a persistent message store with Apache RocketMQ's on-disk format and retry semantics.

Open a directory with `MessageStore.open`, put `Message`s, get `StoredMessage`s back. Errors of ours are
leaves of `StoreError` (all of them in `mqstore.store.errors`). Heavy packages (numba, lmdb, pyspark) are
imported when they are first needed.
"""

from mqstore.index.pull.message_reader import GetMessageResult
from mqstore.message_store import MessageStore
from mqstore.schedule.retry.send_back import SendBackResult
from mqstore.store.config import StoreConfig
from mqstore.store.errors import StoreError
from mqstore.store.message.message import Message
from mqstore.store.message.put_result import PutMessageResult
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.host import Host
from mqstore.store.status import Disposition, GetMessageStatus, PutMessageStatus, ResponseCode
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
