"""The text of state files as each RocketMQ version writes it: read, and written again byte for byte.

4.9.7 and 5.1.4 write with fastjson, as mqstore does; 5.5.0 with fastjson2, every item on a line of its own.
Source: config/*.json in the golden directories (support/interop/golden.py).
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mqstore.store.state.state_file_format import decode, encode
from support.golden.manifest import VERSION_NAMES, manifest

FILES = ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"]
STRING_OR_SPACE = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|\s+')


@pytest.fixture(params=[(name, file) for name in VERSION_NAMES for file in FILES], ids=" ".join)
def written(request: pytest.FixtureRequest, golden_directory: Callable[[str], Path]) -> tuple[str, bytes]:
    """A version, and the bytes of a state file that it wrote."""
    name, file = request.param
    return name.split("-")[1], (golden_directory(name) / "config" / file).read_bytes()


def with_numbers(value: Any) -> Any:
    """The keys of queues and delay levels as numbers again."""
    if not isinstance(value, Mapping):
        return value
    return {int(key) if key.isdecimal() else key: with_numbers(item) for key, item in value.items()}


def spread(value: Any, newline: str = "\n") -> str:
    """As fastjson2 lays it out: each item on its own line, integer keys unquoted."""
    if isinstance(value, Mapping):
        items = [
            (str(key) if isinstance(key, int) else f'"{key}"') + ":" + spread(item, newline + "\t")
            for key, item in value.items()
        ]
    elif isinstance(value, list):
        items = [spread(item, newline + "\t") for item in value]
    else:
        return encode({"": value}).decode().removeprefix('{\n\t"":').removesuffix("\n}")
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    inner = ",".join(newline + "\t" + item for item in items)
    return opening + inner + newline + closing if items else opening + closing


def test_what_it_wrote_is_what_we_write(written: tuple[str, bytes]) -> None:
    """Byte for byte where fastjson wrote it; but for white space where fastjson2 did."""
    version, text = written
    ours = encode(with_numbers(decode(text)))
    if version == "5.5.0":
        assert STRING_OR_SPACE.sub(rb"\1", text) == STRING_OR_SPACE.sub(rb"\1", ours)
    else:
        assert text == ours


def test_fastjson2_puts_each_item_on_its_own_line(written: tuple[str, bytes]) -> None:
    """The layout of 5.5.0, as docs/format/state_files.md tells it."""
    version, text = written
    if version == "5.5.0":
        assert spread(with_numbers(decode(text))).encode() == text


@pytest.mark.parametrize("name", VERSION_NAMES)
def test_the_offsets_are_those_that_rocketmq_had(name: str, golden_directory: Callable[[str], Path]) -> None:
    """Every group, topic and queue of consumerOffset.json."""
    text = (golden_directory(name) / "config" / "consumerOffset.json").read_bytes()
    (state,) = manifest(name, "state")
    assert decode(text)["offsetTable"] == state["consumerOffset"]
