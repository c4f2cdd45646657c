"""The text of offsets.json: the sample of section 6 of the spec byte by byte, and what is no such text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.broker.broker import MessageQueue
from mqstore.client.offsets.local_offset_format import decode, encode

SAMPLE = """{
	"offsetTable":{{
			"brokerName":"broker-a",
			"queueId":0,
			"topic":"TopicTest"
		}:42
	}
}"""
QUEUE = MessageQueue("TopicTest", "broker-a", 0)


def test_the_sample_of_the_spec() -> None:
    """Both ways."""
    assert encode({QUEUE: 42}) == SAMPLE.encode()
    assert decode(SAMPLE.encode()) == {QUEUE: 42}


def test_several_queues() -> None:
    """The next key follows its comma on the same line."""
    text = encode({QUEUE: 42, QUEUE._replace(queue_id=1): 7})
    assert b"}:42,{\n\t\t\t" in text
    assert decode(text) == {QUEUE: 42, QUEUE._replace(queue_id=1): 7}


def test_no_queue() -> None:
    """An empty table."""
    assert encode({}) == b'{\n\t"offsetTable":{}\n}'
    assert decode(encode({})) == {}


def test_white_space_and_the_order_of_fields_do_not_count() -> None:
    """As a reader of JSON takes them."""
    text = b' {"offsetTable" : { { "topic":"TopicTest", "queueId" : 0,"brokerName":"broker-a" } : 42 } } '
    assert decode(text.strip()) == {QUEUE: 42}


@given(
    st.dictionaries(
        st.builds(MessageQueue, st.text(), st.text(), st.integers(0, 2**31 - 1)),
        st.integers(0, 2**63 - 1),
        max_size=4,
    )
)
def test_what_is_written_is_read(offsets: dict[MessageQueue, int]) -> None:
    """Any names; surrogates aside, which are no text."""
    try:
        text = encode(offsets)
    except UnicodeEncodeError:
        return
    assert decode(text) == offsets


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"offsetTable":{',
        '{"offsetTable":{{"topic":"a","queueId":0}:1}}',
        '{"offsetTable":{{"topic":"a","brokerName":"b","queueId":"0"}:1}}',
        '{"offsetTable":{{"topic":"a","brokerName":"b","queueId":0}:1.5}}',
        '{"offsetTable":{{"topic":"a","brokerName":"b","queueId":0}:true}}',
        '{"offsetTable":{{"topic":"a","brokerName":"b","queueId":0} 1}}',
        '{"offsetTable":{{"topic":"a","brokerName":"b","queueId":0}:1 {"topic":"b"}:1}}',
        '{"offsetTable":{}}}',
        '{"offsetTable":{' + "[" * 100_000,
        "\x00",
    ],
    ids=lambda text: text[:60],
)
def test_what_is_no_such_text(text: str) -> None:
    """ValueError, whatever it is."""
    with pytest.raises(ValueError, match=r"missing|names no queue"):
        decode(text.encode())


def test_bytes_that_are_no_text() -> None:
    """ValueError too."""
    with pytest.raises(ValueError, match="utf-8"):
        decode(b"\xff")
