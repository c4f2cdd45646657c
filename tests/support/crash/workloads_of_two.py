"""Workloads of two processes on one disk: a second writer that got in, and children of the first.

They bring about what only the lock and a fork can: a writer that has lost its lock must not write any more,
and a child must not write at all. The second writer is a second witness with the same list of events, so that
the oracle asks for what either of them was promised.
"""

import random
from collections.abc import Callable
from contextlib import suppress

from mqstore import StoreError
from support.crash.forked_child import run_in_child
from support.crash.witness import ROOT, Witness

__all__ = ["forked_children", "lost_lock"]


def lost_lock(witness: Witness, chance: random.Random) -> None:
    """The lock file is deleted, another writer comes in, and then the first looks after its lock."""
    witness.open()
    for size in (60, chance.randrange(100, 2_000), 90):
        witness.put("a", size)
    witness.pull("group", "a")
    if chance.random() < 0.5:
        witness.flush()
    witness.put("b", 300, delay_level=1)
    witness.disk.delete(ROOT / "lock")
    try:
        _second_writer(witness, chance)
    except StoreError as error:
        raise AssertionError(f"the second writer is disturbed: {type(error).__name__}: {error}") from error


def _second_writer(witness: Witness, chance: random.Random) -> None:
    second = Witness(witness.disk, witness.clock, witness.config, promises=witness.before, first_number=1_000)
    second.events = witness.events
    second.open()
    for at in range(chance.randrange(2, 9)):
        second.put("a", chance.randrange(40, 400), queue_id=at % 2)
    second.pull("group", "a")
    _do_all(witness, chance)
    second.put("a", 200)
    second.flush()
    _close(witness)
    second.put("b", chance.randrange(40, 2_000))
    second.pass_time(1_500)
    second.deliver()
    second.close()


def _do_all(witness: Witness, chance: random.Random) -> None:
    """All that a store and its services do, the look at the lock first."""
    store = witness.store
    steps: list[Callable[[], object]] = [
        lambda: witness.put("a", chance.randrange(40, 400)),
        lambda: witness.put_all(*(("b", 90, {}) for _ in range(30))),
        lambda: store.topics.create("c", 3),
        store._services.dispatch,
        store._persistence.flush_all,
        store._persistence.persist_state,
        store._persistence.persist_delay_offsets,
        store.deliver_due,
        store._services.retain,
        store._flusher.run_once,
        store.commit_log.reserve_ahead,
        store.flush,
    ]
    for step in (store._lock_watch.check, *chance.sample(steps, len(steps))):
        with suppress(StoreError):
            step()


def _close(witness: Witness) -> None:
    """Close without the promises of a close: it has none to give."""
    with suppress(StoreError):
        witness.store.close()


def forked_children(witness: Witness, chance: random.Random) -> None:
    """Children leave their parent's `with` at any moment, and try to go on with its store."""
    witness.open()
    witness.flush()
    for round_number in range(7):
        witness.put_all(*(("a", chance.randrange(7, 30), {}) for _ in range(chance.randrange(20, 32))))
        witness.pull("group", "a")
        if round_number in (2, 5):
            run_in_child(witness.disk, lambda: _do_all(witness, chance), witness.store.close)
    witness.put("b", 100)
    witness.close()
