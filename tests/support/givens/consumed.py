"""The group `billing` has consumed two orders of the store `data`."""

from mqstore import MessageStore

with MessageStore.open("data") as store:
    store.consumer_offsets.commit("billing", "orders", 0, 2)
