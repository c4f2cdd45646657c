"""Default settings: they act as plain values, and are told from them by type alone."""

import dataclasses

import pytest

from mqstore.store.config import REMEMBERED_SETTINGS, StoreConfig
from mqstore.store.default_setting import DefaultInt, DefaultText


@pytest.mark.parametrize(("default", "plain"), [(DefaultInt(4_096), 4_096), (DefaultText("1s 5s"), "1s 5s")])
def test_it_acts_as_the_plain_value(default: object, plain: object) -> None:
    """It compares, hashes and prints as that does; results of calculations are plain."""
    assert (default, hash(default), repr(default), str(default)) == (
        plain,
        hash(plain),
        repr(plain),
        str(plain),
    )
    assert type(DefaultInt(4) + 1) is int
    assert type(DefaultText("1s") + " 5s") is str


@pytest.mark.parametrize("key", REMEMBERED_SETTINGS)
def test_the_settings_that_a_directory_remembers_have_such_defaults(key: str) -> None:
    """One that is given is named, also with the same value; a variant of the config keeps which are named."""
    default = StoreConfig()
    assert not default.names(key)
    assert not dataclasses.replace(default, flush_disk_type="SYNC_FLUSH").names(key)
    value = getattr(default, key)
    plain = int(value) if isinstance(value, int) else "".join(value)
    assert StoreConfig(**{key: plain}).names(key)
