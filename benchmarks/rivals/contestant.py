"""A contestant: a store that does one round of work in a fresh directory and says how long it took.

A round is `Work`: so many messages of so many bytes, on so many threads. It opens a store, warms it with
one put, takes the time of the puts alone, closes, and deletes the directory, so that no round leaves dirty
pages that the next would pay for. A contestant that is much slower than the rest does a stated part of the
round: its time a message is what counts. The collector of cycles is off while time is taken, for all
alike.
"""

import abc
import gc
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

__all__ = [
    "Contestant",
    "Loop",
    "PythonContestant",
    "Round",
    "Timed",
    "Work",
    "Writer",
    "seconds_of",
    "seconds_on_threads",
]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one round is. sync: a put is on the disk when it returns. in_flight: puts not waited for.

    keys: each message has a key of its own; attributes: two properties as well.
    """

    messages: int
    body_bytes: int
    threads: int = 1
    batch: int = 1
    sync: bool = False
    in_flight: int = 0
    keys: bool = False
    attributes: bool = False
    columns: bool = False

    @property
    def body(self) -> bytes:
        """The body of every message: all byte values in turn."""
        return (bytes(range(256)) * (self.body_bytes // 256 + 1))[: self.body_bytes]


@dataclass(frozen=True)
class Round:
    """What came of one round."""

    messages: int
    seconds: float

    @property
    def us(self) -> float:
        """Microseconds a message."""
        return self.seconds / self.messages * 1e6


Timed = Callable[[], Round]
"""What is measured of a round, once all is ready."""

Loop = Callable[[int, int], None]
"""What each thread does: called with its number and how many messages it puts."""


class Contestant(abc.ABC):
    """A store under measurement. name: as in the table. part: of a round of single puts that it does."""

    name: str
    part: float = 1.0

    @abc.abstractmethod
    def can(self, work: Work) -> bool:
        """Whether it has this work at all, and in this durability."""

    @abc.abstractmethod
    def ready(self, work: Work, directory: Path) -> AbstractContextManager[Timed]:
        """Set up for one round in `directory`, which does not exist before and is gone afterwards."""

    def share_of(self, work: Work) -> Work:
        """Its part of the round where messages come singly, the same for each thread. Batches come whole."""
        if work.batch > 1:
            return work
        of_each_thread = max(1, round(work.messages * self.part / work.threads))
        return replace(work, messages=of_each_thread * work.threads)

    def __repr__(self) -> str:
        return self.name


class Writer(Protocol):
    """An open store. It has those of the methods that its contestant `can` do."""

    def put(self, body: bytes, thread: int) -> None:
        """Store one message; on return it is as durable as the mode promises."""
        ...

    def put_batch(self, bodies: list[bytes], thread: int) -> None:
        """Store messages in one call or transaction."""
        ...

    def close(self) -> None:
        """Release files and threads."""
        ...


class PythonContestant(Contestant):
    """A store in this process, behind `Writer`."""

    def __init__(self, name: str, open_writer: Callable[[Path, Work], Writer], *, part: float = 1.0) -> None:
        self.name = name
        self.part = part
        self._open_writer = open_writer

    def can(self, work: Work) -> bool:
        return not (work.in_flight or work.keys or work.attributes or work.columns)

    @contextmanager
    def ready(self, work: Work, directory: Path) -> Iterator[Timed]:
        """An open store that has put once; closed and deleted afterwards."""
        work = self.share_of(work)
        directory.mkdir(parents=True)
        writer = self._open_writer(directory, work)
        try:
            loop = self.loop(writer, work)
            loop(0, work.batch)
            yield lambda: Round(work.messages, seconds_on_threads(work, loop))
        finally:
            writer.close()
            shutil.rmtree(directory)

    def loop(self, writer: Writer, work: Work) -> Loop:
        """The puts of one thread."""
        body = work.body
        if work.batch > 1:
            put_batch = writer.put_batch

            def put_batches(thread: int, messages: int) -> None:
                for _ in range(messages // work.batch):
                    put_batch([body] * work.batch, thread)

            return put_batches
        put = writer.put

        def put_singly(thread: int, messages: int) -> None:
            for _ in range(messages):
                put(body, thread)

        return put_singly


def seconds_on_threads(work: Work, loop: Loop) -> float:
    """From the moment that all threads are released to the moment that the last is done."""
    each = work.messages // work.threads
    if work.threads == 1:
        return seconds_of(lambda: loop(0, each))
    with collector_off():
        return _on_threads(work.threads, loop, each)


def seconds_of(work: Callable[[], object]) -> float:
    """How long `work` takes, without a collection of cycles in between."""
    with collector_off():
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun


def _on_threads(count: int, loop: Loop, each: int) -> float:
    begin = threading.Barrier(count + 1)
    failures: list[BaseException] = []

    def run(thread: int) -> None:
        begin.wait()
        try:
            loop(thread, each)
        except BaseException as failure:  # noqa: BLE001 - it is raised again by the thread that measures
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    begin.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    if failures:
        raise failures[0]
    return seconds


@contextmanager
def collector_off() -> Iterator[None]:
    """No collection of cycles within; one before."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
