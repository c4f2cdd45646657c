"""Transactions after a crash: each is still open, or it is ended as its producer said. None is lost.

Method: halves are sent, ended, asked about and carried on a simulated disk whose steps are recorded,
with notes of what the producer was told. On what a crash after some of the steps could leave, the store is
opened and the notes are compared with what is there; then its producer commits all that it is asked about.
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mqstore import Message, MessageStore, PutMessageResult, StoreConfig, StoredMessage
from mqstore.broker import transaction_checks
from mqstore.broker.broker import TransactionState
from mqstore.broker.producer_groups import ProducerGroups
from mqstore.broker.transaction_checks import TransactionChecks
from mqstore.broker.transactions import Transactions
from mqstore.store.message.topic_names import TRANS_CHECK_MAX_TIME_TOPIC
from mqstore.verify.verification import verify
from support.crash.witness import ROOT, crash_config
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import Image, SimulatedDisk
from support.manual_clock import ManualClock
from support.stores.small_store import bodies_of

GROUP, ABSENT = "payments", "mailing"
COMMIT = TransactionState.COMMIT_MESSAGE
ROLLBACK = TransactionState.ROLLBACK_MESSAGE
STATES_PER_STEP = 3


class Note(NamedTuple):
    """What the producer knows of a half after so many steps. is_told: whether the call has returned."""

    step: int
    body: bytes
    state: TransactionState
    is_told: bool


class Program:
    """A producer and its broker, with checks by hand."""

    def __init__(self, store: MessageStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.transactions = Transactions(store)
        self.producers = ProducerGroups()
        self.checks = TransactionChecks(store, self.transactions, self.producers)
        self.asked: list[tuple[StoredMessage, PutMessageResult]] = []
        self.producers.register(GROUP, "client", lambda message, half: self.asked.append((message, half)))

    def open_bodies(self) -> Counter[bytes]:
        """The bodies of all halves that nobody has ended."""
        self.transactions.load()
        halves = self.transactions.open_halves
        places = [halves.get(queue_offset) for queue_offset in halves.in_order()]
        return Counter(self.transactions.half_at(place.physical_offset).body for place in places if place)

    def final_bodies(self) -> Counter[bytes]:
        """The bodies of all messages that consumers see."""
        return Counter(body for queue_id in range(2) for body in bodies_of(self.store, "orders", queue_id))

    def commit_all(self) -> None:
        """Have clients for every group, and commit whatever they are asked about."""
        self.producers.register(ABSENT, "client", lambda message, half: self.asked.append((message, half)))
        self.asked.clear()
        self.clock.advance(3_600_000)
        self.checks.check()
        for message, half in self.asked:
            self.transactions.end(half, message.properties["PGROUP"], COMMIT)


class Recording:
    """A program's run, with the steps of its disk."""

    def __init__(self, config: StoreConfig, seed: int) -> None:
        self.notes: list[Note] = []
        self.flushed_steps: list[int] = []
        self.clock = ManualClock()
        self.disk = SimulatedDisk(clock=self.clock)
        self.medium = Medium(self.disk)
        self._chance = random.Random(seed)
        with MessageStore.open(ROOT, config, clock=self.clock, file_system=self.disk, start=False) as store:
            self._run(Program(store, self.clock))

    def _note(self, body: bytes, state: TransactionState, *, is_told: bool) -> None:
        self.notes.append(Note(len(self.disk.steps), body, state, is_told))

    def _run(self, program: Program) -> None:
        chance, halves = self._chance, list[tuple[bytes, PutMessageResult, str]]()
        for number in range(60):
            body = b"%d" % number
            message = Message("orders", body, queue_id=number % 2, properties={"UNIQ_KEY": body.decode()})
            group = ABSENT if number in (3, 40) else GROUP
            half = program.transactions.send_half(message, group)
            self._note(body, TransactionState.UNKNOW, is_told=True)
            if group == GROUP:
                halves.append((body, half, group))
            if len(halves) > 3:
                body, half, group = halves.pop(chance.randrange(len(halves)))
                state = chance.choice((COMMIT, COMMIT, ROLLBACK))
                self._note(body, state, is_told=False)
                program.transactions.end(half, group, state)
                self._note(body, state, is_told=True)
            if number % 7 == 6:
                self.clock.advance(7_000)
                program.checks.check()
            if number % 5 == 4:
                program.store._persistence.persist_state()
                self.flushed_steps.append(len(self.disk.steps))

    def known_at(self, step: int) -> dict[bytes, Note]:
        """What the producer knew last of each half."""
        return {note.body: note for note in self.notes if note.step <= step}


def images(recording: Recording) -> Iterator[tuple[int, Image, bool]]:
    """What a crash may leave; whether everything that was written is there, as after a kill."""
    done = 0
    for at in range(0, len(recording.disk.steps) + 1, 4):
        for step in recording.disk.steps[done:at]:
            recording.medium.apply(step)
        done = at
        units = recording.medium.units()
        for seed in range(STATES_PER_STEP):
            choices = choose(units, seed, STATES_PER_STEP, str(at))
            if choices is not None:
                is_kill = all(choice == unit.options - 1 for choice, unit in zip(choices, units, strict=True))
                yield at, recording.medium.image(units, choices), is_kill


def judge(known: dict[bytes, Note], opened: Counter[bytes], finals: Counter[bytes]) -> list[str]:
    """What is wrong; nothing is known of a half whose send had not returned."""
    wrong = [f"{body!r} is open {count} times" for body, count in opened.items() if count > 1]
    for body, (_, _, state, is_told) in known.items():
        is_open, is_final = body in opened, body in finals
        if state is TransactionState.UNKNOW and not (is_open and not is_final):
            wrong.append(f"{body!r} was not ended: open {is_open}, final {is_final}")
        elif state is COMMIT and not (is_final and not is_open) and (is_told or not is_open):
            wrong.append(f"{body!r} was committed ({is_told}): open {is_open}, final {is_final}")
        elif state is ROLLBACK and (is_final or (is_told and is_open)):
            wrong.append(f"{body!r} was rolled back ({is_told}): open {is_open}, final {is_final}")
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("flush_disk_type", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_no_transaction_is_lost_in_a_crash(monkeypatch: pytest.MonkeyPatch, flush_disk_type: str) -> None:
    """Killed, or the power cut. In ASYNC_FLUSH a power cut may take what was not synced yet, its ends too."""
    monkeypatch.setattr(transaction_checks, "_MAX_BEHIND", 8)
    config = crash_config(flush_disk_type=flush_disk_type)
    recording = Recording(config, seed=1)
    count = 0
    for at, image, is_kill in images(recording):
        clock = ManualClock(recording.clock.now_ms())
        disk = SimulatedDisk(image, clock=clock)
        with MessageStore.open(ROOT, config, clock=clock, file_system=disk, start=False) as store:
            program = Program(store, clock)
            opened, finals = program.open_bodies(), program.final_bodies()
            known = recording.known_at(at)
            if is_kill or flush_disk_type == "SYNC_FLUSH":
                assert judge(known, opened, finals) == [], (at, is_kill)
            flushed = max((step for step in recording.flushed_steps if step <= at), default=0)
            ended = {body for body, note in known.items() if note.state is ROLLBACK}
            durable = recording.known_at(flushed).keys() - ended
            assert durable <= opened.keys() | finals.keys(), (at, is_kill)
            program.commit_all()
            assert program.open_bodies() == Counter(), (at, is_kill)
            assert program.final_bodies().keys() >= durable
            assert TRANS_CHECK_MAX_TIME_TOPIC not in store.topics
        count += 1
    assert count > 100
    assert verify(ROOT, config, file_system=disk).is_sound
