"""The judge of a soak condemns what it is there for: a sound journal is changed in one place."""

from collections.abc import Callable

import pytest

from support.soak.fates import GROUPS, ORDERLY_GROUP, RETRIES, Fate, fate_of
from support.soak.journal import Line
from support.soak.judge import Stored, judge

SEED = 1
KEYS = [f"1-0-{number}" for number in range(60)]


def sound() -> tuple[list[Line], Stored]:
    """One steady run of one queue: everything is as it must be."""
    lines = [Line("run", 1, ("steady",))]
    for offset, key in enumerate(KEYS):
        lines.append(Line("sent", 1, (key,)))
        for group in GROUPS:
            fate = fate_of(SEED, group, key)
            for times in range(fate.deliveries):
                place = (group, "0", key, "0", str(offset), str(times))
                lines.append(Line("begin", 1, place))
                lines.append(Line("end", 1, (*place, "failed" if times < fate.failures else "done")))
    lines.append(Line("closed", 1, ()))
    dead = {group: [key for key in KEYS if fate_of(SEED, group, key).is_dead] for group in GROUPS}
    return lines, Stored({0: KEYS}, dead)


def first(group: str, wanted: Callable[[Fate], bool]) -> str:
    """A key with such a fate."""
    return next(key for key in KEYS if wanted(fate_of(SEED, group, key)))


def without(lines: list[Line], kind: str, *words: str) -> list[Line]:
    return [line for line in lines if not (line.kind == kind and set(words) <= set(line.words))]


def test_a_sound_soak() -> None:
    """Nothing is said; there are retries and dead letters in it."""
    lines, stored = sound()
    assert judge(SEED, lines, stored) == []
    assert all(stored.dead[group] for group in GROUPS)
    assert any(line.kind == "begin" and line.words[5] == str(RETRIES) for line in lines)


def test_a_message_that_was_acknowledged_is_gone() -> None:
    """Lost."""
    lines, stored = sound()
    assert "lost: 1-0-77" in judge(SEED, [*lines, Line("sent", 1, ("1-0-77",))], stored)


def test_a_message_that_is_stored_twice() -> None:
    """By a producer, or a recovery."""
    lines, stored = sound()
    assert f"stored 2 times: {KEYS[3]}" in judge(SEED, lines, stored._replace(queues={0: KEYS, 1: [KEYS[3]]}))


def test_a_message_that_was_not_consumed() -> None:
    """By one of the groups."""
    lines, stored = sound()
    key = first("mail", lambda fate: not fate.failures)
    assert f"mail: not consumed: {key}" in judge(SEED, without(lines, "end", "mail", key), stored)


def test_a_dead_letter_too_few_and_one_too_many() -> None:
    """Exactly those that always fail."""
    lines, stored = sound()
    dead = first("mail", lambda fate: fate.is_dead)
    alive = first("mail", lambda fate: not fate.is_dead)
    found = judge(SEED, lines, stored._replace(dead={**stored.dead, "mail": [alive]}))
    assert {f"mail: no dead letter: {dead}", f"mail: dead, and must not be: {alive}"} <= set(found)


def test_a_retry_too_many() -> None:
    """Whoever was killed."""
    lines, stored = sound()
    line = Line("begin", 1, ("mail", "0", KEYS[0], "0", "0", str(RETRIES + 1)))
    assert f"mail: {KEYS[0]} was retried {RETRIES + 1} times" in judge(SEED, [*lines, line], stored)


@pytest.mark.parametrize("count", [0, 2])
def test_a_delivery_too_few_or_too_many(count: int) -> None:
    """In a run in which nobody was killed and nobody left."""
    lines, stored = sound()
    key = first("mail", lambda fate: not fate.failures)
    begin = next(line for line in lines if line.kind == "begin" and {"mail", key} <= set(line.words))
    changed = without(lines, "begin", "mail", key) + [begin] * count
    assert f"mail: {key} was delivered {count} times, not 1" in judge(SEED, changed, stored)


def test_two_of_a_queue_at_a_time() -> None:
    """In the group in order."""
    lines, stored = sound()
    found = judge(SEED, without(lines, "end", ORDERLY_GROUP, KEYS[0]), stored)
    assert f"{KEYS[1]} was begun while {KEYS[0]} of its queue was at work" in found


def test_one_before_its_turn() -> None:
    """In the group in order: what is in front of it was neither done nor given up."""
    lines, stored = sound()
    changed = without(without(lines, "begin", ORDERLY_GROUP, KEYS[0]), "end", ORDERLY_GROUP, KEYS[0])
    assert f"{KEYS[1]} was begun before {KEYS[0]}" in judge(SEED, changed, stored)
    dead = first(ORDERLY_GROUP, lambda fate: fate.is_dead)
    early = without(lines, "end", ORDERLY_GROUP, dead, str(RETRIES))
    after = KEYS[KEYS.index(dead) + 1]
    assert f"{after} was begun before {dead}" in judge(SEED, early, stored)
