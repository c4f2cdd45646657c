"""Two orders in the store `data`, closed again."""

from mqstore import MessageStore

with MessageStore.open("data") as store:
    store.put("orders", json={"id": 1, "total": 42.0}, tags="created", keys="o-1")
    store.put("orders", json={"id": 2, "total": 7.5}, tags="paid", keys="o-2")
