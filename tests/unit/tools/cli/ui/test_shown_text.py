"""Bodies as text: what kind they are, where they are cut, and that nothing unprintable is left."""

import zlib
from pathlib import Path

import pytest

from mqstore.message_store import MessageStore
from mqstore.store.message.message import Message
from mqstore.store.message.stored_message import StoredMessage
from mqstore.store.record.sys_flag import COMPRESSED
from mqstore.tools.cli.ui.shown_text import SHOWN_BODY_BYTES, SHOWN_HEX_BYTES, excerpt, shown_body, visible


def stored(path: Path, body: bytes, sys_flag: int = 0) -> StoredMessage:
    with MessageStore.open(path / "store") as store:
        put = store.put_message(Message("orders", body, sys_flag=sys_flag))
        message = store.look_message_by_offset(put.physical_offset)
        assert message is not None
        return message.detached()


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"", "empty", ""),
        (b"plain \xc3\xa4", "text", "plain ä"),
        (b'{"a":[1,2]}', "JSON", '{\n  "a": [\n    1,\n    2\n  ]\n}'),
        (b"[1", "text", "[1"),
        (b"{'a': 1}", "text", "{'a': 1}"),
        (b"ab\0", "hex", "000000  61 62 00" + " " * 41 + "ab."),
        (b"\xff", "hex", "000000  ff" + " " * 47 + "."),
    ],
)
def test_a_body_is_shown_as_what_it_is(tmp_path: Path, body: bytes, kind: str, text: str) -> None:
    """JSON is indented; what is neither JSON nor text is shown as bytes."""
    shown = shown_body(stored(tmp_path, body))
    assert (shown.kind, shown.text, shown.size_bytes, shown.is_cut) == (kind, text, len(body), False)


@pytest.mark.parametrize("lead", [b"", b"x", b"xx"])
def test_a_long_body_is_cut(tmp_path: Path, lead: bytes) -> None:
    """Not within a character, and bytes sooner than text."""
    shown = shown_body(stored(tmp_path, lead + "€".encode() * SHOWN_BODY_BYTES))
    assert (shown.kind, shown.is_cut) == ("text", True)
    assert set(shown.text) <= {"x", "€"}
    assert SHOWN_BODY_BYTES - 3 < len(shown.text.encode()) <= SHOWN_BODY_BYTES


def test_long_bytes_are_cut(tmp_path: Path) -> None:
    """After some rows."""
    shown = shown_body(stored(tmp_path, b"\xff" * 50_000))
    assert (shown.kind, shown.is_cut, len(shown.text.splitlines())) == ("hex", True, SHOWN_HEX_BYTES // 16)


@pytest.mark.parametrize("body", [b"[" * 60_000, b"[" * 30_000 + b"]" * 30_000, b'{"a":' * 12_000])
def test_deep_json_is_text(tmp_path: Path, body: bytes) -> None:
    """Indented it would be longer than a page, or deeper than a parser goes."""
    assert shown_body(stored(tmp_path, body)).kind == "text"


def test_a_compressed_body_is_shown_as_sent(tmp_path: Path) -> None:
    """As consumers get it; where it cannot be had, as stored, with the reason."""
    sent = stored(tmp_path / "sent", zlib.compress(b"the same " * 1000), COMPRESSED)
    assert shown_body(sent).text == "the same " * 1000
    assert excerpt(sent).startswith("the same the same")
    broken = stored(tmp_path / "broken", b"not compressed", COMPRESSED)
    shown = shown_body(broken)
    assert shown.text == "not compressed"
    assert shown.note is not None
    assert shown.note.startswith("as stored: ")
    assert excerpt(broken) == "(14 bytes, compressed)"


def test_a_body_that_grows_without_end_is_not_decompressed(tmp_path: Path) -> None:
    """A few kilobytes that become gigabytes cost no more than the limit."""
    shown = shown_body(stored(tmp_path, zlib.compress(b"\0" * 30_000_000, 9), COMPRESSED))
    assert shown.note is not None
    assert shown.kind == "hex"


def test_nothing_unprintable_is_left() -> None:
    """Controls, changes of direction, surrogates, odd separators and what has no character."""
    text = "".join(map(chr, range(0x3000))) + "\ud800\ufeff\U000e0001\U0010ffff"
    assert all(character.isprintable() or character in "\n\t" for character in visible(text))
    assert visible("\U000e0001") == "\\U000e0001"
