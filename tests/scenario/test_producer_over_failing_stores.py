"""A producer over three stores, of which one has a full disk and one is poisoned.

No message is refused while one store is sound, and none that was acknowledged is lost: not when the process
is killed, and not when the power is cut. Method: three real stores in SYNC_FLUSH on simulated disks, two of
which begin to fail in the midst of it; then each directory is opened again on what its disk holds.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from mqstore import Message, MessageStore
from mqstore.client.errors import SendFailed
from mqstore.client.producer.producer import Producer
from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.client.producer.send_result import SendResult, SendStatus
from mqstore.store.errors import StoreClosed, StoreError, StoreFull, StorePoisoned
from support.manual_clock import ManualClock
from support.stores.shard import Shard
from support.stores.small_store import kill, messages_of


@pytest.fixture
def shards(clock: ManualClock) -> Iterator[list[Shard]]:
    made = [Shard(name, clock) for name in ("full", "poisoned", "sound")]
    yield made
    for shard in made:
        shard.broker.close()
        kill(shard.store)


def producer_over(shards: list[Shard], **settings: int) -> Producer:
    return Producer([shard.broker for shard in shards], "billing", ProducerSettings(**settings))


def message(number: int) -> Message:
    """A message of 3,000 bytes: some of them fill a window."""
    return Message("orders", b"%04d" % number + bytes(2_996))


Send = Callable[[Producer, list[Shard], range], dict[bytes, SendResult]]


def send_all(producer: Producer, shards: list[Shard], numbers: range) -> dict[bytes, SendResult]:
    """By body, what a SYNC send answers."""
    return {bytes(message(number).body): producer.send(message(number)) for number in numbers}


def send_all_async(producer: Producer, shards: list[Shard], numbers: range) -> dict[bytes, SendResult]:
    """As `send_all`, all of them under way at once. The stores have no services: they sync here."""
    futures = {bytes(message(number).body): producer.send_async(message(number)) for number in numbers}
    while not all(future.done() for future in futures.values()):
        for shard in shards:
            with contextlib.suppress(StoreError):
                shard.store.flush()
    return {body: future.result(60) for body, future in futures.items()}


def send_all_in_batches(producer: Producer, shards: list[Shard], numbers: range) -> dict[bytes, SendResult]:
    """As `send_all`, five at a time."""
    sent: dict[bytes, SendResult] = {}
    for start in numbers[::5]:
        messages = [message(number) for number in range(start, start + 5)]
        results = producer.send_batch(messages).each
        sent |= {bytes(each.body): result for each, result in zip(messages, results, strict=True)}
    return sent


def found_in(store: MessageStore) -> dict[str, tuple[int, int, bytes]]:
    """By UNIQ_KEY, where each message is, and what."""
    return {
        message.unique_key or "": (queue_id, message.queue_offset, message.body)
        for queue_id in range(2)
        for message in messages_of(store, "orders", queue_id)
    }


@pytest.mark.slow
@pytest.mark.parametrize("reopen", [Shard.after_kill, Shard.after_power_cut], ids=["kill", "power cut"])
@pytest.mark.parametrize("send", [send_all, send_all_async, send_all_in_batches])
def test_nothing_is_refused_and_nothing_is_lost(
    shards: list[Shard],
    send: Send,
    reopen: Callable[[Shard], MessageStore],
) -> None:
    """Every send is answered SEND_OK, and its message is where the answer says."""
    full, poisoned, _ = shards
    with producer_over(shards) as producer:
        sent = send(producer, shards, range(60))
        assert {result.message_queue.broker_name for result in sent.values()} == {"full", "poisoned", "sound"}
        full.fill_up()
        poisoned.break_down()
        sent |= send(producer, shards, range(60, 260))
    with pytest.raises(StoreFull):
        full.store.put_messages([Message("orders", bytes(3_000))] * 40)
    with pytest.raises(StorePoisoned):
        poisoned.store.put_message(Message("orders", b"x"))
    assert {result.send_status for result in sent.values()} == {SendStatus.SEND_OK}
    kept = {shard.name: found_in(reopen(shard)) for shard in shards}
    for body, result in sent.items():
        _, broker_name, queue_id = result.message_queue
        assert kept[broker_name][result.msg_id] == (queue_id, result.queue_offset, body)
    late = [result.message_queue.broker_name for result in list(sent.values())[160:]]
    assert set(late) == {"sound"}, "a disk that fails is full, or poisoned, for good here"


def test_room_that_comes_back_is_used(shards: list[Shard]) -> None:
    """A store whose disk was full takes messages again; nobody needs to start anything anew."""
    full = shards[0]
    with producer_over(shards) as producer:
        full.fill_up()
        send_all(producer, shards, range(200))
        full.disk.before = lambda what, path: None
        again = send_all(producer, shards, range(200, 260)).values()
    assert "full" in {result.message_queue.broker_name for result in again}


def test_when_all_have_failed_the_send_says_why(shards: list[Shard]) -> None:
    """One full, one poisoned, one closed: the errors of all three, in one."""
    full, poisoned, sound = shards
    full.fill_up()
    poisoned.break_down()
    sound.store.close()
    with (
        producer_over(shards, retry_times_when_send_failed=20) as producer,
        pytest.raises(SendFailed) as caught,
    ):
        send_all(producer, shards, range(60))
    assert {type(error) for error in caught.value.errors} == {StoreFull, StorePoisoned, StoreClosed}
    assert set(caught.value.brokers_sent) == {"full", "poisoned", "sound"}
