"""Forked children: whatever a child does with its parent's store, it changes nothing and never waits.

Method: real forks. What a child has to say it says by its exit code, or writes into a pipe; a child that does
not end within a minute is a failure. What a power cut makes of a child that touches files is asked by the
simulator (tests/crash).
"""

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Message, MessageStore, StoreConfig
from mqstore.broker.embedded_broker import EmbeddedBroker
from mqstore.client.consumer.push_consumer import PushConsumer
from mqstore.store.errors import StoreClosed, StoreForked, StoreLocked
from mqstore.store.message.message_encoder import MessageEncoder
from mqstore.store.threads.lock import SafeLock
from mqstore.verify.verification import verify

SMALL = StoreConfig(
    mapped_file_size_commit_log=68_096,
    max_message_size=2_500,
    mapped_file_size_consume_queue=2_080,
    reserve_window_commit_log=65_536,
    flush_disk_type="SYNC_FLUSH",
)
NOT_ENDED = "the child has not ended within a minute"


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a forked child that then ends as a program does, finalizers included."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        # Nothing of the test runner's is to run in the child.
        os.close(reading)
        try:
            answer = pickle.dumps(work())
        except BaseException:  # noqa: BLE001 - the parent is told
            answer = pickle.dumps(traceback.format_exc())
        os.write(writing, answer)
        gc.collect()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        code = ended(child)
        answer = pipe.read()
    assert code == 0, code
    return pickle.loads(answer)


def ended(child: int) -> int:
    """The exit code of a child; killed and failed when it hangs."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(NOT_ENDED)


def files_of(root: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and the age of all files of a store, but for the table of LMDB's readers."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock.mdb"
    }


def error_of(ask: Callable[[], object]) -> str:
    try:
        ask()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"{type(error).__name__}: {error}"
    return "no error"


def test_a_child_that_leaves_the_block_changes_no_file(tmp_path: Path) -> None:
    """Neither `abort` nor state files, with keys in memory and offsets not saved; the parent goes on."""
    with MessageStore.open(tmp_path, SMALL, start=False) as store:
        store.put_messages([Message("a", b"%d" % number, keys=("k",)) for number in range(30)])
        store.query_message("a", "k")
        store.consumer_offsets.commit("group", "a", 0, 3)
        before = files_of(tmp_path)

        def leave() -> str:
            with contextlib.suppress(SystemExit), store:
                sys.exit()
            store.close()
            return repr(store)

        assert "closed, opened by a parent process" in in_child(leave)
        assert files_of(tmp_path) == before
        assert "abort" in before
        assert len(store.query_message("a", "k")) == 30
        store.put_message(Message("a", b"more"))
    assert verify(tmp_path, SMALL).is_sound


def test_the_locks_of_later_pythons_stop_no_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 3.14 on locks are objects of ours, without a `__dict__`; each store of the process is refused."""
    monkeypatch.setattr("mqstore.message_store.Lock", SafeLock)
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with contextlib.ExitStack() as open_stores:
        stores = [
            open_stores.enter_context(MessageStore.open(tmp_path / name, SMALL, start=False))
            for name in "abc"
        ]

        def ask() -> list[str]:
            said = [
                error_of(lambda store=store: store.put_message(Message("a", b"child"))) for store in stores
            ]
            return [*said, *map(repr, unraisable)]

        answers = in_child(ask)
        assert [answer.partition(":")[0] for answer in answers] == ["StoreForked"] * 3
        assert [store.commit_log.max_offset for store in stores] == [0, 0, 0]


@pytest.mark.parametrize("read_only", [False, True])
def test_all_that_a_child_asks_is_refused(tmp_path: Path, *, read_only: bool) -> None:
    """By one error that names the process and the way out; also by parts taken before the fork."""
    with MessageStore.open(tmp_path, SMALL) as store:
        put = store.put_message(Message("a", b"first", keys=("k",)))
    with MessageStore.open(tmp_path, SMALL, read_only=read_only) as store:
        topics, offsets, log, delivery = (
            store.topics,
            store.consumer_offsets,
            store.commit_log,
            store.delivery,
        )
        batches = store.to_arrow_batches("a", 0)
        create, get, append, chunk = topics.create, store.get_message, log.append, log.chunk
        look, sent_puts = log.look_message_by_offset, store.sent_puts()
        encoded = MessageEncoder(SMALL).encode(Message("a", b"x"))
        pending = None if read_only else store.put_message_async(Message("a", b"pending"))
        asked: dict[str, Callable[[], object]] = {
            "put": lambda: store.put_message(Message("a", b"x")),
            "put in bulk": lambda: store.put_messages([Message("a", b"x")] * 30),
            "put to a new topic": lambda: store.put_message(Message("new", b"x")),
            "get": lambda: get("group", "a", 0, 0),
            "look": lambda: store.look_message_by_offset(put.physical_offset),
            "query": lambda: store.query_message("a", "k"),
            "wait": lambda: store.wait_for_messages("a", 0, 5, 100),
            "max offset": lambda: store.max_offset,
            "arrow": lambda: store.to_arrow("a", 0),
            "arrow batches": lambda: next(batches),
            "flush": store.flush,
            "deliver": store.deliver_due,
            "stats": store.stats,
            "create": lambda: create("b", 4),
            "topics": lambda: list(topics),
            "is there": lambda: "a" in topics,
            "commit": lambda: offsets.commit("group", "a", 0, 1),
            "log": lambda: log.max_offset,
            "append": lambda: append(encoded),
            "chunk": lambda: chunk(0, 100),
            "look at the log": lambda: look(put.physical_offset),
            # Where puts are compiled.
            "put as a producer": lambda: (
                store.max_offset
                if sent_puts is None
                else sent_puts.put(Message("a", b"x"), "a", b"x", 0, "7F00")
            ),
            "status": delivery.status,
            "future": lambda: pending.result() if pending is not None else store.max_offset,
        }
        if read_only:
            asked["refresh"] = store.refresh
        told = in_child(lambda: {name: error_of(ask) for name, ask in asked.items()})
        expected = f"StoreForked: the store {tmp_path} was opened by process {os.getpid()}"
        assert [name for name, error in told.items() if not error.startswith(expected)] == [], told
        assert issubclass(StoreForked, StoreClosed)


def test_what_was_read_before_stays_readable(tmp_path: Path) -> None:
    """A message lends a view of the log, which the child has mapped too."""
    with MessageStore.open(tmp_path, SMALL) as store:
        put = store.put_message(Message("a", b"first", tags="red"))
        message = store.look_message_by_offset(put.physical_offset)
        assert message is not None
        assert in_child(lambda: (bytes(message.body), message.tags)) == (b"first", "red")


def test_a_child_reads_by_opening_the_store(tmp_path: Path) -> None:
    """Beside its parent, keys included; to write it is refused, with the parent's pid."""
    with MessageStore.open(tmp_path, SMALL) as store:
        store.put_message(Message("a", b"first", keys=("k",)))
        store.flush()

        def read() -> tuple[list[bytes], str]:
            refused = error_of(lambda: MessageStore.open(tmp_path, SMALL))
            with MessageStore.open(tmp_path, SMALL, read_only=True) as own:
                return [bytes(each.body) for each in own.query_message("a", "k")], refused

        found, refused = in_child(read)
        assert found == [b"first"]
        assert refused.startswith(f"StoreLocked: {tmp_path / 'lock'} is locked by process {os.getpid()}")


@pytest.mark.slow
def test_a_child_outlives_its_parent_and_writes(tmp_path: Path) -> None:
    """A daemon: the parent ends, by a clean close or not, and the child opens the store for itself."""
    for number, leaving in enumerate(("sys.exit()", "os._exit(0)")):
        root = tmp_path / str(number)
        program = f"""
import os, sys, time
from pathlib import Path
from mqstore import Message, MessageStore, StoreConfig
from mqstore.store.errors import StoreLocked
root = Path(sys.argv[1])
sizes = {{"mapped_file_size_commit_log": 68_096, "mapped_file_size_consume_queue": 2_080}}
settings = StoreConfig(**sizes, reserve_window_commit_log=65_536, max_message_size=2_500)
parent = os.getpid()
with MessageStore.open(root, settings) as store:
    store.put_message(Message("a", b"of the parent", keys=("k",)))
    store.flush()
    if os.fork():
        {leaving}
    while os.getppid() == parent:
        time.sleep(0.01)
with MessageStore.open(root, settings) as store:
    store.put_message(Message("a", b"of the child", keys=("k",)))
    print([bytes(each.body).decode() for each in store.query_message("a", "k")], flush=True)
"""
        done = subprocess.run(
            [sys.executable, "-c", program, str(root)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.strip() == "['of the parent', 'of the child']", done.stderr
        assert verify(root, SMALL).is_sound


@pytest.mark.slow
def test_children_made_under_load_all_end(tmp_path: Path) -> None:
    """Whatever locks the threads held at the fork: each child closes, collects, and ends as programs do."""
    with MessageStore.open(tmp_path, SMALL) as store:
        is_over = threading.Event()

        def work(number: int) -> None:
            topic = f"t{number}"
            offset = 0
            while not is_over.is_set():
                store.put_message(Message(topic, b"x" * 300, keys=(f"k{number}",)))
                store.put_messages([Message(topic, b"x")] * 30)
                offset = store.get_message("group", topic, 0, offset).next_begin_offset
                store.consumer_offsets.commit("group", topic, 0, offset)
                store.query_message(topic, f"k{number}", max_num=2)
                store.topics.create(f"{topic}-{offset % 7}", 1)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(12):
                time.sleep(0.01)
                child = os.fork()
                if child == 0:
                    leave_as_a_program(store)
                assert ended(child) == 0
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        end = store.max_offset
    report = verify(tmp_path, SMALL)
    assert report.is_sound
    assert report.scan.end_offset == end


def leave_as_a_program(store: MessageStore) -> None:
    """Close and forget the store, and collect all that the test runner does not hold."""
    code = 1
    try:
        store.close()
        error = error_of(lambda: store.put_message(Message("t0", b"x")))
        code = 0 if error.startswith("StoreForked") else 2
        gc.collect()
    finally:
        os._exit(code)


def _square(number: int) -> int:
    return number * number


@pytest.mark.slow
def test_a_fork_pool_works_beside_an_open_store(tmp_path: Path) -> None:
    """Its workers hold the parent's store and never use it."""
    with MessageStore.open(tmp_path, SMALL) as store:
        with multiprocessing.get_context("fork").Pool(3) as pool:
            store.put_message(Message("a", b"first"))
            assert pool.map(_square, range(20)) == [number * number for number in range(20)]
        store.put_message(Message("a", b"second"))
        assert (tmp_path / "abort").exists()
        with pytest.raises(StoreLocked):
            MessageStore.open(tmp_path, SMALL)
    assert verify(tmp_path, SMALL).records == 2


@pytest.mark.slow
def test_a_consumer_in_a_child_ends(tmp_path: Path) -> None:
    """Its threads are not there: `close` does not wait for them, and all else is refused."""
    with (
        MessageStore.open(tmp_path, SMALL) as store,
        EmbeddedBroker(store) as broker,
        PushConsumer(broker, "group") as consumer,
    ):
        store.put_message(Message("a", b"first"))
        consumed = threading.Event()
        consumer.subscribe("a")
        consumer.listener(lambda batch, context: consumed.set())
        consumer.start()

        def end() -> str:
            consumer.close()
            return error_of(lambda: consumer.subscribe("b"))

        assert in_child(end).startswith("ConsumerClosed")
        assert consumed.wait(10)


@pytest.mark.slow
def test_a_program_that_forgets_it_forked_loses_nothing(tmp_path: Path) -> None:
    """Children that end by falling out of the block and through the interpreter's end, `atexit` and all."""
    program = """
import atexit, os, sys, threading
from mqstore import Message, MessageStore
children = []
with MessageStore.open(sys.argv[1]) as store:
    atexit.register(store.close)
    putting = True
    def put():
        while putting:
            store.put_message(Message("a", b"x" * 200, keys=("k",)))
    threads = [threading.Thread(target=put) for _ in range(3)]
    [thread.start() for thread in threads]
    is_child = False
    for _ in range(8):
        child = os.fork()
        if child == 0:
            is_child = True
            break
        children.append(child)
    else:
        codes = [os.waitpid(child, 0)[1] for child in children]
        putting = False
        [thread.join() for thread in threads]
        print(codes, os.path.exists(sys.argv[1] + "/abort"), flush=True)
if not is_child:
    print("closed", os.path.exists(sys.argv[1] + "/abort"), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == ["[0, 0, 0, 0, 0, 0, 0, 0] True", "closed False"], done.stderr
    assert verify(tmp_path / "store", StoreConfig()).is_sound
