"""mqstore: a persistent message store with Apache RocketMQ's on-disk format and retry semantics.

Open a directory with `MessageStore.open`, put `Message`s, get `StoredMessage`s back. Errors of ours are
leaves of `StoreError` (all of them in `mqstore.store.errors`).

Each name is loaded when it is first used: Spark's workers and the protocol of `mqstore serve` import modules
below this one and need no store. Heavy packages (numba, lmdb, pyspark) are imported when first needed.
"""

from typing import TYPE_CHECKING

from mqstore.loading.lazy_names import lazy_names

if TYPE_CHECKING:
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

__getattr__ = lazy_names(
    __name__,
    {
        "Disposition": "mqstore.store.status",
        "GetMessageResult": "mqstore.index.pull.message_reader",
        "GetMessageStatus": "mqstore.store.status",
        "Host": "mqstore.store.record.host",
        "Message": "mqstore.store.message.message",
        "MessageStore": "mqstore.message_store",
        "PutMessageResult": "mqstore.store.message.put_result",
        "PutMessageStatus": "mqstore.store.status",
        "ResponseCode": "mqstore.store.status",
        "SendBackResult": "mqstore.schedule.retry.send_back",
        "StoreConfig": "mqstore.store.config",
        "StoreError": "mqstore.store.errors",
        "StoreStats": "mqstore.store_stats",
        "StoredMessage": "mqstore.store.message.stored_message",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
