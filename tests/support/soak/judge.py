"""The judge of a soak: what must have become of every message, by the journal and by the store at its end.

lost            a message that was acknowledged is not in the log
not consumed    a group has neither consumed a message nor given it up
dead letters    of a group: exactly the messages that always fail in it
too often       a message was retried more often than it may be; in a steady run also: delivered more often
than its fate says, or less often
order           the group in order was given a message before those in front of it were done with, or two of
one queue at a time
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from support.soak.fates import GROUPS, ORDERLY_GROUP, RETRIES, fate_of
from support.soak.journal import Line

__all__ = ["Stored", "judge"]


class Stored(NamedTuple):
    """What the store has at the end. queues: the keys of each queue of the topic, in its order.

    dead: for each group the keys of its dead letters.
    """

    queues: Mapping[int, Sequence[str]]
    dead: Mapping[str, Sequence[str]]


def judge(seed: int, lines: Iterable[Line], stored: Stored) -> list[str]:
    """What went wrong, a line each; empty if nothing did."""
    lines = list(lines)
    keys = [key for queue in stored.queues.values() for key in queue]
    sent = [(line.run, line.words[0]) for line in lines if line.kind == "sent"]
    wrong = [f"lost: {key}" for _, key in sent if key not in set(keys)] if sent else ["nothing was sent"]
    wrong += [f"stored {count} times: {key}" for key, count in Counter(keys).items() if count > 1]
    for group in GROUPS:
        wrong += _outcomes(seed, group, lines, keys, stored.dead.get(group, ()))
    steady = {line.run for line in lines if line.kind == "run" and line.words[0] == "steady"}
    steady &= {line.run for line in lines if line.kind == "closed"}
    wrong += _exact(seed, lines, {key: run for run, key in sent if run in steady})
    wrong += _order(seed, lines, stored.queues)
    return wrong


def _outcomes(
    seed: int, group: str, lines: Sequence[Line], keys: Sequence[str], dead: Sequence[str]
) -> list[str]:
    """Every message was consumed, or is a dead letter, and is the one that it must be."""
    done, wrong = set(), []
    for line in lines:
        if line.kind == "end" and line.words[0] == group and line.words[6] == "done":
            done.add(line.words[2])
        if line.kind == "begin" and line.words[0] == group and int(line.words[5]) > RETRIES:
            wrong.append(f"{group}: {line.words[2]} was retried {line.words[5]} times")
    doomed = {key for key in keys if fate_of(seed, group, key).is_dead}
    wrong += [f"{group}: not consumed: {key}" for key in keys if key not in done and key not in doomed]
    wrong += [f"{group}: no dead letter: {key}" for key in sorted(doomed - set(dead))]
    wrong += [f"{group}: dead, and must not be: {key}" for key in sorted(set(dead) - doomed)]
    return wrong


def _exact(seed: int, lines: Sequence[Line], keys: Mapping[str, int]) -> list[str]:
    """Messages that were sent and consumed in one steady run were delivered exactly as often as they fail."""
    deliveries: Counter[tuple[str, str]] = Counter()
    for line in lines:
        if line.kind == "begin" and line.words[2] in keys:
            deliveries[line.words[0], line.words[2]] += 1
    return [
        f"{group}: {key} was delivered {deliveries[group, key]} times, not {expected}"
        for key in keys
        for group in GROUPS
        if deliveries[group, key] != (expected := fate_of(seed, group, key).deliveries)
    ]


def _order(seed: int, lines: Sequence[Line], queues: Mapping[int, Sequence[str]]) -> list[str]:
    """In order nothing is begun before what is in front of it was done, or has failed for good."""
    wrong: list[str] = []
    over: dict[int, set[int]] = defaultdict(set)
    first_open: Counter[int] = Counter()
    at_work: dict[int, tuple[int, str]] = {}
    known = {key: (queue_id, at) for queue_id, queue in queues.items() for at, key in enumerate(queue)}
    for line in lines:
        if line.kind == "run":
            at_work.clear()
        if line.kind not in ("begin", "end") or line.words[0] != ORDERLY_GROUP:
            continue
        key = line.words[2]
        queue_id, offset = known[key]
        if line.kind == "begin":
            if queue_id in at_work:
                wrong.append(f"{key} was begun while {at_work[queue_id][1]} of its queue was at work")
            at_work[queue_id] = (offset, key)
            if offset > first_open[queue_id]:
                wrong.append(f"{key} was begun before {queues[queue_id][first_open[queue_id]]}")
            continue
        at_work.pop(queue_id, None)
        is_given_up = fate_of(seed, ORDERLY_GROUP, key).is_dead
        if line.words[6] == "done" or (is_given_up and int(line.words[5]) >= RETRIES):
            over[queue_id].add(offset)
            while first_open[queue_id] in over[queue_id]:
                first_open[queue_id] += 1
    return wrong
