"""The store `rocketmq-store` with three orders; one of its bits is flipped."""

from pathlib import Path

from mqstore import MessageStore

with MessageStore.open("rocketmq-store") as store:
    store.topics.create("orders", 1)
    for number in (1, 2, 3):
        store.put("orders", json={"id": number, "total": 42.0}, tags="paid", keys=f"o-{number}")
segment = Path("rocketmq-store/commitlog/00000000000000000000")
data = bytearray(segment.read_bytes())
data[data.index(b'{"id":2')] ^= 1
segment.write_bytes(data)
