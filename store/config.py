"""All settings of a store, in one immutable value that is read once, when the store is opened.

Names are RocketMQ's (MessageStoreConfig, BrokerConfig) in snake_case, with RocketMQ's defaults unless a
field says otherwise. Derive a variant with `dataclasses.replace(config, flush_disk_type="SYNC_FLUSH")`, or
read a TOML table with `StoreConfig.from_toml(path)`. Nothing is read from the environment.

Some settings say how a directory is written (REMEMBERED_SETTINGS). If one of them is not given, the value
that the directory remembers holds, and in a new directory the default below. `store.config` has the values
in force.
"""

import contextlib
import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from mqstore.store.default_setting import DefaultInt, DefaultText
from mqstore.store.errors import ConfigIllegal
from mqstore.store.record.host import Host
from mqstore.store.record.record_format import BLANK_MIN_BYTES, MAX_RECORD_OVERHEAD_BYTES

__all__ = ["REMEMBERED_SETTINGS", "StoreConfig", "read_toml"]

REMEMBERED_SETTINGS = (
    "mapped_file_size_commit_log",
    "mapped_file_size_consume_queue",
    "max_hash_slot_num",
    "max_index_num",
    "max_message_size",
    "message_delay_level",
    "key_index",
)
"""The settings that a directory remembers. Its values hold for those that are not given."""

# (field, least, greatest). RocketMQ's own clamps for the ratios (spec of the commit log, section 16).
_BOUNDS = (
    ("mapped_file_size_commit_log", 1, 2**31 - 1),
    ("mapped_file_size_consume_queue", 20, 2**31 - 1),
    ("max_message_size", 1, 2**30),
    ("flush_interval_commit_log", 1, 3_600_000),
    ("flush_commit_log_least_pages", 0, 2**20),
    ("flush_commit_log_thorough_interval", 1, 3_600_000),
    ("flush_interval_consume_queue", 1, 3_600_000),
    ("flush_delay_offset_interval", 1, 3_600_000),
    ("flush_consumer_offset_interval", 1, 3_600_000),
    ("flush_progress_interval", 1, 3_600_000),
    ("sync_flush_timeout", 1, 3_600_000),
    ("file_reserved_time", 0, 24 * 365 * 100),
    ("clean_resource_interval", 1, 86_400_000),
    ("delete_file_batch_max", 1, 1_000_000),
    ("disk_max_used_space_ratio", 10, 95),
    ("disk_space_clean_forcibly_ratio", 30, 85),
    ("disk_space_warning_level_ratio", 35, 90),
    ("default_topic_queue_nums", 1, 65_536),
    ("reserve_window_commit_log", 65_536, 2**30),
    ("reserve_window_consume_queue", 4_096, 2**30),
    ("max_transfer_bytes_on_message_in_memory", 1, 2**31 - 1),
    ("max_transfer_count_on_message_in_memory", 1, 2**31 - 1),
    ("max_filter_message_size", 20, 2**31 - 1),
    ("dispatch_interval", 1, 60_000),
    ("max_hash_slot_num", 1, 400_000_000),
    ("max_index_num", 2, 100_000_000),
    ("delivery_interval", 1, 60_000),
)

_CHOICES = {
    "flush_disk_type": ("ASYNC_FLUSH", "SYNC_FLUSH"),
    "mapped_writes": ("auto", "always", "never"),
    "key_index": ("lmdb", "index_file", "both"),
}
# How much of a name must be in the right one for a suggestion; "SYNC" is half of "SYNC_FLUSH".
_LEAST_LIKENESS = 0.5

# Numbers that may be None as well; in text "none".
_OPTIONAL = ("sync_flush_timeout",)

# What a field of this type must be, in words.
_TYPES: dict[object, str] = {
    bool: "true or false, without quotes",
    str: "text",
    Host: "an address and a port, as in 127.0.0.1:10911",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """Settings of a `MessageStore`. Raises ConfigIllegal for a value out of bounds, and for an unknown name.

    >>> StoreConfig(flush_disk_type="SYNC_FLUSH").flush_disk_type
    'SYNC_FLUSH'
    """

    # -- behaviour ------------------------------------------------------------------------------------

    flush_disk_type: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = "ASYNC_FLUSH"
    """SYNC_FLUSH: a put returns after fdatasync. ASYNC_FLUSH: a power cut may take the last second
    (`longest_unflushed_ms`), and of what is older than half a second less than 16 KiB."""

    mapped_file_size_commit_log: int = DefaultInt(1_073_741_824)
    """Bytes of a log segment. Remembered: a directory that has files keeps their size."""

    mapped_file_size_consume_queue: int = DefaultInt(6_000_000)
    """Bytes of a consume-queue file, rounded up to whole entries of 20. As above."""

    max_message_size: int = DefaultInt(4_194_304)
    """Largest body in bytes. A segment must hold it with 65,544 bytes to spare. The directory remembers
    the largest that was ever given."""

    message_delay_level: str = DefaultText("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    """The delay of each level, from level 1; units s, m, h, d. Remembered. A new table holds for messages
    that are put from then on; messages that wait keep their delivery time."""

    enabled_append_prop_crc: bool = True
    """Close each record with a CRC over all of it. RocketMQ's default is off; its readers accept both.
    Cost: 20 bytes and one CRC pass a record."""

    auto_create_topic_enable: bool = True
    """Create a topic at the first put to it."""

    auto_create_subscription_group: bool = True
    """Create a consumer group at its first use."""

    default_topic_queue_nums: int = 8
    """Queues of a topic that is created automatically. (A RocketMQ broker gives such a topic 4.)"""

    file_reserved_time: int = 72
    """Hours that a log segment is kept after its last write."""

    delete_when: str = "04"
    """Local hours, separated by ';', in which segments past file_reserved_time are deleted."""

    clean_file_forcibly_enable: bool = True
    """Delete the oldest segments regardless of age above disk_space_clean_forcibly_ratio."""

    disk_max_used_space_ratio: int = 75
    """Percent of the disk above which expired segments are deleted at any hour."""

    disk_space_clean_forcibly_ratio: int = 85
    """Percent of the disk above which the oldest segments are deleted regardless of age."""

    disk_space_warning_level_ratio: int = 90
    """Percent of the disk above which puts are refused with StoreFull."""

    store_host: Host = Host(b"\x7f\x00\x00\x01", 10911)
    """The host written into records; part of every offset message id."""

    key_index_enable: bool = True
    """Index messages by their keys, for `query_message` (RocketMQ: messageIndexEnable)."""

    key_index: Literal["lmdb", "index_file", "both"] = cast("Literal['both']", DefaultText("both"))
    """Where keys are indexed. lmdb: in `mqstore/keys/`, which a broker ignores. index_file: in RocketMQ's
    `index/`, for a broker that opens the directory after us. both: in both, and `query_message` asks lmdb.
    The answers are the same. Cost of both over lmdb: a few percent of puts with keys; 1 MB of disk from the
    first key on, and 20 MB of memory and disk and 20 bytes a key when they are many. Remembered."""

    index_tags: bool = True
    """Put a message's tags into `index/` too, as brokers from 5.5.0 on do; older ones do not need them."""

    max_hash_slot_num: int = DefaultInt(5_000_000)
    """Slots of a file in `index/`: 4 bytes each, on disk and, of the newest file, in memory. Remembered."""

    max_index_num: int = DefaultInt(20_000_000)
    """Entries of a file in `index/`, and one more: 20 bytes each. Remembered: a directory that has such
    files keeps the two numbers that it was written with."""

    mapped_writes: Literal["auto", "always", "never"] = "auto"
    """How bytes get into the files. auto: through memory mappings where the file system keeps room that was
    reserved (ext4, tmpfs, xfs without reflink), elsewhere (btrfs, zfs, xfs with reflink, all unknown ones)
    by calls, so that a full disk is StoreFull. always: through mappings, for an xfs on which nobody makes
    reflink copies of the files, as `cp` does by default. If somebody does, and on btrfs anyway, a full disk
    ends the process by SIGBUS; what was acknowledged is kept. never: by calls; docs/benchmarks.md has the
    cost."""

    # -- performance ----------------------------------------------------------------------------------

    flush_interval_commit_log: int = 500
    """Milliseconds between background flushes of the log in ASYNC_FLUSH."""

    flush_commit_log_least_pages: int = 4
    """With fewer dirty 4 KiB pages than this, such a flush is left to the next round."""

    flush_commit_log_thorough_interval: int = 10_000
    """Milliseconds after which a flush ignores flush_commit_log_least_pages."""

    sync_flush_timeout: int | None = 5_000
    """Milliseconds that a put waits for the disk in SYNC_FLUSH before it answers FLUSH_DISK_TIMEOUT. None (in
    text "none"): as long as the disk takes, which may be for ever if it hangs. A put that syncs then calls
    fdatasync itself, instead of another thread: up to a third more puts a second on an idle machine."""

    flush_interval_consume_queue: int = 1_000
    """Milliseconds between flushes of consume queues, key index and checkpoints."""

    flush_delay_offset_interval: int = 10_000
    """Milliseconds between writes of delayOffset.json."""

    flush_consumer_offset_interval: int = 5_000
    """Milliseconds between writes of consumerOffset.json, topics.json and subscriptionGroup.json."""

    flush_progress_interval: int = 200
    """Milliseconds after which consumer and delay offsets that have moved are written, whatever the two
    settings above say. A process that is killed does again what it did since. (RocketMQ has no such setting;
    3,600,000 is its behaviour.) Cost: while they move, a sync of the log and of a small file or two, at most
    a tenth of the time; single puts beside it are 0 to 5 % slower, less than what rounds differ by
    (benchmarks/progress_cost.py, docs/howto/worker.md)."""

    dispatch_interval: int = 20
    """Milliseconds between rounds of the dispatcher while nobody waits. Readers never wait for it."""

    delivery_interval: int = 100
    """Milliseconds between rounds of the delivery service: how late a delayed message may be found."""

    clean_resource_interval: int = 10_000
    """Milliseconds between checks of the age of segments and of disk use."""

    delete_file_batch_max: int = 10
    """Segments deleted in one such round, at most."""

    reserve_window_commit_log: int = 33_554_432
    """Bytes of the log reserved on disk ahead of the writer at a time."""

    reserve_window_consume_queue: int = 65_536
    """Bytes of a consume queue reserved on disk ahead of the dispatcher at a time."""

    max_transfer_bytes_on_message_in_memory: int = 262_144
    """Bytes of records that one `get_message` returns, at most (the first is always returned)."""

    max_transfer_count_on_message_in_memory: int = 32
    """Messages that one `get_message` returns, at most."""

    max_filter_message_size: int = 16_000
    """Bytes of consume queue that one `get_message` looks through, at most."""

    def __new__(cls, *_: object, **settings: object) -> "StoreConfig":
        """Refuses an unknown name, for which `__init__` has a bare TypeError. Raises ConfigIllegal."""
        known = [field.name for field in dataclasses.fields(cls)]
        for key, value in settings.items():
            if key not in known:
                hint = _did_you_mean(key, known) or "see StoreConfig for the known keys"
                raise ConfigIllegal(f"unknown setting {key} = {value!r}: {hint}", key=key, value=value)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        self._check_types()
        for name, least, greatest in _BOUNDS:
            self._check_bounds(name, least, greatest)
        try:
            Host.parse(str(self.store_host))
        except ValueError as error:
            raise _illegal("store_host", tuple(self.store_host), _TYPES[Host]) from error
        for name, allowed in _CHOICES.items():
            self._check_choice(name, allowed)
        least_bytes = 40 + 4 * self.max_hash_slot_num
        if least_bytes + 20 * self.max_index_num >= 2**31:
            most = (2**31 - 1 - least_bytes) // 20
            raise _illegal("max_index_num", self.max_index_num, f"at most {most} beside that many slots")
        if not all(re.fullmatch("[01]?[0-9]|2[0-3]", hour) for hour in self.delete_when.split(";")):
            raise _illegal("delete_when", self.delete_when, "hours from 00 to 23, separated by ';'")
        least = self.max_message_size + MAX_RECORD_OVERHEAD_BYTES + BLANK_MIN_BYTES
        if self.mapped_file_size_commit_log < least:
            raise _illegal(
                "mapped_file_size_commit_log",
                self.mapped_file_size_commit_log,
                f"at least max_message_size + 65,544 = {least}, so that every record fits a segment",
            )
        if self.mapped_file_size_consume_queue % 20:
            entries = -(-self.mapped_file_size_consume_queue // 20)
            object.__setattr__(self, "mapped_file_size_consume_queue", entries * 20)

    def _check_types(self) -> None:
        # A file may give any type, and the word "false" in quotes would count as true.
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            wanted = _TYPES.get(field.type)
            if wanted is not None and not isinstance(value, cast("type", field.type)):
                raise _illegal(field.name, value, wanted)

    def _check_choice(self, name: str, allowed: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in allowed:
            wanted = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            hint = _did_you_mean(value, allowed) if isinstance(value, str) else ""
            raise _illegal(name, value, f"{wanted}: {hint}" if hint else wanted)

    def _check_bounds(self, name: str, least: int, greatest: int) -> None:
        value = getattr(self, name)
        is_optional = name in _OPTIONAL
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if (not is_number or not least <= value <= greatest) and not (is_optional and value is None):
            or_none = ", or none" if is_optional else ""
            raise _illegal(name, value, f"a whole number from {least} to {greatest}{or_none}")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> "StoreConfig":
        """Settings by name, as a file or a command has them. Raises ConfigIllegal, as StoreConfig does."""
        values: dict[str, Any] = {
            key: None if key in _OPTIONAL and value == "none" else value for key, value in settings.items()
        }
        host = values.get("store_host")
        if isinstance(host, str):
            try:
                values["store_host"] = Host.parse(host)
            except ValueError as error:
                raise _illegal("store_host", host, _TYPES[Host]) from error
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | Path) -> "StoreConfig":
        """Settings from the top level of a TOML file. Raises ConfigIllegal, FileNotFoundError."""
        return cls.from_mapping(read_toml(Path(path)))

    def names(self, key: str) -> bool:
        """Whether the setting `key` was given, and is not a default that a directory may answer instead.

        >>> StoreConfig(max_index_num=20_000_000).names("max_index_num"), StoreConfig().names("max_index_num")
        (True, False)
        """
        return not isinstance(getattr(self, key), DefaultInt | DefaultText)

    @property
    def longest_unflushed_ms(self) -> int:
        """How old a message may be that a power cut takes, plus the time of the syncs; 0 in SYNC_FLUSH.

        Of messages older than flush_interval_commit_log fewer bytes are lost than
        flush_commit_log_least_pages pages of 4,096. What was lost is the end of the log.

        >>> StoreConfig().longest_unflushed_ms
        1000
        """
        if self.is_sync_flush:
            return 0
        # Each of these services syncs the log; the flush itself leaves a few pages until it is thorough.
        thoroughly = self.flush_commit_log_thorough_interval if self.flush_commit_log_least_pages else 0
        return min(
            self.flush_interval_commit_log + thoroughly,
            self.flush_interval_consume_queue,
            self.flush_consumer_offset_interval,
            self.flush_delay_offset_interval,
        )

    @property
    def is_sync_flush(self) -> bool:
        """Whether a put waits for the disk."""
        return self.flush_disk_type == "SYNC_FLUSH"


def read_toml(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, as they are. Raises ConfigIllegal, FileNotFoundError."""
    # A home directory that is not known is a file that is not there.
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    data = path.read_bytes()
    # Here, for most processes read no such file, and the import takes milliseconds.
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigIllegal(f"{path} is no TOML: {error}", value=str(path)) from error


def _did_you_mean(given: str, known: Sequence[str]) -> str:
    """The nearest of `known`, as a question; empty if none is near. RocketMQ's spelling is near, too."""
    plain = {re.sub("[^a-z0-9]", "", name.lower()): name for name in known}
    nearest = difflib.get_close_matches(
        re.sub("[^a-z0-9]", "", given.lower()), plain, n=1, cutoff=_LEAST_LIKENESS
    )
    return f"did you mean {plain[nearest[0]]!r}?" if nearest else ""


def _illegal(name: str, value: object, wanted: str) -> ConfigIllegal:
    return ConfigIllegal(f"{name} is {value!r}, but must be {wanted}", key=name, value=value)
