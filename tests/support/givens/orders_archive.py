"""The store `orders-data` with three finished segments of orders, and its archive `orders-archive`."""

from mqstore import MessageStore, StoreConfig
from mqstore.tools.archive import archive

with MessageStore.open(
    "orders-data", StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=60_000)
) as store:
    for number in range(10):
        store.put("orders", b"x" * 40_000, keys=f"o-{number}")
    store.flush()
    archive(store, "orders-archive")
