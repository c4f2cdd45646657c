"""The export: one line of JSON a letter, from which all of it can be read."""

import io
import zlib
from pathlib import Path

import msgspec
import pytest

from mqstore import Message
from mqstore.client.dead_letters.dead_letters import DeadLetters
from mqstore.store.files.memory_file_system import MemoryFileSystem
from support.stores.small_store import SmallStore


@pytest.mark.parametrize(
    ("body", "sys_flag", "text", "encoding", "compression"),
    [
        (b'{"id": 1}\n', 0, '{"id": 1}\n', "utf-8", None),
        (b"\xff\x00", 0, "ff00", "hex", None),
        (zlib.compress(b"long"), 1, "long", "utf-8", None),
        (b"no zlib", 1, "no zlib", "utf-8", "ZLIB"),
    ],
)
def test_a_line(body: bytes, sys_flag: int, text: str, encoding: str, compression: str | None) -> None:
    """Text or hex, decompressed where that works; line ends within the body do not end the line."""
    with SmallStore(MemoryFileSystem(), Path("/store")).open() as store:
        put = store.put_message(Message("orders", body, keys="o-1", queue_id=0, sys_flag=sys_flag))
        store.consumer_send_msg_back("billing", put.physical_offset, delay_level=-1)
        stream = io.BytesIO()
        assert DeadLetters(store, "billing").export(stream) == 1
    (line,) = stream.getvalue().splitlines()
    row = msgspec.json.decode(line)
    assert (row["body"], row["bodyEncoding"], row["bodyCompression"]) == (text, encoding, compression)
    assert (row["group"], row["originalTopic"], row["keys"]) == ("billing", "orders", ["o-1"])
    assert row["properties"]["RETRY_TOPIC"] == "orders"
