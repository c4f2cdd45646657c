"""The layout of a store directory: where each file lies, RocketMQ's and ours.

    <root>/commitlog/00000000000000000000 ...       segments                    store/log/commit_log.py
    <root>/consumequeue/<topic>/<queue>/...         entries                     index/queue/consume_queue.py
    <root>/index/<time of creation>                 keys                        index/index_file/
    <root>/config/topics.json, subscriptionGroup.json, consumerOffset.json, delayOffset.json (each with .bak)
    <root>/checkpoint, abort, lock                                              store/
    <root>/unfinished-backup                        ours: an unfinished backup    backup.py
    <root>/mqstore/recovery-point                   ours: offsets               store/state/
    <root>/mqstore/settings                         ours: how it was written    directory_settings_file.py
    <root>/mqstore/identity                         ours: which store it is     store_identity_file.py
    <root>/mqstore/archived                         ours: what is archived      archived_file.py
    <root>/mqstore/archive-lock                     ours: one archiver          tools/archive/store_archive.py
    <root>/mqstore/imports/                         ours: writes of Spark       import_journal.py
    <root>/mqstore/queue-names                      ours: queues there were     index/queue/
    <root>/mqstore/index-point                      ours: state of index/       index/index_file/
    <root>/mqstore/keys/                            ours: the key index, LMDB   index/keys/lmdb_key_index.py

Names of RocketMQ's files are fixed: a broker opens the same directory. Source: StorePathConfigHelper,
BrokerPathConfigHelper.
"""

import os
from pathlib import Path

import msgspec

from mqstore.store.errors import ConfigIllegal

__all__ = ["StoreLayout", "user_path"]


def user_path(path: str | Path) -> Path:
    """A path as users write it: `~` and `~name` at its beginning are directories of users, as in a shell.

    Raises ConfigIllegal where there is no such directory, for a folder called `~` helps nobody.
    """
    # Not by Path, for which ./~name is ~name.
    text = os.fspath(path)
    expanded = os.path.expanduser(text)  # noqa: PTH111
    if expanded.startswith("~"):
        raise ConfigIllegal(
            f"{text!r} begins in a home directory that is not known: give the whole path, or './~...' for a "
            "folder of that name",
            key="path",
            value=text,
        )
    return Path(expanded)


class StoreLayout(msgspec.Struct, frozen=True):
    """Paths of one store."""

    root: Path

    @property
    def commit_log(self) -> Path:
        """Directory of the log segments."""
        return self.root / "commitlog"

    @property
    def consume_queues(self) -> Path:
        """Directory of the consume queues, by topic and queue id."""
        return self.root / "consumequeue"

    @property
    def index(self) -> Path:
        """Directory of RocketMQ's index files."""
        return self.root / "index"

    @property
    def config(self) -> Path:
        """Directory of the state files."""
        return self.root / "config"

    @property
    def checkpoint(self) -> Path:
        """RocketMQ's checkpoint."""
        return self.root / "checkpoint"

    @property
    def abort(self) -> Path:
        """Exists while a writer has the store open, and after a crash."""
        return self.root / "abort"

    @property
    def lock(self) -> Path:
        """Locked by the one writer."""
        return self.root / "lock"

    @property
    def unfinished_backup(self) -> Path:
        """Exists while a backup is made in this directory, and after one that was killed."""
        return self.root / "unfinished-backup"

    @property
    def own(self) -> Path:
        """Directory of the files that only mqstore has."""
        return self.root / "mqstore"

    @property
    def recovery_point(self) -> Path:
        """Where recovery begins."""
        return self.own / "recovery-point"

    @property
    def settings(self) -> Path:
        """How the directory was written."""
        return self.own / "settings"

    @property
    def identity(self) -> Path:
        """Which store it is."""
        return self.own / "identity"

    @property
    def imports(self) -> Path:
        """Journal and staged rows of writes of Spark; exists once there was one."""
        return self.own / "imports"

    @property
    def archived(self) -> Path:
        """Up to where the log is archived; exists while retention is to wait for the archive."""
        return self.own / "archived"

    @property
    def archive_lock(self) -> Path:
        """Locked by the one archiver of this directory."""
        return self.own / "archive-lock"

    @property
    def queue_names(self) -> Path:
        """Which consume queues had entries (the queue manifest)."""
        return self.own / "queue-names"

    @property
    def keys(self) -> Path:
        """Directory of the key index."""
        return self.own / "keys"

    @property
    def index_point(self) -> Path:
        """The durable state of the index files."""
        return self.own / "index-point"
