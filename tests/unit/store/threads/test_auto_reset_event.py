"""An auto-reset event: no ring is lost, and several that nobody has heard are one."""

import threading
from concurrent.futures import ThreadPoolExecutor

from mqstore.store.threads.auto_reset_event import AutoResetEvent


def test_a_ring_is_kept_until_somebody_sleeps() -> None:
    """However often it rang, it is heard once."""
    event = AutoResetEvent()
    assert not event.wait(0)
    for _ in range(3):
        event.set()
    assert event.wait(60)
    assert not event.wait(0)


def test_it_wakes_who_sleeps() -> None:
    """In another thread, at once."""
    event = AutoResetEvent()
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(event.wait, 60)
        event.set()
        assert sleeping.result(60)


def test_many_ring_at_once() -> None:
    """No call of `set` fails, and the event is set afterwards."""
    event = AutoResetEvent()
    heard = threading.Semaphore(0)
    is_over = threading.Event()

    def listen() -> None:
        while not is_over.is_set():
            if event.wait(60):
                heard.release()

    def ring() -> None:
        for _ in range(1_000):
            event.set()

    with ThreadPoolExecutor(5) as pool:
        listening = pool.submit(listen)
        for ringing in [pool.submit(ring) for _ in range(4)]:
            ringing.result(60)
        assert heard.acquire(timeout=60)
        is_over.set()
        event.set()
        listening.result(60)
