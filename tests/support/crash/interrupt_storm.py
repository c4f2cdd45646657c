"""The interrupt storm: every operation of a store, ended by an exception at each place where one can strike.

Python runs the handlers of signals in the main thread, and looks for signals where a function begins and
where a call of C has returned; what a handler raises comes out there. `Strike` raises at the n-th such place,
whatever module it is in, so that a scene that failed can be played again. (Imports are left out: one that is
interrupted is Python's own affair. So are the callbacks of weak sets, where Python only tells what a handler
raises.) `storm` uses real signals instead, with other threads at work beside.

`StormyStore` is a store to which all of it happens, with what it acknowledged. `audit` then asks for the
promises: each acknowledged message is there, and is found by its key; queue offsets have neither holes nor
twins; every operation ends, also in another thread.
"""

import errno
import gc
import itertools
import random
import shutil
import signal
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from mqstore import Message, MessageStore, StoreConfig
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.store.errors import StoreClosed
from mqstore.store.threads.lock import Lock
from mqstore.verify.verification import verify
from support.stores.small_log import small_config

__all__ = ["OPERATIONS", "StormyStore", "Strike", "Struck", "storm", "struck", "sweep"]

TOPICS = ("orders", "bills")
GROUP = "group"
PASSING = "passing"
QUEUES = 2
_BOUND_S = 120
_FIRST_MESSAGES = 8
_STRIKES_OF_A_STORE = 200
_HERE = str(Path(__file__).parent)
_WEAK_SETS = sys.modules[weakref.WeakSet.__module__].__file__


class Struck(Exception):
    """What the handler raises: an ordinary exception, which no `except Exception` may swallow either."""


class StruckByAlarm(Struck, TimeoutError):
    """As the handlers of alarms raise it: an OSError that no call of the system has given."""


class StruckByMissingFile(Struck, FileNotFoundError):
    """Of a handler that looks for a file of its own: even its number is that of the system."""


def struck(number: int, where: str = "") -> Struck:
    """One of each kind in turn."""
    return (
        Struck(where),
        StruckByAlarm(where),
        StruckByMissingFile(errno.ENOENT, "no such file", where),
    )[number % 3]


class Strike:
    """Raises Struck, of a kind, at the `place`-th place of the thread that enters it; the first is 1."""

    def __init__(self, place: int, shift: int = 0) -> None:
        if place == 1:
            # What others have left behind would be struck while it is finalized.
            gc.collect()
        self.place = place
        self._shift = shift
        self.passed = 0
        self.where = "nowhere"
        # Kept, because CPython 3.11 goes on calling it after a strike in a finalizer that ran while the frame
        # for another call of it was made.
        self._hook = self._profile

    def __enter__(self) -> "Strike":
        self._before = sys.getprofile()
        sys.setprofile(self._hook)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    @property
    def has_struck(self) -> bool:
        return self.passed >= self.place

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event not in ("call", "c_return") or self.has_struck:
            return
        if sys._getframe(1) is not frame:
            # A compiled loop, of which numba tells as of a function; no handler runs where it is called.
            return
        name = frame.f_code.co_filename
        if name.startswith((_HERE, "<frozen importlib")) or name == _WEAK_SETS:
            return
        self.passed += 1
        if self.has_struck:
            if _is_importing(frame):
                self.passed -= 1
                return
            called = getattr(argument, "__qualname__", "") if event == "c_return" else ""
            self.where = f"{name}:{frame.f_lineno} {frame.f_code.co_qualname} {event} {called}"
            raise struck(self.place + self._shift, self.where)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Acknowledged(NamedTuple):
    """One message that was acknowledged."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes
    key: str


class StormyStore:
    """A store in a directory, opened by hand, and all that it acknowledged."""

    def __init__(self, path: Path, *, start: bool = False, **settings: Any) -> None:
        self.path = path
        self.config: StoreConfig = small_config(**settings)
        self.acknowledged: list[Acknowledged] = []
        self.acknowledged_before = 0
        self.chance = random.Random(1)
        self._start = start
        self._numbers = iter(range(1 << 62))
        # Of the package: the strikes meet it, too.
        self._guard = Lock()
        self.store = self.open()

    def begin_anew(self) -> None:
        """Ask for all promises, and go on with a new store.

        An interrupt may leave something behind that costs a little: a topic half deleted, a future whose lock
        stays taken. Thousands of them in one store would be all that a sweep has to do.
        """
        self.audit()
        self.audit_closed()
        self.destroy()
        self.acknowledged_before += len(self.acknowledged)
        self.acknowledged.clear()
        # At another place: a reader that was struck keeps the key index of this path open.
        self.path = self.path.with_name(f"data-{next(self._numbers)}")
        self.open()
        self.put_some()

    def put_some(self) -> None:
        """So that there is something to read, to send back and to lose."""
        for _ in range(_FIRST_MESSAGES):
            self.put_message()

    def open(self) -> MessageStore:
        self.store = MessageStore.open(self.path, self.config, start=self._start)
        return self.store

    # -- operations -----------------------------------------------------------------------------------

    def _message(self, topic: str | None = None, queue_id: int | None = None, **fields: Any) -> Message:
        with self._guard:
            number = next(self._numbers)
        return Message(
            topic or TOPICS[number % len(TOPICS)],
            b"%d" % number * (1 + number % 40),
            queue_id=number % QUEUES if queue_id is None else queue_id,
            keys=(f"k{number}",),
            tags="even" if number % 2 == 0 else "odd",
            **fields,
        )

    def _acknowledge(self, messages: Iterable[Message], puts: Iterable[Any]) -> None:
        for message, put in zip(messages, puts, strict=True):
            place = put.topic, put.queue_id, put.queue_offset, put.physical_offset
            self.acknowledged.append(Acknowledged(*place, bytes(message.body), message.keys[0]))

    def put_message(self) -> None:
        message = self._message()
        self._acknowledge([message], [self.store.put_message(message)])

    def put_few(self) -> None:
        messages = [self._message() for _ in range(3)]
        self._acknowledge(messages, self.store.put_messages(messages))

    def put_many(self) -> None:
        messages = [self._message() for _ in range(30)]
        self._acknowledge(messages, self.store.put_messages(messages))

    def put_columns(self) -> None:
        messages = [self._message("orders", 0) for _ in range(5)]
        put = self.store.put_columns(
            {
                "topic": "orders",
                "queue_id": 0,
                "body": [bytes(message.body) for message in messages],
                "keys": [message.keys[0] for message in messages],
            }
        )
        self.acknowledged += [
            Acknowledged("orders", 0, int(at), int(place), bytes(message.body), message.keys[0])
            for message, at, place in zip(messages, put.queue_offsets, put.physical_offsets, strict=True)
        ]

    def put_async(self) -> None:
        message = self._message()
        future = self.store.put_message_async(message)
        self._acknowledge([message], [future.result()])

    def put_async_with_callback(self) -> None:
        message = self._message()
        future = self.store.put_message_async(message)
        future.add_done_callback(lambda _: None)
        if not self._start:
            self.store.flush()
        self._acknowledge([message], [future.result(timeout=_BOUND_S)])

    def put_delayed(self) -> None:
        self.store.put_message(self._message(delay_level=1))

    def get(self) -> None:
        for count in (1, 32):
            self.store.get_message(GROUP, "orders", 0, 0, count)
        self.store.get_message(GROUP, "orders", 0, 0, 8, tags="even")

    def query(self) -> None:
        self.store.query_message("orders", f"k{self.chance.randrange(100)}")

    def look(self) -> None:
        self.store.look_message_by_offset(self.acknowledged[0].physical_offset)

    def look_by_time(self) -> None:
        self.store.get_offset_in_queue_by_time("orders", 0, 0)
        self.store.wait_for_messages("orders", 0, 0, 10)

    def to_arrow(self) -> None:
        self.store.to_arrow("orders", 0, 0, 50)

    def send_back(self) -> None:
        self.store.consumer_send_msg_back(GROUP, self.acknowledged[-1].physical_offset, 1)

    def deliver(self) -> None:
        self.store.deliver_due()

    def flush(self) -> None:
        self.store.flush()

    def commit(self) -> None:
        self.store.consumer_offsets.commit(GROUP, "orders", 0, 3)
        self.store.consumer_offsets.reset(GROUP, "orders", 1, 1)
        self.store.consumer_offsets.take_reset(GROUP, "orders", 1)

    def create_topic(self) -> None:
        self.store.topics.create(f"topic{self.chance.randrange(4)}", self.chance.randrange(1, 5))

    def delete_topic(self) -> None:
        """One of whose messages nothing was promised."""
        with self._guard:
            topic = f"{PASSING}{next(self._numbers)}"
        self.store.put_message(Message(topic, b"body"))
        self.store.get_message(GROUP, topic, 0, 0)
        self.store.delete_topic(topic)

    def administer(self) -> None:
        self.store.subscription_groups.create(PASSING)
        self.store.consumer_offsets.commit(PASSING, "orders", 0, 3)
        self.store.reset_offset(PASSING, "orders", 0, offset=0)
        self.store.delete_subscription_group(PASSING, clean_offset=True)
        self.store.delete_expired_files()
        self.store.delete_expired_queues()
        self.store.delete_unused_topics()

    def retain(self) -> None:
        self.store._services.retain()

    def serve(self) -> None:
        """A round of each service."""
        self.store._flusher.run_once()
        self.store._flusher.commit_group()
        self.store._services.dispatch()
        self.store._persistence.flush_in_background()
        self.store._persistence.persist_state()
        self.store._persistence.persist_delay_offsets()
        self.store.commit_log.reserve_ahead()

    def stats(self) -> None:
        self.store.stats()

    def read_beside(self) -> None:
        with MessageStore.open(self.path, self.config, read_only=True) as reader:
            reader.get_message(GROUP, "orders", 0, 0)
            reader.refresh()
            reader.query_message("orders", "k1")

    def reopen(self) -> None:
        self.store.close()
        self.open()

    def verify(self) -> None:
        self.store.close()
        verify(self.path, self.config)

    def repair(self) -> None:
        self.store.close()
        repair_in_place(self.path, self.config)

    # -- what must hold -------------------------------------------------------------------------------

    def recover(self) -> None:
        """What a program does after an exception: nothing, unless the store was being closed or opened."""
        if self.store._closed:
            # Whatever half a close still takes is kept.
            with suppress(StoreClosed):
                self.put_message()
            self.store.close()
            self.open()

    def check(self, operation: str) -> None:
        """The operation works now, in another thread, and ends."""
        ended: list[BaseException | None] = []

        def work() -> None:
            try:
                getattr(self, operation)()
                ended.append(None)
            except BaseException as error:  # noqa: BLE001 - told below
                ended.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(_BOUND_S)
        assert ended, f"{operation} does not end in another thread: {_stack_of(thread)}"
        if ended[0] is not None:
            raise ended[0]
        self.recover()

    def audit(self) -> None:
        """All promises, over all that was acknowledged."""
        store = self.store
        by_queue: dict[tuple[str, int], dict[int, Acknowledged]] = defaultdict(dict)
        for told in self.acknowledged:
            twin = by_queue[told.topic, told.queue_id].setdefault(told.queue_offset, told)
            assert twin is told, f"queue offset given twice: {twin}, {told}"
        for (topic, queue_id), expected in by_queue.items():
            found = self._bodies_of(topic, queue_id)
            wanted = {at: (told.physical_offset, told.body) for at, told in expected.items()}
            lost = [told for at, told in expected.items() if found.get(at) != wanted[at]]
            assert not lost, f"lost: {lost[:3]} and {len(lost) - 1} more"
        for told in self.acknowledged:
            found_at = [message.physical_offset for message in store.query_message(told.topic, told.key)]
            assert found_at == [told.physical_offset], f"by its key: {told} {found_at}"

    def _bodies_of(self, topic: str, queue_id: int) -> dict[int, tuple[int, bytes]]:
        """(physical offset, body) of each message of a queue; without holes."""
        store, found = self.store, {}
        offset = store.get_min_offset_in_queue(topic, queue_id)
        while offset < store.get_max_offset_in_queue(topic, queue_id):
            pulled = store.get_message(GROUP, topic, queue_id, offset)
            assert pulled.messages, pulled
            for message in pulled.messages:
                assert message.queue_offset == offset, (message, offset)
                found[offset] = (message.physical_offset, message.body)
                offset += 1
        return found

    def audit_closed(self) -> None:
        """As `audit`, after a clean close and a reopening; and nothing is damaged."""
        self.store.close()
        damages = verify(self.path, self.config).damages
        assert not damages, [str(damage) for damage in damages]
        self.open()
        self.audit()

    def destroy(self) -> None:
        self.store.close()
        shutil.rmtree(self.path)


def _stack_of(thread: threading.Thread) -> str:
    import traceback

    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)[-6:]) if frame is not None else "gone"


OPERATIONS = (
    *("put_message", "put_few", "put_many", "put_columns", "put_async", "put_async_with_callback"),
    *("put_delayed", "send_back", "deliver", "get", "query", "look", "look_by_time", "to_arrow"),
    *(
        "flush",
        "serve",
        "commit",
        "create_topic",
        "delete_topic",
        "administer",
        "retain",
        "stats",
        "read_beside",
    ),
    *("reopen", "verify", "repair"),
)
"""Methods of StormyStore."""


def sweep(stormy: StormyStore, operation: str, first: int = 1, stride: int = 1, shift: int = 0) -> list[str]:
    """Strike an operation at every `stride`-th place from `first` on; what went wrong.

    `shift` changes which kind of exception comes at which place.

    The operation runs to its end once before, so that what it loads is there.
    """
    wrong: list[str] = []
    stormy.check(operation)
    for number, place in enumerate(itertools.count(first, stride), 1):
        if number % _STRIKES_OF_A_STORE == 0:
            stormy.begin_anew()
            stormy.check(operation)
        strike = Strike(place, shift)
        ended: BaseException | None = None
        try:
            with strike:
                getattr(stormy, operation)()
        except Struck:
            pass
        except BaseException as error:  # noqa: BLE001 - the finding
            ended = error
        if not strike.has_struck:
            if ended is not None:
                raise ended
            stormy.recover()
            break
        if ended is not None:
            wrong.append(f"{operation} at {strike.where}: {ended!r}")
        try:
            stormy.recover()
            stormy.check(operation)
        except BaseException as error:
            wrong.append(f"{operation} after {strike.where}: {error!r}")
            raise AssertionError("\n".join(wrong)) from error
    return wrong


class Timer:
    """Raises Struck by a real signal, somewhen within the block."""

    def __init__(self) -> None:
        self.count = 0
        self._is_armed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_armed:
            self._is_armed = False
            self.count += 1
            raise struck(self.count)

    def run(self, delay_s: float, work: Callable[[], object]) -> None:
        """Do `work`; raises Struck if the signal came before its end."""
        before = signal.signal(signal.SIGALRM, self._handle)
        try:
            self._is_armed = True
            signal.setitimer(signal.ITIMER_REAL, delay_s)
            work()
        finally:
            self._is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def storm(stormy: StormyStore, seed: int, strikes: int) -> list[str]:
    """So many signals in operations of the main thread, while two others put; what went wrong."""
    chance, timer, wrong = random.Random(seed), Timer(), []
    is_over = threading.Event()
    putters = [threading.Thread(target=_put_until, args=(stormy, is_over), daemon=True) for _ in range(2)]
    for operation in OPERATIONS:
        stormy.check(operation)
    for putter in putters:
        putter.start()
    while timer.count < strikes:
        # Those that close the store are rare.
        operation = chance.choice(OPERATIONS[-3:] if chance.random() < 0.02 else OPERATIONS[:-3])
        try:
            timer.run(10 ** chance.uniform(-5, -2.3), getattr(stormy, operation))
        except Struck:
            pass
        except BaseException as error:  # noqa: BLE001 - the finding
            wrong.append(f"{operation}: {error!r}")
        stormy.recover()
    is_over.set()
    for putter in putters:
        putter.join(_BOUND_S)
        if putter.is_alive():
            wrong.append(f"a putter does not end: {_stack_of(putter)}")
    for operation in OPERATIONS:
        stormy.check(operation)
    wrong += [
        f"thread {service.name} is dead"
        for service in stormy.store._services.in_order_of_stop
        if service._thread is None or not service._thread.is_alive()
    ]
    return wrong


def _put_until(stormy: StormyStore, is_over: threading.Event) -> None:
    while not is_over.is_set():
        # Closed and opened again by the main thread now and then.
        with suppress(StoreClosed):
            stormy.put_message()
        is_over.wait(0.001)
