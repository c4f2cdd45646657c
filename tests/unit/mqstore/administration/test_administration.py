"""What an operator deletes and moves: by RocketMQ's rules, nothing else is lost, and a crash is harmless."""

import threading
from pathlib import Path

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.administration.administration import DeletedTopic
from mqstore.metadata.topics import TopicConfig
from mqstore.repair.rebuild import rebuild
from mqstore.repair.repair_plan import plan_repair
from mqstore.store.errors import (
    QueueIllegal,
    StoreClosed,
    StoreFull,
    StorePoisoned,
    StoreReadOnly,
    SubscriptionGroupNotExist,
    TopicIllegal,
    TopicNotExist,
)
from mqstore.store.files.file_system import FileSystem
from mqstore.store.files.memory_file_system import MemoryFileSystem
from mqstore.store.message.topic_names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    dead_letter_topic,
    retry_topic,
)
from mqstore.verify.verification import verify
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_log import small_config
from support.stores.small_store import SmallStore, directory_content, messages_of


@pytest.fixture
def aging(root: Path, clock: ManualClock) -> SmallStore:
    """A store whose files grow old by the clock of the test."""
    return SmallStore(MemoryFileSystem(clock=clock), root / "store", clock=clock)


def put(store: MessageStore, topic: str, count: int, queue_id: int = 0) -> None:
    for number in range(count):
        store.put_message(Message(topic, b"%s-%d" % (topic.encode(), number), queue_id=queue_id))


def fill(store: MessageStore) -> None:
    """Two queues of orders, one of events, and offsets of two groups."""
    put(store, "orders", 5)
    put(store, "orders", 3, queue_id=1)
    put(store, "events", 4)
    for group in ("billing", "mailing"):
        store.consumer_offsets.commit(group, "orders", 0, 4)
        store.consumer_offsets.commit(group, "events", 0, 2)


def is_sound(small: SmallStore) -> bool:
    return verify(small.path, file_system=small.file_system, clock=small.clock).is_sound


def bodies(store: MessageStore, topic: str, queue_id: int = 0) -> list[bytes]:
    return [bytes(message.body) for message in messages_of(store, topic, queue_id)]


EVENTS = [b"events-%d" % number for number in range(4)]


# -- a topic ------------------------------------------------------------------------------------------


def test_a_topic_goes_with_its_queues_and_offsets(small: SmallStore) -> None:
    """And nothing of another topic; after opening again, too."""
    with small.open() as store:
        fill(store)
        assert store.delete_topic("orders") == [DeletedTopic("orders", 2, 2, had_settings=True)]
        assert small.file_system.list(small.path / "consumequeue" / "orders") == []
        for check in (store, None):
            if check is None:
                store.close()
                check = small.open()  # noqa: PLW2901
            assert "orders" not in check.topics
            assert check.get_max_offset_in_queue("orders", 0) == 0
            assert check.consumer_offsets.query("billing", "orders", 0) == -1
            assert check.consumer_offsets.query("billing", "events", 0) == 2
            assert bodies(check, "events") == EVENTS
        check.close()
    assert is_sound(small)


def test_its_records_stay_in_the_log(small: SmallStore) -> None:
    """By their physical offset, and by their key, as with RocketMQ."""
    with small.open() as store:
        result = store.put_message(Message("orders", b"x", keys=("k",)))
        store.delete_topic("orders")
        assert store.look_message_by_offset(result.physical_offset) is not None
        assert len(store.query_message("orders", "k")) == 1


def test_a_topic_that_comes_again_begins_at_0(small: SmallStore) -> None:
    """At once, after a close, and after a kill; old messages do not come back."""
    with small.open() as store:
        fill(store)
        store.delete_topic("orders")
        assert store.put_message(Message("orders", b"new", queue_id=0)).queue_offset == 0
        assert bodies(store, "orders") == [b"new"]
    with small.open() as store:
        assert store.put_message(Message("orders", b"newer", queue_id=0)).queue_offset == 1
        assert store.put_message(Message("orders", b"other", queue_id=1)).queue_offset == 0
    assert is_sound(small)
    with small.open() as store:
        assert bodies(store, "orders") == [b"new", b"newer"]
        store.delete_topic("orders")
        assert store.put_message(Message("orders", b"third life", queue_id=0)).queue_offset == 0
        assert bodies(store, "orders") == [b"third life"]
    assert is_sound(small)


@pytest.mark.parametrize("comes_again", [False, True])
def test_a_rebuild_does_not_bring_it_back(small: SmallStore, comes_again: bool) -> None:
    """The queues are byte for byte those before; repair plans nothing."""
    with small.open() as store:
        fill(store)
        store.delete_topic("orders")
        if comes_again:
            put(store, "orders", 2)
    before = directory_content(small.file_system, small.path / "consumequeue")
    rebuild(small.path, file_system=small.file_system, clock=small.clock, queues=True)
    assert directory_content(small.file_system, small.path / "consumequeue") == before
    assert not plan_repair(small.path, file_system=small.file_system, clock=small.clock).is_needed


def test_messages_that_are_not_dispatched_yet_do_not_bring_it_back(small: SmallStore) -> None:
    """The dispatcher passes over them: they were put before the deletion."""
    with small.open() as store:
        put(store, "orders", 3)
        assert store.get_max_offset_in_queue("orders", 0) == 3
        put(store, "orders", 3)
        store.commit_log.delete_queues(
            lambda queue: queue[0] == "orders",
            lambda end_offset: store.consume_queues.delete_topic("orders", end_offset),
        )
        assert store.get_max_offset_in_queue("orders", 0) == 0
        put(store, "orders", 1)
        assert bodies(store, "orders") == [b"orders-0"]


def test_what_waits_is_delivered_all_the_same(small: SmallStore) -> None:
    """A deletion takes nothing that is still to be delivered; the topic is there again."""
    with small.open() as store:
        put(store, "orders", 2)
        store.put_message(Message("orders", b"later", delay_level=1, queue_id=0))
        store.delete_topic("orders")
        small.clock.advance(2_000)
        assert store.deliver_due() == 1
        assert bodies(store, "orders") == [b"later"]
        assert "orders" in store.topics
    assert is_sound(small)


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, "TBW102", TRANS_HALF_TOPIC, TIMER_TOPIC])
def test_system_topics_are_refused(small: SmallStore, topic: str) -> None:
    """What waits in them would be lost."""
    with small.open() as store:
        store.put_message(Message("orders", b"later", delay_level=1))
        with pytest.raises(TopicIllegal, match="is a system topic"):
            store.delete_topic(topic)
        assert store.get_max_offset_in_queue(SCHEDULE_TOPIC, 0) == 1


def test_retry_topics_of_pops_go_with_it(small: SmallStore) -> None:
    """Of both forms, for groups that have offsets in it; retry topics of groups stay."""
    with small.open() as store:
        fill(store)
        retries = ("billing+orders", "mailing_orders", "nobody+orders", "billing")
        for topic in map(retry_topic, retries):
            store.topics.add(topic, TopicConfig(topic_name=topic))
        deleted = [each.topic for each in store.delete_topic("orders")]
        assert deleted == ["orders", "%RETRY%billing+orders", "%RETRY%mailing_orders"]
        assert retry_topic("billing") in store.topics
        assert store.delete_topic(retry_topic("billing"))[0].had_settings
        assert not store.delete_topic(dead_letter_topic("billing"))[0].had_settings


def test_a_deletion_is_forgotten_once_its_records_are_gone(aging: SmallStore) -> None:
    """The list does not grow for ever."""
    with aging.open() as store:
        put(store, "orders", 1)
        store.delete_topic("orders")
        while len(store.commit_log.files.files) < 2:
            store.put_message(Message("events", bytes(50_000)))
        assert store.consume_queues.deleted.offsets
    aging.clock.advance(73 * 3_600_000)
    with aging.open() as store:
        assert store.delete_expired_files() == 1
    with aging.open() as store:
        assert not store.consume_queues.deleted.offsets


def test_readers_follow(file_system: FileSystem, root: Path) -> None:
    """A reader that has the queue open sees it go, and sees the one that comes after it."""
    small = SmallStore(file_system, root / "store")
    with small.open() as store:
        fill(store)
        store.flush()
        with small.open(read_only=True) as reader:
            lent = reader.get_message("billing", "orders", 0, 0).messages
            store.delete_topic("orders")
            reader.refresh()
            assert reader.get_max_offset_in_queue("orders", 0) == 0
            assert bytes(lent[0].body) == b"orders-0"
            store.put_message(Message("orders", b"new", queue_id=0))
            store.flush()
            reader.refresh()
            assert bodies(reader, "orders") == [b"new"]
            store.delete_topic("orders")
            store.put_message(Message("orders", b"newer", queue_id=0))
            store.flush()
            reader.refresh()
            assert bodies(reader, "orders") == [b"newer"]


@pytest.mark.slow
def test_beside_puts_each_queue_is_whole(root: Path) -> None:
    """Puts of several threads while their topic is deleted again and again: no hole, no offset twice."""
    small = SmallStore(MemoryFileSystem(), root)
    with small.open() as store:
        stopping = threading.Event()
        deletions: list[object] = []

        def produce(queue_id: int) -> None:
            puts = 0
            while not stopping.is_set():
                # A deletion dispatches what was put before. Compiled puts are quicker than that in files so
                # small, and each deletion would take longer than the one before it.
                if puts >= 200 * (1 + len(deletions)):
                    stopping.wait(0.001)
                    continue
                store.put_message(Message("orders", b"x", queue_id=queue_id))
                puts += 1

        threads = [threading.Thread(target=produce, args=(queue_id,)) for queue_id in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            deletions.append(store.delete_topic("orders"))
            store.get_message("billing", "orders", 0, 0)
        stopping.set()
        for thread in threads:
            thread.join()
        for queue_id in range(3):
            count = store.get_max_offset_in_queue("orders", queue_id)
            assert len(messages_of(store, "orders", queue_id)) == count
        assert store.stats().errors == {}
    assert is_sound(small)


@pytest.mark.slow
@pytest.mark.parametrize("comes_again", [False, True])
def test_a_power_cut_at_any_step_leaves_a_sound_store(comes_again: bool) -> None:
    """Before and after it is opened; the other topic is whole, and the deletion can be done again."""
    disk = SimulatedDisk()
    small = SmallStore(disk, Path("/store"), clock=ManualClock())
    settings = {"key_index": "lmdb", "flush_disk_type": "SYNC_FLUSH"}
    with small.open(**settings) as store:
        fill(store)
        put(store, "orders", 150)
    disk = SimulatedDisk(disk.image(), clock=small.clock)
    medium, small.file_system = Medium(disk), disk
    with small.open(**settings) as store:
        store.delete_topic("orders")
        if comes_again:
            put(store, "orders", 2)
    outcomes = set()
    for number, step in enumerate(disk.steps):
        medium.apply(step)
        units = medium.units()
        for seed in range(3):
            choices = choose(units, seed, 3, f"{number}")
            if choices is None:
                break
            image = SimulatedDisk(medium.image(units, choices), clock=small.clock)
            crashed = SmallStore(image, small.path, clock=small.clock)
            assert is_sound(crashed)
            with crashed.open(**settings) as store:
                outcomes.add(len(bodies(store, "orders")))
                # Once it is remembered, nothing of before comes back.
                is_remembered = "orders" in store.consume_queues.deleted.offsets
                assert len(bodies(store, "orders")) <= 2 or not is_remembered
                assert bodies(store, "events") == EVENTS
                # What comes after a deletion is skipped by no group.
                offset = store.consumer_offsets.query("billing", "orders", 0)
                assert offset == -1 or len(bodies(store, "orders")) == 155
                store.delete_topic("orders")
                assert store.put_message(Message("orders", b"again", queue_id=0)).queue_offset == 0
                assert bodies(store, "orders") == [b"again"]
            assert is_sound(crashed)
    assert outcomes == ({155, 0, 1, 2} if comes_again else {155, 0})


def test_a_log_that_lost_its_tail_loses_no_message_that_comes_after(root: Path) -> None:
    """The deletion's offset is then the log's end: what is put there is found."""
    disk = SimulatedDisk()
    small = SmallStore(disk, root)
    with small.open(key_index="lmdb") as store:
        put(store, "orders", 3)
    image = disk.image()
    with small.open(key_index="lmdb") as store:
        put(store, "orders", 100)
        store.delete_topic("orders")
    later = disk.image()
    # The log of before, the settings of after.
    names = ("mqstore/settings", "config/topics.json", "config/consumerOffset.json")
    image.files.update({root / name: later.files[root / name] for name in names})
    small.file_system = SimulatedDisk(image)
    with small.open(key_index="lmdb") as store:
        end = store.max_offset
        assert store.consume_queues.deleted.offsets == {"orders": end}
        put(store, "orders", 2)
        assert bodies(store, "orders") == [b"orders-0", b"orders-1"]
    assert is_sound(small)


def test_a_full_disk_leaves_the_queues(root: Path) -> None:
    """The deletion cannot be remembered, so nothing is deleted; it can be done again."""

    class Filling(MemoryFileSystem):
        is_full = False

        def write(self, path: Path, data: bytes) -> None:
            if self.is_full and path.name == "settings.tmp":
                raise StoreFull(path, len(data), "no space")
            super().write(path, data)

    disk = Filling()
    small = SmallStore(disk, root)
    with small.open() as store:
        fill(store)
        disk.is_full = True
        with pytest.raises(StoreFull):
            store.delete_topic("orders")
        assert len(bodies(store, "orders")) == 5
        disk.is_full = False
        assert store.delete_topic("orders")[0].queues == 2
        put(store, "orders", 1)


def test_a_disk_that_fails_in_between_stops_the_writer(root: Path) -> None:
    """Half a deletion is finished by the next opening."""

    class Failing(MemoryFileSystem):
        fails = False

        def delete(self, path: Path) -> None:
            if self.fails and "orders/1" in str(path):
                raise OSError(5, "Input/output error")
            super().delete(path)

    disk = Failing()
    small = SmallStore(disk, root)
    store = small.open()
    fill(store)
    disk.fails = True
    with pytest.raises(StorePoisoned):
        store.delete_topic("orders")
    disk.fails = False
    store.close()
    with small.open() as store:
        assert bodies(store, "orders") == bodies(store, "orders", 1) == []
        assert store.put_message(Message("orders", b"x", queue_id=1)).queue_offset == 0
        assert bodies(store, "events") == EVENTS
    assert is_sound(small)


# -- groups and offsets -------------------------------------------------------------------------------


@pytest.mark.parametrize("clean_offset", [False, True])
def test_a_group_goes_with_or_without_its_offsets(small: SmallStore, clean_offset: bool) -> None:
    """`cleanOffset` of RocketMQ; another group stays."""
    with small.open() as store:
        fill(store)
        assert store.delete_subscription_group("billing", clean_offset=clean_offset)
        assert not store.delete_subscription_group("nobody", clean_offset=clean_offset)
    with small.open() as store:
        assert "billing" not in store.subscription_groups
        assert store.consumer_offsets.query("billing", "orders", 0) == (-1 if clean_offset else 4)
        assert store.consumer_offsets.query("mailing", "orders", 0) == 4


def test_offsets_are_deleted_by_group_topic_and_queue(small: SmallStore) -> None:
    """Durably with the next persist; a pending reset goes with them."""
    with small.open() as store:
        fill(store)
        store.consumer_offsets.commit("billing", "orders", 1, 2)
        store.consumer_offsets.reset("billing", "orders", 0, 1)
        assert len(store.consumer_offsets.delete("billing", "orders", 0)) == 1
        assert store.consumer_offsets.query("billing", "orders", 0) == -1
        assert store.consumer_offsets.query("billing", "orders", 1) == 2
        assert {row.topic for row in store.consumer_offsets.delete("mailing")} == {"orders", "events"}
        assert len(store.consumer_offsets) == 2


def test_an_offset_is_reset_to_a_number_a_time_and_the_end(small: SmallStore) -> None:
    """In one queue or in all; consumers that commit meanwhile do not undo it."""
    with small.open() as store:
        for second in range(5):
            store.put_message(Message("orders", b"x", queue_id=0))
            store.put_message(Message("orders", b"x", queue_id=1))
            small.clock.advance(1_000)
            if second == 1:
                then = small.clock.now_ms()
        store.consumer_offsets.commit("billing", "orders", 0, 5)
        assert store.reset_offset("billing", "orders", 0, offset=1) == {0: 1}
        store.consumer_offsets.commit("billing", "orders", 0, 5)
        assert store.consumer_offsets.query("billing", "orders", 0) == 1
        moved = store.reset_offset("billing", "orders", timestamp_ms=then)
        assert {queue_id: moved[queue_id] for queue_id in (0, 1, 2)} == {0: 2, 1: 2, 2: 0}
        assert store.reset_offset("billing", "orders", 1) == {1: 5}
    with small.open() as store:
        assert store.consumer_offsets.query("billing", "orders", 0) == 2
        assert store.consumer_offsets.query("billing", "orders", 1) == 5


def test_a_reset_to_nowhere_is_refused(small: SmallStore) -> None:
    """An offset that the queue does not have; a topic or group that is not there is not created."""
    with small.open() as store:
        fill(store)
        for offset in (-1, 6):
            with pytest.raises(QueueIllegal, match="which has 0 to 5"):
                store.reset_offset("billing", "orders", 0, offset=offset)
        with pytest.raises(TopicNotExist):
            store.reset_offset("billing", "nothing")
        with pytest.raises(SubscriptionGroupNotExist):
            store.reset_offset("nobody", "orders")
        assert "nothing" not in store.topics
        assert store.consumer_offsets.query("billing", "orders", 0) == 4


# -- files --------------------------------------------------------------------------------------------


def segments(store: MessageStore, count: int, topic: str = "events") -> None:
    while len(store.commit_log.files.files) < count:
        store.put_message(Message(topic, bytes(50_000)))


def test_expired_files_go_at_any_hour(aging: SmallStore) -> None:
    """As many as have expired, and never what is still to be delivered."""
    with aging.open(delete_when="04", delete_file_batch_max=1, message_delay_level="10d") as store:
        segments(store, 3)
        store.put_message(Message("orders", b"later", delay_level=1))
        segments(store, 6)
        assert store.delete_expired_files() == 0
        aging.clock.advance(73 * 3_600_000)
        waits_in = 2
        assert store.delete_expired_files() == waits_in
        assert store.delete_expired_files() == 0
        assert store.get_min_offset_in_queue("events", 0) > 0
        aging.clock.advance(10 * 86_400_000)
        assert store.deliver_due() == 1
        assert bodies(store, "orders") == [b"later"]
    assert is_sound(aging)


def test_queues_of_which_nothing_is_left_go(aging: SmallStore) -> None:
    """Their groups are set to 0, so that they get what comes; other queues and system topics stay."""
    with aging.open() as store:
        put(store, "orders", 3)
        store.put_message(Message("billing", b"later", delay_level=1))
        aging.clock.advance(2_000)
        store.deliver_due()
        store.consumer_offsets.commit("billing", "orders", 0, 3)
        segments(store, 2)
        assert store.delete_expired_queues() == []
        aging.clock.advance(73 * 3_600_000)
        assert store.delete_expired_files() == 1
        assert store.delete_expired_queues() == [("billing", 0), ("orders", 0)]
        assert ("orders", 0) not in store.consume_queues.queues()
        assert (SCHEDULE_TOPIC, 0) in store.consume_queues.queues()
        assert store.put_message(Message("orders", b"new", queue_id=0)).queue_offset == 0
        assert store.consumer_offsets.query("billing", "orders", 0) == 0
        assert bodies(store, "orders") == [b"new"]
    assert is_sound(aging)
    with aging.open() as store:
        assert bodies(store, "orders") == [b"new"]


@pytest.mark.slow
def test_a_power_cut_around_an_expired_queue_skips_no_message(clock: ManualClock) -> None:
    """The groups stand at 0 before the queue goes."""
    settings = {"key_index": "lmdb", "flush_disk_type": "SYNC_FLUSH", "file_reserved_time": 0}
    disk = SimulatedDisk(clock=clock)
    small = SmallStore(disk, Path("/store"), clock=clock)
    with small.open(**settings) as store:
        put(store, "orders", 3)
        store.consumer_offsets.commit("billing", "orders", 0, 3)
        segments(store, 2)
        assert store.delete_expired_files() == 1
    disk = SimulatedDisk(disk.image(), clock=clock)
    medium, small.file_system = Medium(disk), disk
    with small.open(**settings) as store:
        assert store.delete_expired_queues() == [("orders", 0)]
        store.put_message(Message("orders", b"new", queue_id=0))
    for number, step in enumerate(disk.steps):
        medium.apply(step)
        units = medium.units()
        for seed in range(2):
            choices = choose(units, seed, 2, f"{number}")
            if choices is None:
                break
            image = SimulatedDisk(medium.image(units, choices), clock=clock)
            crashed = SmallStore(image, small.path, clock=clock)
            assert is_sound(crashed)
            with crashed.open(**settings) as store:
                store.delete_expired_queues()
                put(store, "orders", 1)
                offset = store.consumer_offsets.query("billing", "orders", 0)
                result = store.get_message("billing", "orders", 0, max(0, offset))
                assert result.next_begin_offset <= store.get_max_offset_in_queue("orders", 0)
                count = len(bodies(store, "orders"))
                assert offset <= store.get_max_offset_in_queue("orders", 0) - count


def test_queues_of_topics_without_settings_go(small: SmallStore) -> None:
    """Those of topics with settings and of system topics stay."""
    with small.open() as store:
        fill(store)
        store.put_message(Message("orders", b"later", delay_level=1))
        assert store.delete_unused_topics() == []
        store.topics.remove("orders")
        assert [each.topic for each in store.delete_unused_topics()] == ["orders"]
        assert {topic for topic, _ in store.consume_queues.queues()} == {"events", SCHEDULE_TOPIC}
    assert is_sound(small)


def test_who_may_not_write_may_not_delete(small: SmallStore) -> None:
    """A reader, and a store that is closed."""
    with small.open() as store:
        fill(store)
        store.flush()
        with small.open(read_only=True) as reader:
            for act in _acts(reader):
                with pytest.raises(StoreReadOnly):
                    act()
            with pytest.raises(StoreReadOnly):
                reader.consumer_offsets.delete("billing")
            with pytest.raises(StoreReadOnly):
                reader.topics.remove("orders")
    for act in (*_acts(store), store.expired_files, store.expired_queues, store.unused_topics):
        with pytest.raises(StoreClosed):
            act()


def _acts(store: MessageStore) -> tuple[object, ...]:
    return (
        lambda: store.delete_topic("orders"),
        lambda: store.delete_subscription_group("billing"),
        lambda: store.reset_offset("billing", "orders"),
        store.delete_expired_files,
        store.delete_unused_topics,
        store.delete_expired_queues,
    )


def test_the_small_config_is_what_the_tests_think() -> None:
    """Several queue files for a hundred messages."""
    assert isinstance(small_config(), StoreConfig)
    assert small_config().mapped_file_size_consume_queue == 2_000
