"""Buffers that are used again: nobody gets one that another has, and few are kept."""

from concurrent.futures import ThreadPoolExecutor

from mqstore.store.bulk.buffer_pool import BufferPool


def test_what_was_given_back_is_taken_again() -> None:
    """Where it is large enough; while it is away there is another."""
    spare = BufferPool()
    first = spare.take(1_000)
    assert spare.take(1_000) is not first
    spare.release(first)
    assert spare.take(500) is first
    spare.release(first)
    larger = spare.take(1_001)
    assert larger is not first
    assert len(larger) >= 1_001


def test_few_are_kept_and_none_that_is_huge() -> None:
    """What a store holds for ever is bounded."""
    spare = BufferPool()
    buffers = [spare.take(size) for size in (10, 20, 30, 17 << 20)]
    for buffer in reversed(buffers):
        spare.release(buffer)
    taken = [spare.take(1) for _ in range(3)]
    assert [len(buffer) for buffer in taken] == [20, 30, 1]


def test_no_two_threads_have_the_same() -> None:
    """What one writes into its buffer, it finds there."""
    spare = BufferPool()

    def fill(number: int) -> bool:
        buffer = spare.take(10_000)
        buffer[:] = number
        is_ours = bool((buffer == number).all())
        spare.release(buffer)
        return is_ours

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(fill, [number % 251 for number in range(4_000)]))
