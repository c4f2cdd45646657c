"""The stats of a store: what they say of it while it is at work."""

from mqstore import Message
from support.stores.small_store import SmallStore


def test_stats_tell_how_it_is_doing(small: SmallStore) -> None:
    """Offsets, lags, counts, and what is wrong: nothing."""
    with small.open() as store:
        store.put_messages([Message("orders", b"x", queue_id=index) for index in range(3)])
        stats = store.stats()
        assert (stats.min_offset, stats.max_offset, stats.flushed_offset) == (0, store.max_offset, 0)
        assert (
            stats.flush_behind_bytes
            == stats.dispatch_behind_bytes
            == stats.storage_size_bytes
            == store.max_offset
        )
        store.flush()
        stats = store.stats()
        assert (stats.flush_behind_bytes, stats.dispatch_behind_bytes) == (0, 0)
        assert (stats.segments, stats.queues, stats.messages) == (1, 3, 3)
        assert (stats.refusal, stats.errors, stats.read_only) == (None, {}, False)
