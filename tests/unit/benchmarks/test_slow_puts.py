"""Slow puts: what a late put waited for.

Goal: the put that made others late is named, and its time is divided among the steps within it. Method: puts
and steps written down by hand, in milliseconds.
"""

import threading

from slow_puts import Episode, Put, Span, episodes_of, exclusive, explain

MS = 1_000_000
OWN_THREAD, SERVICE = threading.get_ident(), 7


def put(due: float, begin: float, end: float, *, cpu: float = 0.01, queued: bool = False) -> Put:
    """A put that saw its due time at once, on a processor that it had all the time."""
    due_ns, begin_ns, end_ns, cpu_ns = (int(value * MS) for value in (due, begin, end, cpu))
    return Put(due_ns, due_ns, begin_ns, end_ns, 0, 0, cpu_ns, queued)


def span(thread: int, name: str, begin: float, end: float, clock: float = 0) -> Span:
    return Span(thread, name, int(begin * MS), int(end * MS), int(clock * MS))


def explained(root: Put, *spans: Span) -> Episode:
    episode = Episode(root, 1, root.latency_ns)
    by_thread = {thread: [one for one in spans if one.thread == thread] for thread in (OWN_THREAD, SERVICE)}
    explain(episode, by_thread, OWN_THREAD)
    return episode


def test_puts_behind_a_slow_one_are_its_episode() -> None:
    """Three puts wait for the second; the fifth is on time and ends the row."""
    puts = [
        put(0, 0, 0.1),
        put(1, 1, 4.1),
        put(2, 4.1, 4.2, queued=True),
        put(3, 4.2, 4.3, queued=True),
        put(5, 5, 5.1),
    ]
    (episode,) = episodes_of(puts, 1 * MS)
    assert episode.root is puts[1]
    assert episode.late == 3
    assert round(episode.latency_ns / MS, 1) == 3.1


def test_the_slowest_of_a_row_is_its_root() -> None:
    """A put that waits for a short one, and then stalls itself, is the one that made the others late."""
    puts = [put(0, 0, 1.5), put(1, 1.5, 9, queued=True), put(2, 9, 9.1, queued=True)]
    (episode,) = episodes_of(puts, 2 * MS)
    assert episode.root is puts[1]
    assert episode.late == 2


def test_a_moment_counts_for_the_innermost_step() -> None:
    """A roll of 5 ms with a sync of 3 ms in it is 2 ms of rolling; what lies outside of the window is cut."""
    spans = [span(1, "roll", 0, 5), span(1, "sync", 1, 4), span(1, "write", 5, 8)]
    assert exclusive(spans, 0, 6 * MS) == {"roll": 2 * MS, "sync": 3 * MS, "write": 1 * MS}


def test_the_parts_of_a_put() -> None:
    """Due at 0, begun at 1, a roll of 3 ms, 0.5 ms of work, and the rest of the time somebody had the GIL."""
    episode = explained(
        put(0, 1, 10, cpu=1.5),
        span(OWN_THREAD, "roll", 2, 5, clock=1),
        span(SERVICE, "service dispatch", 0, 20),
        span(SERVICE, "fill queues", 6, 9),
    )
    parts = {name: ns / MS for name, ns in episode.causes.items() if ns}
    assert parts == {"wake": 1, "roll": 3, "work": 0.5, "GIL, lock": 5.5}
    assert "service dispatch [dispatch] 7.00" in episode.beside
    assert "fill queues [dispatch] 3.00" in episode.beside


def test_a_processor_that_stood_still_is_the_machines() -> None:
    """What passed before the generator could look at its clock is not the store's."""
    due = put(0, 4, 5)
    episode = explained(due._replace(seen_ns=int(3.5 * MS)))
    assert episode.causes["machine"] == 3.5 * MS
    assert episode.causes["wake"] == 0.5 * MS
