"""Stores and files that the page reads: `data`, three shards, and events."""

from pathlib import Path

from mqstore import MessageStore

with MessageStore.open("data") as store:
    for number in range(10):
        state = ("paid", "created")[number % 2]
        put = store.put("orders", json={"id": number, "total": number * 1.5}, tags=state, keys=f"o-{number}")
    store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
for shard in range(1, 4):
    with MessageStore.open(Path("shards", str(shard))) as store:
        store.put("orders", b"42.00")
Path("events").mkdir()
Path("events", "1.json").write_text('{"topic": "events", "body": "begun"}\n')
