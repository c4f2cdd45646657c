"""A batch of a client is stored as the list of its messages would be, byte for byte.

Goal: the compiled loops are only faster. Method: the same body goes into two stores under a clock that stands
still, as a list of messages and as a `SentBatch`; logs, queues and answers are compared, or the refusals.
Bodies are ordinary, odd in their properties, and broken in their lengths.
"""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mqstore import Host, Message, MessageStore
from mqstore.server.processors.sends import properties_of
from mqstore.store.bulk.sent.sent_batch import SentBatch
from mqstore.store.errors import StoreError
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.record.batch_format import BatchElement, decode_batch, encode_batch
from mqstore.store.record.properties_format import UNIQ_KEY
from support.stores.small_store import SmallStore

BORN = 1_700_000_000_123
NAMES = st.sampled_from(["TAGS", "KEYS", "WAIT", "DELAY", "POP_CK", UNIQ_KEY, "own", "o", "größe", "", "a\0"])
TEXTS = st.sampled_from(["v", "true", "3", "", "é", "a\x01b", "\0", "x" * 300])
ORDINARY = st.dictionaries(
    st.sampled_from(["TAGS", "KEYS", "WAIT", "own", "other"]), st.sampled_from(["v", "true", "x" * 300])
)
HOSTS = st.sampled_from(["127.0.0.1:10911", "[2001:db8::7]:4711"])


def written(pairs: list[tuple[str, str]], end: str) -> bytes:
    """Properties as a client writes them."""
    return ("\x02".join(f"{name}\x01{value}" for name, value in pairs) + end).encode()


ODD_PROPERTIES = st.one_of(
    st.builds(written, st.lists(st.tuples(NAMES, TEXTS), max_size=5), st.sampled_from(["", "\x02", "\x01"])),
    st.binary(max_size=12),
    st.builds(lambda count: written([(f"n{at}", "v") for at in range(count)], "\x02"), st.integers(30, 40)),
)
BODIES = st.binary(max_size=40)
FLAGS = st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])


@st.composite
def elements(draw: st.DrawFn, *, odd: bool) -> BatchElement:
    key = (UNIQ_KEY, draw(st.sampled_from(["A1", "B2"])))
    properties = written([key, *draw(ORDINARY).items()], draw(st.sampled_from(["", "\x02"])))
    if odd and draw(st.booleans()):
        properties = draw(ODD_PROPERTIES)
    return BatchElement(draw(BODIES), properties, draw(FLAGS))


def listed(body: bytes, topic: str, queue_id: int, host: Host) -> list[Message]:
    """The twin: one message an element."""
    messages = []
    for element in decode_batch(body):
        properties = properties_of(element.properties.decode("utf-8", "replace"))
        properties.setdefault(UNIQ_KEY, "MADE")
        properties.pop("POP_CK", None)
        messages.append(
            Message(
                topic,
                element.body,
                queue_id=queue_id,
                properties=properties,
                flag=element.flag,
                born_timestamp=BORN,
                born_host=host,
            )
        )
    return messages


def outcome(batch: SentBatch, *, as_list: bool, has_crc: bool) -> tuple[object, dict[str, bytes]]:
    """What a put answers, or its error, and the files of the log and of the queues."""
    small = SmallStore(MemoryFileSystem(), Path("/store"))
    answer: object
    with small.open(enabled_append_prop_crc=has_crc) as store:
        store.topics.create("orders", 4)
        try:
            puts = store.put_messages(list(batch) if as_list else batch)
            answer = [(put.queue_offset, put.physical_offset, put.store_size) for put in puts]
        except StoreError as error:
            answer = type(error), str(error)
    return answer, {
        name: data for name, data in small.content.items() if name.startswith(("commitlog", "consumequeue"))
    }


def check(body: bytes, queue_id: int, host: Host, *, has_crc: bool) -> bool:
    """Whether the batch went the quick way."""

    def batch() -> SentBatch:
        return SentBatch(
            "orders",
            queue_id,
            body,
            BORN,
            host,
            lambda: listed(body, "orders", queue_id, host),
        )

    quick = batch()
    assert outcome(quick, as_list=False, has_crc=has_crc) == outcome(batch(), as_list=True, has_crc=has_crc)
    return not quick.is_listed


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    batch=st.lists(elements(odd=False), min_size=1, max_size=30),
    host=HOSTS,
    has_crc=st.booleans(),
)
def test_an_ordinary_batch_is_never_a_list(batch: list[BatchElement], host: str, has_crc: bool) -> None:
    """Tags, keys and flags are ordinary; each name comes once."""
    assert check(encode_batch(batch), 1, Host.parse(host), has_crc=has_crc)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    batch=st.lists(elements(odd=True), min_size=1, max_size=20),
    queue_id=st.sampled_from([0, 3, 4, 2**31 - 1]),
    host=HOSTS,
)
@example([BatchElement(b"x", b"UNIQ_KEY\x01A\x02own\x011\x02own\x012\x02")], 0, "127.0.0.1:1")
@example([BatchElement(b"x", b"UNIQ_KEY\x01A\x02DELAY\x012\x02")], 0, "127.0.0.1:1")
@example([BatchElement(b"x", b"")] * 20, 0, "127.0.0.1:1")
def test_an_odd_batch_is_its_list(batch: list[BatchElement], queue_id: int, host: str) -> None:
    """Names that come twice, pairs that are none, text that is none, delays, queues that are missing."""
    check(encode_batch(batch), queue_id, Host.parse(host), has_crc=False)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    batch=st.lists(elements(odd=False), min_size=1, max_size=4),
    at=st.integers(0, 200),
    change=st.binary(min_size=1, max_size=4),
    cut=st.integers(0, 5),
)
def test_a_broken_batch_is_refused_like_its_list(
    batch: list[BatchElement], at: int, change: bytes, cut: int
) -> None:
    """Lengths that do not add up are an error of the caller; the loops read nothing behind the body."""
    body = bytearray(encode_batch(batch))
    at %= len(body)
    body[at : at + len(change)] = change
    broken = bytes(body[: len(body) - cut])

    def outcome_of(*, as_list: bool) -> tuple[object, dict[str, bytes]]:
        host = Host.parse("127.0.0.1:1")
        sent = SentBatch("orders", 0, broken, BORN, host, lambda: listed(broken, "orders", 0, host))
        return outcome(sent, as_list=as_list, has_crc=False)

    assert outcome_of(as_list=False) == outcome_of(as_list=True)


@pytest.mark.parametrize("count", [1, 15, 16, 300, 65_536])
def test_batches_of_any_length(tmp_path: Path, count: int) -> None:
    """The count is written in three ways."""
    body = encode_batch([BatchElement(b"%d" % n, b"UNIQ_KEY\x01%d\x02" % n) for n in range(count)])
    host = Host.parse("127.0.0.1:1")
    batch = SentBatch("orders", 0, body, BORN, host, lambda: listed(body, "orders", 0, host))
    with MessageStore.open(tmp_path) as store:
        store.topics.create("orders", 1)
        puts = store.put_messages(batch)
        assert (len(puts), puts[-1].queue_offset, batch.is_listed) == (count, count - 1, False)
        last = store.look_message_by_offset(puts[-1].physical_offset)
        assert (last.body, last.unique_key) == (b"%d" % (count - 1), str(count - 1))
