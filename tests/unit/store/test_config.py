"""The settings: RocketMQ's defaults, every bound, unknown keys with the nearest known one, TOML."""

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from mqstore.store.config import _BOUNDS, _OPTIONAL, StoreConfig
from mqstore.store.errors import ConfigIllegal
from mqstore.store.record.host import Host


def test_defaults_are_rocketmqs() -> None:
    """Those of the spec's table; where we differ, the field says so."""
    config = StoreConfig()
    assert config.mapped_file_size_commit_log == 1_073_741_824
    assert config.mapped_file_size_consume_queue == 6_000_000
    assert (config.flush_disk_type, config.is_sync_flush) == ("ASYNC_FLUSH", False)
    assert (config.file_reserved_time, config.delete_when) == (72, "04")
    assert config.max_message_size == 4_194_304
    assert config.message_delay_level == "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def test_settings_are_immutable_and_by_name_only() -> None:
    """Variants are derived, and are checked as well."""
    config = StoreConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.max_message_size = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        StoreConfig("SYNC_FLUSH")  # type: ignore[misc]
    assert dataclasses.replace(config, flush_disk_type="SYNC_FLUSH").is_sync_flush
    with pytest.raises(ConfigIllegal):
        dataclasses.replace(config, max_message_size=0)


@pytest.mark.parametrize(("name", "least", "greatest"), _BOUNDS)
def test_every_number_has_its_bounds(name: str, least: int, greatest: int) -> None:
    """One below and one above are refused, with the key, the value and the limits in the error."""
    for value in (least - 1, greatest + 1, "7", *([] if name in _OPTIONAL else [None]), 1.5, True):
        with pytest.raises(ConfigIllegal, match=f"{name} is {value!r}, but must be") as caught:
            StoreConfig(**{name: value})
        assert (caught.value.key, caught.value.value) == (name, value)


@pytest.mark.parametrize(
    "settings",
    [
        {"flush_disk_type": "SYNC"},
        {"flush_disk_type": None},
        {"delete_when": ""},
        {"delete_when": "24"},
        {"delete_when": "04;x"},
        {"delete_when": "\u00b2"},
        {"delete_when": 4},
        {"mapped_file_size_commit_log": 2**31},
        {"mapped_file_size_commit_log": "1g"},
        {"enabled_append_prop_crc": "false"},
        {"auto_create_topic_enable": 1},
        {"key_index_enable": None},
        {"clean_file_forcibly_enable": "yes"},
        {"auto_create_subscription_group": "no"},
        {"message_delay_level": 5},
        {"store_host": "not a host"},
        {"store_host": 7},
        {"store_host": "10.0.0.1:70000"},
        {"store_host": Host(b"\x0a\0\0\1", 2**32)},
    ],
    ids=str,
)
def test_a_bad_value_is_a_config_error(settings: dict[str, Any]) -> None:
    """Of another type as well: a word in quotes is not a truth value. The error names the key."""
    with pytest.raises(ConfigIllegal) as caught:
        StoreConfig.from_mapping(settings)
    (key,) = settings
    assert caught.value.key == key
    assert key in str(caught.value)


def test_a_host_that_no_record_can_hold_is_a_config_error() -> None:
    """An address has 4 or 16 bytes."""
    with pytest.raises(ConfigIllegal, match="store_host is"):
        StoreConfig(store_host=Host(b"\x0a\0\0", 80))


def test_every_record_must_fit_a_segment() -> None:
    """Body, 64 KiB for all else, and the BLANK."""
    StoreConfig(max_message_size=1_000, mapped_file_size_commit_log=66_544)
    with pytest.raises(ConfigIllegal, match="so that every record fits a segment"):
        StoreConfig(max_message_size=1_001, mapped_file_size_commit_log=66_544)


@pytest.mark.parametrize(("given", "taken"), [(20, 20), (21, 40), (6_000, 6_000), (5_999, 6_000)])
def test_consume_queue_files_hold_whole_entries(given: int, taken: int) -> None:
    """Rounded up, as RocketMQ does."""
    assert StoreConfig(mapped_file_size_consume_queue=given).mapped_file_size_consume_queue == taken


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("flush_disk", "did you mean 'flush_disk_type'"),
        ("flush_disk_typ", "did you mean 'flush_disk_type'"),
        ("flushDiskType", "did you mean 'flush_disk_type'"),
        ("fileReservedTime", "did you mean 'file_reserved_time'"),
        ("mappedFileSizeCommitLog", "did you mean 'mapped_file_size_commit_log'"),
        ("max_mesage_size", "did you mean 'max_message_size'"),
        ("xyzzy", "see StoreConfig for the known keys"),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(key: str, words: str) -> None:
    """The nearest known name, if one is near, and the value; the same in Python, of a file, of a variant."""
    for make in (
        lambda: StoreConfig(**{key: "SYNC"}),
        lambda: StoreConfig.from_mapping({key: "SYNC"}),
        lambda: dataclasses.replace(StoreConfig(), **{key: "SYNC"}),
    ):
        with pytest.raises(ConfigIllegal, match=f"unknown setting {key} = 'SYNC': {words}") as caught:
            make()
        assert (caught.value.key, caught.value.value) == (key, "SYNC")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"flush_disk_type": "SYNC"}, "must be ASYNC_FLUSH or SYNC_FLUSH: did you mean 'SYNC_FLUSH'?"),
        ({"flush_disk_type": "async"}, "must be ASYNC_FLUSH or SYNC_FLUSH: did you mean 'ASYNC_FLUSH'?"),
        ({"flush_disk_type": "sync-flush"}, "did you mean 'SYNC_FLUSH'?"),
        ({"key_index": "index"}, "must be lmdb, index_file or both: did you mean 'index_file'?"),
        ({"mapped_writes": "alway"}, "must be auto, always or never: did you mean 'always'?"),
        ({"flush_disk_type": "xyzzy"}, "must be ASYNC_FLUSH or SYNC_FLUSH"),
        ({"flush_disk_type": True}, "must be ASYNC_FLUSH or SYNC_FLUSH"),
    ],
    ids=str,
)
def test_a_value_that_is_none_of_the_known_is_refused_with_the_nearest(
    settings: dict[str, Any], words: str
) -> None:
    """If one is near: a suggestion that is a guess would mislead."""
    with pytest.raises(ConfigIllegal) as caught:
        StoreConfig(**settings)
    assert str(caught.value).endswith(words)


def test_a_config_can_be_copied_and_pickled() -> None:
    """The check of names is before the making of the object, which copies do without names."""
    config = StoreConfig(flush_disk_type="SYNC_FLUSH")
    assert copy.copy(config) == copy.deepcopy(config) == pickle.loads(pickle.dumps(config)) == config


def test_settings_are_read_from_toml(tmp_path: Path) -> None:
    """The top level of the file; a host is written as text."""
    path = tmp_path / "mqstore.toml"
    path.write_text(
        'flush_disk_type = "SYNC_FLUSH"\nfile_reserved_time = 24\nstore_host = "10.0.0.1:10911"\n'
    )
    config = StoreConfig.from_toml(path)
    assert (config.is_sync_flush, config.file_reserved_time) == (True, 24)
    assert config.store_host == Host.parse("10.0.0.1:10911")


def test_a_put_may_wait_as_long_as_the_disk_takes(tmp_path: Path) -> None:
    """No time limit is None; in text, which has no None, "none"."""
    assert StoreConfig(sync_flush_timeout=None).sync_flush_timeout is None
    path = tmp_path / "mqstore.toml"
    path.write_text('sync_flush_timeout = "none"\n')
    assert StoreConfig.from_toml(path).sync_flush_timeout is None
    with pytest.raises(ConfigIllegal, match="a whole number from 1 to 3600000, or none"):
        StoreConfig.from_mapping({"sync_flush_timeout": "never"})
    with pytest.raises(ConfigIllegal):
        StoreConfig.from_mapping({"flush_interval_commit_log": "none"})


@pytest.mark.parametrize("text", [b"flush_disk_type = ", b"[[", b"\x00", b"# caf\xe9"])
def test_what_is_no_toml_is_a_config_error(tmp_path: Path, text: bytes) -> None:
    """The error names the file."""
    path = tmp_path / "mqstore.toml"
    path.write_bytes(text)
    with pytest.raises(ConfigIllegal, match="is no TOML"):
        StoreConfig.from_toml(path)


def test_a_missing_toml_file_is_told_as_such(tmp_path: Path) -> None:
    """It is not taken for an empty one."""
    with pytest.raises(FileNotFoundError):
        StoreConfig.from_toml(tmp_path / "none.toml")
