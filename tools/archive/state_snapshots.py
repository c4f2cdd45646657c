"""The small files of a store in its archive: what makes a directory of segments a store with its topics.

    config/topics.json, subscriptionGroup.json, consumerOffset.json, delayOffset.json     RocketMQ's
    mqstore/settings, mqstore/identity                                                    ours

Each run of the archiver saves them as they are on disk, with the offset at which the log then ended. A
restored log ends earlier: at its last sealed segment. So it gets

    topics, groups, settings          of the newest snapshot, which knows all that the log needs
    consumer offsets, delay offsets   of the newest snapshot whose log ended at or before the restored end,
                                      else none: a group or a delivery that stood beyond the end would skip
                                      what comes there next, and a delayed message whose delivery is behind
                                      the end would be missing

Hence a restored group sees some messages again, and none is skipped. Threads: one.
"""

from pathlib import Path

from mqstore.administration.backup import read_state_files
from mqstore.message_store import MessageStore
from mqstore.metadata.consumer_offsets import CONSUMER_OFFSET_FILE_NAME
from mqstore.metadata.subscription_groups import SUBSCRIPTION_GROUP_FILE_NAME
from mqstore.metadata.topics import TOPICS_FILE_NAME
from mqstore.schedule.delay.delay_offsets import DELAY_OFFSET_FILE_NAME
from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import StoreLayout
from mqstore.tools.archive.archive_errors import ArchiveDamaged
from mqstore.tools.archive.archive_place import ArchivePlace
from mqstore.tools.archive.manifest import STATE_FOLDER, StateSnapshot, encode_signed, offset_of, state_name
from mqstore.tools.archive.manifest_reader import load_object

__all__ = ["delete_old_snapshots", "files_to_restore", "save_snapshot"]

_OFFSET_FILES = (CONSUMER_OFFSET_FILE_NAME, DELAY_OFFSET_FILE_NAME)
_STATE_FILES = (TOPICS_FILE_NAME, SUBSCRIPTION_GROUP_FILE_NAME, *_OFFSET_FILES)
# Snapshots kept that end within the archive: one to restore, and one for a restore that has just begun.
_KEPT = 2


def save_snapshot(store: MessageStore, identity: str, place: ArchivePlace) -> None:
    """Save the small files, as they are on disk. Raises OSError."""
    layout, file_system = StoreLayout(store.path), OsFileSystem()
    in_config = read_state_files(file_system, layout)
    found = {path: data for path, data in in_config.items() if path.name in _STATE_FILES}
    for path in (layout.settings, layout.identity):
        found[path.relative_to(layout.root)] = file_system.read(path)
    # After the reading: no offset in the files is beyond what is in the log now.
    store.refresh()
    end_offset = store.max_offset if store.read_only else store.commit_log.flushed_offset
    snapshot = StateSnapshot(
        store=identity,
        end_offset=end_offset,
        files={path.as_posix(): data for path, data in sorted(found.items())},
    )
    place.write(state_name(end_offset), [encode_signed(snapshot)])


def delete_old_snapshots(place: ArchivePlace, archived_end: int) -> None:
    """Delete the snapshots that newer ones, which end within the archive too, have made useless."""
    within = [offset for offset in _snapshot_offsets(place) if offset <= archived_end]
    for offset in within[:-_KEPT]:
        place.delete(state_name(offset))


def files_to_restore(place: ArchivePlace, identity: str, end_offset: int) -> dict[Path, bytes]:
    """The small files for a log that ends at `end_offset`. Raises ArchiveDamaged."""
    offsets = _snapshot_offsets(place)
    if not offsets:
        raise ArchiveDamaged(place.shown, STATE_FOLDER, "the small files of the store", "none")
    files = dict(_load(place, offsets[-1], identity).files)
    for name in _OFFSET_FILES:
        files.pop(f"config/{name}", None)
    within = [offset for offset in offsets if offset <= end_offset]
    if within:
        earlier = _load(place, within[-1], identity).files
        files |= {path: data for path, data in earlier.items() if Path(path).name in _OFFSET_FILES}
    return {_checked(place, path): data for path, data in files.items()}


def _snapshot_offsets(place: ArchivePlace) -> list[int]:
    return sorted(offset for name in place.list(STATE_FOLDER) if (offset := offset_of(name)) is not None)


def _load(place: ArchivePlace, offset: int, identity: str) -> StateSnapshot:
    snapshot = load_object(place, state_name(offset), StateSnapshot)
    if snapshot.store != identity:
        raise ArchiveDamaged(place.shown, state_name(offset), f"store {identity}", snapshot.store)
    return snapshot


def _checked(place: ArchivePlace, path: str) -> Path:
    """The path, if it is one of the few that a snapshot has: an archive writes nowhere else."""
    known = {f"config/{name}" for name in _STATE_FILES} | {"mqstore/settings", "mqstore/identity"}
    if path not in known:
        raise ArchiveDamaged(place.shown, STATE_FOLDER, "small files of a store", repr(path))
    return Path(path)
