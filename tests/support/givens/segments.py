"""The store `shop`, with finished segments."""

from mqstore import MessageStore, StoreConfig

with MessageStore.open(
    "shop", StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=65_000)
) as store:
    for _ in range(30):
        store.put("orders", bytes(10_000))
