"""A bell: no ring is lost, and several that nobody has heard are one."""

import threading
from concurrent.futures import ThreadPoolExecutor

from mqstore.store.threads.auto_reset_event import Bell


def test_a_ring_is_kept_until_somebody_sleeps() -> None:
    """However often it rang, it is heard once."""
    bell = Bell()
    assert not bell.sleep(0)
    for _ in range(3):
        bell.ring()
    assert bell.sleep(60)
    assert not bell.sleep(0)


def test_it_wakes_who_sleeps() -> None:
    """In another thread, at once."""
    bell = Bell()
    with ThreadPoolExecutor(1) as pool:
        sleeping = pool.submit(bell.sleep, 60)
        bell.ring()
        assert sleeping.result(60)


def test_many_ring_at_once() -> None:
    """None of them is told of the others, and whoever rang is heard afterwards."""
    bell = Bell()
    heard = threading.Semaphore(0)
    is_over = threading.Event()

    def listen() -> None:
        while not is_over.is_set():
            if bell.sleep(60):
                heard.release()

    def ring() -> None:
        for _ in range(1_000):
            bell.ring()

    with ThreadPoolExecutor(5) as pool:
        listening = pool.submit(listen)
        for ringing in [pool.submit(ring) for _ in range(4)]:
            ringing.result(60)
        assert heard.acquire(timeout=60)
        is_over.set()
        bell.ring()
        listening.result(60)
