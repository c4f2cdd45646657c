"""Pulls as requests: what an answer says in each of its codes, and which bodies are refused."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from mqstore import Message, MessageStore
from mqstore.broker.broker import PullRequest
from mqstore.client.errors import BrokerRefused
from mqstore.client.remote.pull_calls import messages_in, pull_answer_of, pull_fields_of
from mqstore.remoting.command import ROCKETMQ, Command
from mqstore.remoting.errors import BodyIllegal, FieldsIllegal
from mqstore.store.status import GetMessageStatus, ResponseCode

REQUEST = PullRequest("billing", "orders", 1, 7, 32, "*", 15_000)
OFFSETS = {"nextBeginOffset": "9", "minOffset": "0", "maxOffset": "9", "suggestWhichBrokerId": "0"}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Records of tags A and B in turn, as they lie in a log."""
    path: Path = tmp_path_factory.mktemp("pulled")
    with MessageStore.open(path) as store:
        for number in range(4):
            store.put_message(Message("orders", b"%d" % number, tags="AB"[number % 2]))
        return b"".join(each.record for each in store.get_message("g", "orders", 0, 0).messages)


def answer(
    code: int = 0, body: bytes = b"", fields: dict[str, str] | None = None, remark: str | None = None
) -> Command:
    return Command(
        code, 1, 1, "JAVA", 513, remark, OFFSETS if fields is None else fields, memoryview(body), ROCKETMQ
    )


def test_the_subscription_goes_with_the_pull() -> None:
    """sysFlag 6: it may be held, and what the heartbeat said does not count."""
    fields = pull_fields_of(replace(REQUEST, subscription="A || B"))
    assert fields["sysFlag"] == "6"
    assert fields["subscription"] == "A || B"
    assert (fields["queueId"], fields["queueOffset"], fields["maxMsgNums"]) == ("1", "7", "32")
    assert pull_fields_of(replace(REQUEST, suspend_ms=0))["sysFlag"] == "4"


def test_messages_are_views_of_what_came(records: bytes) -> None:
    body = memoryview(records)
    messages = messages_in(body)
    assert [message.body for message in messages] == [b"0", b"1", b"2", b"3"]
    assert all(message.data is body for message in messages)


def test_what_was_found(records: bytes) -> None:
    found = pull_answer_of(answer(0, records), REQUEST, "broker-a")
    assert (found.status, len(found.messages), found.size_bytes) == (GetMessageStatus.FOUND, 4, len(records))
    assert (found.next_begin_offset, found.min_offset, found.max_offset) == (9, 0, 9)
    assert not found.is_illegal


def test_messages_with_other_tags_are_dropped(records: bytes) -> None:
    """A broker compares hashes; if none is left, the pull has matched nothing."""
    only_b = pull_answer_of(answer(0, records), replace(REQUEST, subscription="B"), "broker-a")
    assert [message.body for message in only_b.messages] == [b"1", b"3"]
    none = pull_answer_of(answer(0, records), replace(REQUEST, subscription="C"), "broker-a")
    assert (none.status, none.messages) == (GetMessageStatus.NO_MATCHED_MESSAGE, [])


@pytest.mark.parametrize(
    ("code", "remark", "status", "is_illegal"),
    [
        (19, None, GetMessageStatus.OFFSET_FOUND_NULL, False),
        (19, "OFFSET_OVERFLOW_ONE", GetMessageStatus.OFFSET_OVERFLOW_ONE, False),
        (20, "NO_MATCHED_MESSAGE", GetMessageStatus.NO_MATCHED_MESSAGE, False),
        (20, "anything", GetMessageStatus.NO_MATCHED_MESSAGE, False),
        (21, None, GetMessageStatus.OFFSET_OVERFLOW_BADLY, True),
        (21, "OFFSET_TOO_SMALL", GetMessageStatus.OFFSET_TOO_SMALL, True),
    ],
)
def test_what_was_not_found(
    code: int, remark: str | None, status: GetMessageStatus, *, is_illegal: bool
) -> None:
    found = pull_answer_of(answer(code, remark=remark), REQUEST, "broker-a")
    assert (found.status, found.messages, found.is_illegal) == (status, [], is_illegal)
    assert found.next_begin_offset == 9


@pytest.mark.parametrize("code", [1, 2, 16, 17, 24, 25, 26, 29, 215, 999])
def test_refusals(code: int) -> None:
    with pytest.raises(BrokerRefused) as refusal:
        pull_answer_of(answer(code, remark="why"), REQUEST, "broker-a")
    assert refusal.value.answer_code == code
    assert (refusal.value.response_code == ResponseCode.FLOW_CONTROL) is (code == 215)


@pytest.mark.parametrize("name", ["nextBeginOffset", "minOffset", "maxOffset"])
@pytest.mark.parametrize("value", [None, "", "x"])
def test_an_answer_without_its_offsets(name: str, value: str | None) -> None:
    fields = {key: text for key, text in OFFSETS.items() if key != name}
    if value is not None:
        fields[name] = value
    with pytest.raises(FieldsIllegal):
        pull_answer_of(answer(fields=fields), REQUEST, "broker-a")


def test_bodies_that_are_no_records(records: bytes) -> None:
    """Cut at any byte, or with any length changed: an error with a name, or whole records only."""
    sizes = [message.stop for message in messages_in(memoryview(records))]
    for stop in range(1, len(records)):
        if stop in sizes:
            continue
        with pytest.raises(BodyIllegal):
            messages_in(memoryview(records[:stop]))
    for at in range(4):
        for value in (0, 1, 0x7F, 0xFF):
            broken = bytearray(records)
            if broken[at] != value:
                broken[at] = value
                with pytest.raises(BodyIllegal):
                    messages_in(memoryview(bytes(broken)))
