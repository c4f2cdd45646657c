"""22 orders and a dead letter in the store `data`, closed again."""

from mqstore import MessageStore

with MessageStore.open("data") as store:
    store.topics.create("orders", 1)
    for number in range(22):
        state = ("paid", "created")[number % 2] if number < 20 else "returned"
        total = number * 1.5
        put = store.put(
            "orders", json={"id": number, "state": state, "total": total}, tags=state, keys=f"o-{number}"
        )
    store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
