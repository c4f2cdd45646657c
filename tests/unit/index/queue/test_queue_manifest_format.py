"""The queue manifest: its bytes, what it misses, and how it follows new files, deletions and retention."""

import pytest

from mqstore.index.queue.queue_manifest_format import (
    QueueFiles,
    QueueManifest,
    decode_queue_names,
    encode_queue_names,
)

ORDERS, PAID = ("orders", 0), ("paid", 3)
MANIFEST = QueueManifest(4096, {ORDERS: QueueFiles(2000, 6000), PAID: QueueFiles(0, 0)})


def test_what_was_encoded_is_decoded() -> None:
    """Sorted by topic and number, whatever the order in memory."""
    turned = QueueManifest(4096, dict(reversed(MANIFEST.files.items())))
    assert encode_queue_names(MANIFEST) == encode_queue_names(turned)
    assert decode_queue_names(encode_queue_names(MANIFEST)) == MANIFEST


@pytest.mark.parametrize("at", range(len(encode_queue_names(MANIFEST))))
def test_any_changed_byte_is_found(at: int) -> None:
    """Magic and version by themselves, the others by the CRC; then nothing is known to be missing."""
    data = bytearray(encode_queue_names(MANIFEST))
    data[at] ^= 0x10
    assert decode_queue_names(bytes(data)) is None
    assert decode_queue_names(bytes(data[:at])) is None


@pytest.mark.parametrize(
    ("now", "has_all"),
    [
        (MANIFEST, True),
        (QueueManifest(4096, {**MANIFEST.files, ("new", 0): QueueFiles(0, 0)}), True),
        (QueueManifest(4096, {**MANIFEST.files, ORDERS: QueueFiles(2000, 8000)}), True),
        (QueueManifest(4096, {**MANIFEST.files, ORDERS: QueueFiles(0, 6000)}), True),
        (QueueManifest(8192, {**MANIFEST.files, ORDERS: QueueFiles(4000, 6000)}), True),
        (QueueManifest(4096, {**MANIFEST.files, ORDERS: QueueFiles(4000, 6000)}), False),
        (QueueManifest(4096, {**MANIFEST.files, ORDERS: QueueFiles(2000, 4000)}), False),
        (QueueManifest(8192, {ORDERS: QueueFiles(2000, 6000)}), False),
    ],
    ids=["same", "queue added", "grown", "longer before", "expired", "first lost", "last lost", "queue lost"],
)
def test_what_is_missing(now: QueueManifest, has_all: bool) -> None:
    """A queue, its last file, or its first one, unless the log has lost its own beginning since."""
    assert now.has_all_of(MANIFEST) is has_all


def test_new_files_are_added() -> None:
    """A queue that grows, and a new one; the same files again give the same object, which is not written."""
    added = {PAID: QueueFiles(0, 2000), ("new", 0): QueueFiles(0, 0)}
    grown = MANIFEST.plus(added)
    assert grown == QueueManifest(4096, {ORDERS: QueueFiles(2000, 6000), **added})
    assert grown.plus(added) is grown
    assert grown.plus({}) is grown


def test_a_deleted_queue_goes() -> None:
    """The others stay; one that is not known changes nothing."""
    assert MANIFEST.without(PAID) == QueueManifest(4096, {ORDERS: QueueFiles(2000, 6000)})
    assert MANIFEST.without(("paid", 0)) == MANIFEST


def test_retention_takes_first_files() -> None:
    """A queue that has no files any more keeps what was known of it; one that is not known is not added."""
    trimmed = MANIFEST.trimmed(8192, {ORDERS: 4000, ("new", 0): 0})
    assert trimmed == QueueManifest(8192, {ORDERS: QueueFiles(4000, 6000), PAID: QueueFiles(0, 0)})
    assert trimmed.has_all_of(MANIFEST)
