"""What the fuzzers ask of each hostile store: a fixed list of calls, from `open` to `mqstore rebuild`.

First all that only reads, on one copy, which must be the same afterwards; then, on a copy each, opening for
writing, repair in place, repair into a new directory, rebuild. Every call may answer or refuse by an error
with a name; anything else is a failure: another exception, an exit code that is not documented, Arrow columns
that are no valid Arrow, control characters on a terminal, whole records of the log that are gone.
"""

import contextlib
import gc
import hashlib
import io
import os
import shutil
import stat
import sys
import traceback
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mqstore import Message, MessageStore, StoredMessage, StoreError
from mqstore.repair.rebuild import rebuild
from mqstore.repair.repair_copy import repair_into
from mqstore.repair.repair_in_place import repair_in_place
from mqstore.verify.verification import verify
from support.fuzz.bases import CONFIG, NOW_MS, opened
from support.fuzz.kept_log import KeptLog
from support.manual_clock import ManualClock

__all__ = ["Failures", "run_calls"]

_MANY = 400


class Failures:
    """What went wrong in one case, call by call; and the errors that are in order."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.found: list[str] = []
        self.calls = 0
        self.refusals: dict[str, int] = {}
        self._note = note
        self.kept: list[BaseException] = []

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        """One call: a StoreError is an answer, anything else a failure."""
        self._note(name)
        self.calls += 1
        try:
            yield
        except StoreError as error:
            kind = type(error)
            self.refusals[kind.__name__] = self.refusals.get(kind.__name__, 0) + 1
            # As an application may: with its traceback, in a cycle.
            error.kept = (error, sys._getframe())  # type: ignore[attr-defined]
            self.kept.append(error)
            if kind is StoreError or "\n" in str(error).strip():
                self.found.append(f"{name}: {kind.__name__} is no leaf, or no line: {error}")
        except Exception:  # noqa: BLE001 - it is what is looked for
            self.found.append(f"{name}: {traceback.format_exc(limit=-9)}")
        self.kept.clear()

    def add(self, name: str, what: str) -> None:
        self.found.append(f"{name}: {what}")


def run_calls(case: Path, failures: Failures, turn: int = 0) -> None:
    """All calls, on the store at case/store. turn: which of the commands that only look it is the turn of."""
    store = case / "store"
    before = _picture(store)
    _read_by_library(store, failures)
    _read_by_spark(store, failures)
    with failures.call("verify"):
        verify(store, CONFIG, clock=ManualClock(NOW_MS), workers=1)
    _read_by_commands(store, failures, turn)
    if _picture(store) != before:
        failures.add("reading", f"changed {sorted(_picture(store).items() ^ before.items())[:4]}")
    gc.collect()
    kept = KeptLog(store)
    for name, work in _WRITING:
        copy = case / name
        _copy(store, copy)
        work(copy, failures)
        if lost := kept.lost_in(copy):
            failures.add(name, lost)
        gc.collect()
    left = {path.name for path in case.iterdir()} - {"store", "into", *(name for name, _ in _WRITING)}
    if left:
        failures.add("writing", f"escaped: {left}")


# -- reading ------------------------------------------------------------------------------------------


def _read_by_library(path: Path, failures: Failures) -> None:
    with failures.call("open to read"), opened(path, read_only=True) as store:
        _read_all(store, failures, "read")


def _read_all(store: MessageStore, failures: Failures, name: str) -> None:
    for topic, queue_id in store.consume_queues.queues()[:20]:
        queue = (topic, queue_id)
        with failures.call(f"{name}: get_message {queue}"):
            _pull(store, failures, name, *queue, "*")
        with failures.call(f"{name}: get_message with a tag {queue}"):
            _pull(store, failures, name, *queue, "t1||t2")
        with failures.call(f"{name}: to_arrow {queue}"):
            store.to_arrow(*queue, lend_bodies=queue_id % 2 == 1).validate(full=True)
        with failures.call(f"{name}: time {queue}"):
            store.get_offset_in_queue_by_time(*queue, NOW_MS - 3_500_000)
    for key in ("k1", "of-3", "later-1"):
        with failures.call(f"{name}: query_message"):
            for message in store.query_message("a", key):
                _fields_of(message)
    for offset in (0, 68_096, 136_192, store.min_offset, 91, -1, store.max_offset, 2**62):
        with failures.call(f"{name}: look_message_by_offset"):
            found = store.look_message_by_offset(offset)
            if found is not None:
                _fields_of(found)
    with failures.call(f"{name}: stats"):
        repr(store.stats())
        repr(store)
    with failures.call(f"{name}: state"):
        for topic in ("a", "b", "nothing"):
            repr(store.topics.get(topic))
            repr(store.consumer_offsets.query("group", topic, 0))


def _pull(store: MessageStore, failures: Failures, name: str, topic: str, queue_id: int, tags: str) -> None:
    offset = store.get_min_offset_in_queue(topic, queue_id)
    end = store.get_max_offset_in_queue(topic, queue_id)
    for _ in range(_MANY):
        if offset >= end:
            break
        with failures.call(f"{name}: get_message {topic, queue_id, offset}"):
            result = store.get_message("fuzz", topic, queue_id, offset, tags=tags)
            assert result.next_begin_offset > offset, result
            offset = result.next_begin_offset
            if tags == "*":
                with failures.call(f"{name}: fields"):
                    for message in result.messages:
                        _fields_of(message)
            continue
        offset += 1


_FIELDS = [name for name in dir(StoredMessage) if not name.startswith("_") and name != "of"]


def _fields_of(message: StoredMessage) -> None:
    """Everything that a message tells; or that its record is none, which is for a StoreError to say."""
    refusal = None
    for name in _FIELDS:
        try:
            value = getattr(message, name)
            if isinstance(value, str):
                value.encode()
            elif name == "to_message":
                value()
        except StoreError as error:
            refusal = error
    repr(message)
    if refusal is not None:
        raise refusal


def _read_by_spark(path: Path, failures: Failures) -> None:
    """What Spark's workers do, without Spark's own processes: by segments, in small tasks, by queues."""
    from mqstore.tools.spark.options import ReadOptions
    from mqstore.tools.spark.read.batch_reader import MqstoreReader
    from mqstore.tools.spark.schema import schema_of

    for chosen in (
        {},
        {"failOnDataLoss": "false"},
        {"mode": "PERMISSIVE", "maxPartitionBytes": "4k"},
        {"failOnDataLoss": "false", "topic": "a", "queueScan": "true"},
        {"topic": "a,b", "startingTimestamp": "1", "checkCRC": "false"},
    ):
        with failures.call("spark: plan"):
            options = ReadOptions.parse({"path": str(path), **chosen})
            reader = MqstoreReader(schema_of(options), options)
            for partition in reader.partitions()[:6]:
                with failures.call("spark: read"):
                    for batch in reader.read(partition):
                        batch.validate(full=True)


def _read_by_commands(path: Path, failures: Failures, turn: int) -> None:
    data, files = str(path), _some_files(path)
    others = (
        ["topics", data, "--queues"],
        ["stats", data],
        ["get", data, "a", "--count", "30"],
        ["tail", data, "a", "-n", "20", "--json"],
        ["query", data, "a", "--key", "k1"],
        ["query", data, "--offset", "0", "--json"],
        ["verify", data, "--workers", "1"],
        ["repair", data, "--workers", "1"],
    )
    for arguments in (
        ["get", data, "a", "--time", "0", "--count", "200", "--json"],
        ["repair", data, "--json", "--workers", "1"],
        others[turn % len(others)],
        *(["dump", str(file), "--count", "20"] for file in files[turn % 5 :: 5]),
    ):
        _command(arguments, failures)


def _some_files(path: Path) -> list[Path]:
    """The first file of each folder: there are formats, not files, to read."""
    found: dict[Path, Path] = {}
    for file in sorted(path.rglob("*")):
        if not (file.is_dir() and not file.is_symlink()):
            found.setdefault(file.parent, file)
            if file.parent == path / "mqstore":
                found[file] = file
    return list(found.values())


def _command(arguments: list[str], failures: Failures) -> int:
    from mqstore.tools.cli.command_table import app

    name = "mqstore " + " ".join(arguments[:1] + arguments[2:])
    shown, told = io.StringIO(), io.StringIO()
    code = 0
    with failures.call(name):
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(told):
                app(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    if code not in (0, 1, 2, 3, 4):
        failures.add(name, f"exit code {code}: {told.getvalue()[-300:]}")
    for text in (shown.getvalue(), told.getvalue()):
        wrong = {character for character in set(text) if character != "\n" and _commands_terminals(character)}
        if wrong:
            failures.add(name, f"raw {sorted(map(ord, wrong))} in its output")
    return code


def _commands_terminals(character: str) -> bool:
    """Control characters, those that turn the direction of text, separators of lines, halves of pairs."""
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs")


# -- writing ------------------------------------------------------------------------------------------


def _write(path: Path, failures: Failures) -> None:
    with failures.call("open to write"):
        store = opened(path)
        try:
            for queue in store.consume_queues.queues()[:20]:
                with failures.call(f"written: get_message {queue}"):
                    _pull(store, failures, "written", *queue, "*")
            _go_on(store, failures)
        finally:
            with failures.call("close"):
                store.close()
    with failures.call("open again"):
        opened(path, now_ms=NOW_MS + 86_400_000).close()


def _go_on(store: MessageStore, failures: Failures) -> None:
    for number in range(2):
        with failures.call("put_message"):
            store.put_message(Message("a", b"next", queue_id=number, keys=("next",), delay_level=number))
    for _ in range(3):
        with failures.call("deliver_due"):
            store.deliver_due()
    with failures.call("send back"):
        store.consumer_send_msg_back("group", store.min_offset)
    with failures.call("commit an offset"):
        store.consumer_offsets.commit("group", "a", 0, 3)
    with failures.call("flush"):
        store.flush()
    with failures.call("retain"):
        store._services.retain()


def _repair(path: Path, failures: Failures) -> None:
    for _ in range(2):
        is_done = False
        with failures.call("repair"):
            repair_in_place(path, CONFIG, clock=ManualClock(NOW_MS), workers=1)
            is_done = True
        if not is_done:
            return
    with failures.call("open what is repaired"):
        opened(path).close()


def _repair_into(path: Path, failures: Failures) -> None:
    target = path.parent / "into"
    with failures.call("repair into"):
        repair_into(path, target, CONFIG, clock=ManualClock(NOW_MS), workers=1)
        try:
            opened(target).close()
        except StoreError as error:
            failures.add("repair into", f"what it made does not open: {error!r}")


def _rebuild(path: Path, failures: Failures) -> None:
    with failures.call("rebuild"):
        rebuild(path, CONFIG, queues=True, keys=True, clock=ManualClock(NOW_MS))
    _command(["rebuild", "queues", str(path)], failures)


_WRITING: tuple[tuple[str, Callable[[Path, Failures], None]], ...] = (
    ("written", _write),
    ("repaired", _repair),
    ("repaired-into", _repair_into),
    ("rebuilt", _rebuild),
)


# -- files --------------------------------------------------------------------------------------------


def _picture(path: Path) -> dict[str, Any]:
    """What is there: of files their content, of everything else its kind.

    But for LMDB's own lock file, where readers enter themselves, and what the lock says of its holder.
    """
    found: dict[str, Any] = {}
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            each = f"{folder}/{name}"
            if name in ("lock.mdb", "lock"):
                continue
            status = os.lstat(each)
            if stat.S_ISREG(status.st_mode) and status.st_size < 1 << 24:
                content = Path(each).read_bytes()
                found[each] = hashlib.blake2b(content).hexdigest()
            else:
                found[each] = (stat.S_IFMT(status.st_mode), status.st_size * stat.S_ISREG(status.st_mode))
    return found


def _copy(source: Path, target: Path) -> None:
    """As it is: FIFOs and sockets made again, holes kept, links to elsewhere too."""
    target.mkdir()
    for entry in os.scandir(source):
        there = target / entry.name
        status = entry.stat(follow_symlinks=False)
        if entry.is_symlink():
            there.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            _copy(Path(entry.path), there)
        elif stat.S_ISREG(status.st_mode):
            if status.st_size < 1 << 24:
                shutil.copyfile(entry.path, there)
            else:
                there.touch()
            os.truncate(there, status.st_size)
        else:
            os.mknod(there, status.st_mode)
