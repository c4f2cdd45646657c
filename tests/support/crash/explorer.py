"""The explorer: runs a workload once, and opens the store on what a crash at each step could leave.

    run         the workload, every step of the disk recorded, every promise noted
    for each step, in order:
        for each seed: a state of the medium (medium.py) -> a fresh disk -> open -> the oracle
        for some of them: go on, deliver, and ask the oracle again
        for some of them: record that opening and what follows as well, crash in it, and open once more

A state is named `workload/run/step/seed-of-seeds` (and `/step/seed-of-seeds` once more for a double
crash), which is all that `replay` needs to build it again.
"""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

from mqstore import MessageStore
from support.crash.oracle import judge, judge_afterwards
from support.crash.promises import Promises
from support.crash.witness import ROOT, Witness, crash_config
from support.crash.workloads import WORKLOADS
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import Image, SimulatedDisk
from support.manual_clock import ManualClock

__all__ = [
    "Figures",
    "State",
    "Violation",
    "explore",
    "open_on_reused_space",
    "recorded_states",
    "replay",
    "state_named",
    "workload_steps",
]

# What is done with a state: 0 crash again, 1 to 3 go on and judge once more, the others only judge.
_KINDS = 8
_UNCHANGING = frozenset({"reserve", "make_directory"})


class State(NamedTuple):
    """What a crash could leave, and what must hold of it."""

    name: str
    image: Image
    promises: Promises
    is_power_cut: bool


class Violation(Exception):
    """A state on which a promise is broken: its name replays it."""

    def __init__(self, name: str, wrong: list[str]) -> None:
        super().__init__(f"state {name}: " + "; ".join(wrong[:5]) + (" ..." if len(wrong) > 5 else ""))
        self.name = name
        self.wrong = wrong


class Figures(NamedTuple):
    """What was done: counts."""

    states: int = 0
    double_crashes: int = 0
    acknowledged: int = 0

    def plus(self, other: "Figures") -> "Figures":
        return Figures(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))


class _Run:
    """A recorded workload."""

    def __init__(self, witness: Witness, medium: Medium, name: str) -> None:
        self.witness = witness
        self.steps = witness.disk.steps
        self._medium = medium
        self._name = name
        events = sorted(witness.events, key=lambda event: event[0])
        self._events = iter([*events, (math.inf, None)])
        self._next_event = next(self._events)
        self._promises = witness.before.copy()
        self._at = 0

    def advance(self, at: int) -> None:
        """Go on to the crash after `at` steps."""
        for step in self.steps[self._at : at]:
            self._medium.apply(step)
        self._at = at
        while self._next_event[0] <= at:
            self._next_event[1].add_to(self._promises)
            self._next_event = next(self._events)

    def is_worth_a_look(self, at: int) -> bool:
        return at == 0 or self.steps[at - 1].kind not in _UNCHANGING

    def states(self, seeds: range, budget: int) -> Iterator[State]:
        """The states of this step."""
        units = self._medium.units()
        salt = f"{self._name}/{self._at}"
        known = set()
        for seed in seeds:
            choices = choose(units, seed, budget, salt)
            if choices is None:
                return
            if choices in known:
                continue
            known.add(choices)
            everything = all(choice == unit.options - 1 for choice, unit in zip(choices, units, strict=True))
            image = self._medium.image(units, choices)
            yield State(f"{salt}/{seed}-of-{budget}", image, self._promises.copy(), not everything)


def _record(workload_name: str, run_number: int) -> _Run:
    workload = WORKLOADS[workload_name]
    clock = ManualClock()
    disk = SimulatedDisk(clock=clock)
    medium = Medium(disk)
    witness = Witness(disk, clock, crash_config(**workload.settings))
    workload.run(witness, random.Random(f"{workload_name}/{run_number}"))
    return _Run(witness, medium, f"{workload_name}/{run_number}")


def workload_steps(workload_name: str, run_number: int = 0) -> int:
    """How many steps a run has."""
    return len(_record(workload_name, run_number).steps)


def recorded_states(workload_name: str, *, stride: int, states_per_step: int) -> Iterator[State]:
    """What a crash could leave after every `stride`-th step of a run, for others to look at."""
    run = _record(workload_name, 0)
    for at in range(0, len(run.steps) + 1, stride):
        run.advance(at)
        yield from run.states(range(states_per_step), states_per_step)


def explore(workload_name: str, run_number: int, states_per_step: int, *, stride: int = 1) -> Figures:
    """Open the store on up to `states_per_step` states of every `stride`-th step. Raises Violation."""
    run = _record(workload_name, run_number)
    figures = Figures(acknowledged=len(run.witness.before.acknowledged) + _acknowledged(run))
    for at in range(run_number % stride, len(run.steps) + 1, stride):
        run.advance(at)
        if run.is_worth_a_look(at):
            for state in run.states(range(states_per_step), states_per_step):
                figures = figures.plus(_examine(state, run.witness))
    return figures


def _acknowledged(run: _Run) -> int:
    from support.crash.promises import Acknowledged

    return sum(isinstance(event, Acknowledged) for _, event in run.witness.events)


def state_named(name: str) -> tuple[State, Witness]:
    """The state of that name, built again, and the witness of its run."""
    workload_name, run_number, *places = name.split("/")
    run = _record(workload_name, int(run_number))
    state = _state_at(run, *places[:2])
    if len(places) > 2:
        chance = random.Random(state.name)
        chance.randrange(_KINDS)
        state = _state_at(_record_again(state, run.witness, chance), *places[2:])
    return state, run.witness


def _state_at(run: _Run, step: str, seed_of_seeds: str) -> State:
    seed, budget = map(int, seed_of_seeds.split("-of-"))
    run.advance(int(step))
    (state,) = run.states(range(seed, seed + 1), budget)
    return state


def replay(name: str) -> None:
    """Build the state of that name again, and judge it as `explore` did. Raises Violation."""
    state, witness = state_named(name)
    if name.count("/") > 3:
        _judge(state, witness)
    else:
        _examine(state, witness)


def open_on_reused_space() -> None:
    """Open a log behind whose end whole records lie that were written for other places. Raises Violation."""
    clock = ManualClock()
    disk = SimulatedDisk(clock=clock)
    witness = Witness(disk, clock, crash_config())
    witness.open()
    stale = [witness.put("a", size) for size in (60, 90)]
    witness.flush()
    end = witness.store.max_offset
    image = disk.image()
    segment = ROOT / "commitlog" / f"{0:020d}"
    data = bytearray(image.files[segment])
    data[end : 2 * end] = data[:end]
    promises = witness.before.copy()
    promises.add(event for _, event in witness.events)
    reused = Image(image.files | {segment: data}, image.directories)
    assert [put.queue_offset for put in stale] == [0, 1]
    _judge(State("reused space", reused, promises, is_power_cut=True), witness)


def _examine(state: State, witness: Witness) -> Figures:
    """Open the store on a state, and on some states again after a second crash."""
    chance = random.Random(state.name)
    kind = chance.randrange(_KINDS)
    if kind == 0:
        return Figures(states=1).plus(_crash_again(state, witness, chance))
    store, disk, clock = _judge(state, witness)
    if kind <= 3:
        wrong = judge_afterwards(store, disk, state.promises, clock, is_power_cut=state.is_power_cut)
        _raise_if(state.name + " afterwards", wrong)
    return Figures(states=1)


def _judge(state: State, witness: Witness) -> tuple[MessageStore, SimulatedDisk, ManualClock]:
    clock = ManualClock(state.promises.now_ms)
    disk = SimulatedDisk(state.image, clock=clock)
    store = _open(state, disk, clock, witness)
    _raise_if(state.name, judge(store, disk, state.promises, is_power_cut=state.is_power_cut))
    return store, disk, clock


def _open(state: State, disk: SimulatedDisk, clock: ManualClock, witness: Witness) -> MessageStore:
    try:
        return MessageStore.open(ROOT, witness.config, clock=clock, file_system=disk, start=False)
    except Exception as error:
        raise Violation(state.name, [f"it does not open: {type(error).__name__}: {error}"]) from error


def _raise_if(name: str, wrong: list[str]) -> None:
    if wrong:
        raise Violation(name, wrong)


def _crash_again(state: State, witness: Witness, chance: random.Random) -> Figures:
    run = _record_again(state, witness, chance)
    figures = Figures()
    for at in sorted(chance.sample(range(len(run.steps) + 1), 4)):
        run.advance(at)
        for again in run.states(range(3), chance.choice((3, 8))):
            _judge(again, witness)
            figures = figures.plus(Figures(states=1, double_crashes=1))
    return figures


def _record_again(state: State, witness: Witness, chance: random.Random) -> _Run:
    """Record the opening of a state and a little work behind it."""
    clock = ManualClock(state.promises.now_ms)
    disk = SimulatedDisk(state.image, clock=clock)
    medium = Medium(disk)
    promises = state.promises.copy()
    promises.acknowledged = promises.required(is_power_cut=state.is_power_cut)
    second = Witness(disk, clock, witness.config, promises=promises, first_number=500_000)
    try:
        second.open()
        second.put("a", chance.randrange(20, 1_000))
        second.put("b", chance.randrange(20, 1_000), delay_level=1)
        second.pass_time(1_500)
        second.deliver()
        second.store._persistence.flush_all()
        second._observe()
        second.put("a", 100)
    except Exception as error:
        raise Violation(state.name, [f"it does not go on: {type(error).__name__}: {error}"]) from error
    return _Run(second, medium, state.name)
