"""Three dead letters of the group `billing` in the store `shop`, closed again."""

from mqstore import MessageStore

with MessageStore.open("shop") as store:
    puts = [
        store.put("orders", json={"id": number, "total": 42.0}, tags="created", keys=f"o-{number}")
        for number in range(3)
    ]
    for put in puts:
        store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
