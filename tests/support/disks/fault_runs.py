"""The fault runs: a small life of a store, again and again, each time with another operation failing.

The rules that must hold whatever fails, and when:

    typed       a put, a read or a delivery raises a leaf of StoreError; opening, flushing, closing and the
                state files may also raise the OSError (it passes the seam, and says which file)
    final       after a failed sync of the log no second one is tried
    passing     what only lacked room or a descriptor poisons nothing
    kept        the directory opens again without the fault, in the same process and after a power cut, and
                the oracle finds nothing wrong
"""

import random
from collections.abc import Callable

from mqstore import MessageStore, StoreError
from support.crash.explorer import Violation
from support.crash.oracle import judge, judge_afterwards
from support.crash.promises import Promises
from support.crash.witness import ROOT, Witness, crash_config
from support.disks.faults import Fault, FaultKind
from support.disks.medium import Medium, choose
from support.disks.simulated_disk import SimulatedDisk
from support.manual_clock import ManualClock

__all__ = ["run_with_fault"]


class _Life:
    """A small life of a store, in which every call may fail."""

    def __init__(self, witness: Witness, fault: Fault, name: str) -> None:
        self._witness = witness
        self._fault = fault
        self._name = name

    def live(self) -> None:
        witness = self._witness
        if not self._may_fail(witness.open):
            return
        self._may_fail(lambda: witness.create_topic("first", 3))
        self._puts()
        self._may_fail(witness.flush)
        self._puts()
        self._may_fail(witness.retain)
        self._may_fail(witness.close)
        witness.disk.kill_locks()
        self._fault.restart()
        if self._may_fail(witness.open):
            self._puts()
            self._may_fail(witness.close)

    def _puts(self) -> None:
        witness = self._witness
        self._is_typed(lambda: witness.put("a", 300))
        self._is_typed(lambda: witness.put_all(*(("a", 2_400, {}) for _ in range(14))))
        self._is_typed(lambda: witness.put("b", 100, delay_level=1))
        self._is_typed(
            lambda: [witness.send_back("group", stored) for stored in witness.pull("group", "a")[:1]]
        )
        witness.pass_time(2_000)
        self._is_typed(witness.deliver)
        self._may_fail(witness.store._persistence.persist_state)
        self._may_fail(witness.store._persistence.persist_delay_offsets)
        self._may_fail(witness.store.commit_log.reserve_ahead)
        if self._fault.is_harmless and witness.store.commit_log.is_poisoned:
            raise Violation(self._name, ["the store is poisoned for want of room or a descriptor"])

    def _is_typed(self, action: Callable[[], object]) -> None:
        try:
            action()
        except StoreError as error:
            self._refuse_root(error)
        except Exception as error:
            raise Violation(self._name, [f"{type(error).__name__} escaped: {error}"]) from error

    def _may_fail(self, action: Callable[[], object]) -> bool:
        """Whether it did not; with an OSError at worst."""
        try:
            action()
        except StoreError as error:
            self._refuse_root(error)
            return False
        except OSError:
            return False
        except Exception as error:
            raise Violation(self._name, [f"{type(error).__name__} escaped: {error}"]) from error
        return True

    def _refuse_root(self, error: StoreError) -> None:
        if type(error) is StoreError:
            raise Violation(self._name, [f"an error without a type of its own: {error}"]) from error


def run_with_fault(kind: FaultKind, nth: int, *, for_good: bool, flush_disk_type: str) -> bool:
    """Live with that fault, then open without it; False when the life ended before it struck.

    Raises Violation.
    """
    name = f"{flush_disk_type} {kind.name} at {nth}{' for good' if for_good else ''}"
    clock = ManualClock()
    disk = SimulatedDisk(clock=clock)
    medium = Medium(disk)
    witness = Witness(
        disk, clock, crash_config(flush_disk_type=flush_disk_type, message_delay_level="1s 5s 10s")
    )
    fault = Fault(disk, kind, nth, for_good=for_good)
    _Life(witness, fault, name).live()
    if fault.struck is None:
        return False
    name += f" ({fault.struck[0]} {fault.struck[1]})"
    if fault.second_syncs:
        raise Violation(name, [f"the log was synced {fault.second_syncs} times after a sync had failed"])
    promises = witness.before.copy()
    promises.add(event for _, event in witness.events)
    for step in disk.steps:
        medium.apply(step)
    disk.kill()
    _reopen(name + ", killed", disk, promises, witness, is_power_cut=False)
    units = medium.units()
    for seed in range(2):
        choices = choose(units, random.Random(f"{name}/{seed}").randrange(4, 100) if seed else 0, 2, name)
        if choices is not None:
            cut = SimulatedDisk(medium.image(units, choices), clock=ManualClock(clock.now_ms()))
            _reopen(f"{name}, power cut {seed}", cut, promises, witness, is_power_cut=True)
    return True


def _reopen(
    name: str, disk: SimulatedDisk, promises: Promises, witness: Witness, *, is_power_cut: bool
) -> None:
    clock = ManualClock(promises.now_ms)
    disk.clock = clock
    promises = promises.copy()
    try:
        store = MessageStore.open(ROOT, witness.config, clock=clock, file_system=disk, start=False)
    except Exception as error:
        raise Violation(name, [f"it does not open: {type(error).__name__}: {error}"]) from error
    wrong = judge(store, disk, promises, is_power_cut=is_power_cut)
    wrong += judge_afterwards(store, disk, promises, clock, is_power_cut=is_power_cut) if not wrong else []
    if wrong:
        raise Violation(name, wrong)
