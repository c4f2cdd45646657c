"""Changes of the JSON files: other types, numbers, nesting, and any text."""

import json
from pathlib import Path
from typing import Any

from support.fuzz.hostile_values import Chance, hostile_names, hostile_number

__all__ = ["change_state_value", "hostile_text", "replace_state"]

_STATES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def _value(chance: Chance, depth: int = 0) -> Any:
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind == 6:
        return [_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind >= 7:
        return {hostile_text(chance): _value(chance, depth + 1) for _ in range(chance.randrange(4))}
    return (
        None,
        True,
        hostile_number(chance),
        10 ** chance.choice((20, 400)),
        1.5e300,
        hostile_text(chance),
    )[kind]


def hostile_text(chance: Chance) -> str:
    name = chance.choice((*hostile_names, b"0", b"1", b"-1", b"a@group", b"18446744073709551616", b"a@b@c"))
    return name.decode("utf-8", "replace")


def change_state_value(root: Path, chance: Chance) -> str:
    """One value somewhere in a state file is another."""
    name = chance.choice(_STATES)
    path = root / "config" / name
    try:
        state = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        # RocketMQ's maps have bare numbers for keys, and an earlier change may have left any text.
        state = {"offsetTable": {}, "topicConfigTable": {}, "subscriptionGroupTable": {}, "dataVersion": {}}
    at, where = state, []
    while isinstance(at, dict) and at:
        key = chance.choice(sorted(at))
        where.append(key)
        if not isinstance(at[key], dict) or chance.random() < 0.3:
            break
        at = at[key]
    if isinstance(at, dict):
        if chance.random() < 0.3 or not where:
            at[hostile_text(chance)] = _value(chance)
        else:
            at[where[-1]] = _value(chance)
    text = json.dumps(state, ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.2:
        text = text.replace('"0"', "0").replace('"1"', "1")
    data = text.encode("utf-8", "surrogatepass")
    _put_state(path, data, chance)
    return f"{name} has another value at {'/'.join(where)}"


def replace_state(root: Path, chance: Chance) -> str:
    """A state file of any text."""
    name = chance.choice(_STATES)
    data = chance.choice(
        (
            *(
                b"",
                b"{",
                b"[]",
                b"null",
                b"0",
                b'""',
                b"{}",
                b"[" * 100_000,
                b'{"a":' * 50_000,
                b"\xff\xfe{}",
            ),
            *(b'{"offsetTable":null}', b'{"offsetTable":{"a@g":{0:1e999}}}', b'{"offsetTable":{1:NaN}}'),
            *(b'{"dataVersion":{"counter":"x"},"topicConfigTable":{"a":null}}', b"\0" * 64, b" " * 4_096),
            chance.randbytes(200),
        )
    )
    _put_state(root / "config" / name, data, chance)
    return f"{name} is {data[:40]!r}"


def _put_state(path: Path, data: bytes, chance: Chance) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    backup = path.with_name(path.name + ".bak")
    if chance.random() < 0.7:
        backup.write_bytes(data)
