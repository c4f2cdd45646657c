"""verify, repair, rebuild: what they print and answer, for people and for machines.

What they find and do is tested in tests/unit/mqstore/; here only the command around it.
"""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mqstore.message_store import MessageStore
from support.command_line import ORDER_CONFIG, json_lines, run


def lines_of(result: Any) -> list[dict[str, Any]]:
    """The objects, whatever the exit code is."""
    return [msgspec.json.decode(line) for line in result.stdout.splitlines()]


@pytest.fixture
def damaged(orders: Path) -> Path:
    """The orders with a byte of o-2, the second message of queue 0, changed."""
    segment = orders / "commitlog" / f"{0:020d}"
    third = json_lines(run("dump", segment, "--json"))[2]
    data = bytearray(segment.read_bytes())
    data[third["physicalOffset"] + 90] ^= 0xFF
    segment.write_bytes(data)
    return orders


def content(path: Path) -> dict[Path, bytes]:
    """All files but LMDB's lock file, in which readers note themselves."""
    return {each: each.read_bytes() for each in path.rglob("*") if each.is_file() and each.name != "lock.mdb"}


@pytest.mark.slow
def test_a_sound_store(orders: Path) -> None:
    """Exit code 0, one line; with --json one object."""
    before = content(orders)
    result = run("verify", orders)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == "sound: 6 records in 1 segments\n"
    (row,) = json_lines(run("verify", orders, "--json", "--workers", 1))
    assert (row["isSound"], row["records"], row["damages"], row["notes"]) == (True, 6, 0, 0)
    assert content(orders) == before


def test_a_damaged_store(damaged: Path) -> None:
    """Exit code 1; file, byte, expected and found; which command helps."""
    result = run("verify", damaged)
    assert result.exit_code == 1
    assert "DAMAGED in 1 places, 1 messages lost: 5 records" in result.stdout
    assert "body CRC" in result.stdout
    assert "mqstore repair" in result.stderr
    finding, row = lines_of(run("verify", damaged, "--json"))
    assert (finding["severity"], finding["kind"]) == ("damage", "record")
    assert finding["file"] == f"commitlog/{0:020d}"
    assert finding["position"] > 0
    assert finding["expected"] != finding["found"]
    assert (row["isSound"], row["lostMessages"]) == (False, 1)


def test_what_cannot_be_checked(tmp_path: Path, orders: Path) -> None:
    """Exit code 2: no store, or a file of a newer release."""
    result = run("verify", tmp_path / "missing")
    assert result.exit_code == 2
    assert "could not be checked" in result.stderr
    assert not (tmp_path / "missing").exists()
    point = orders / "mqstore" / "recovery-point"
    from mqstore.store.checksum.crc32c import with_crc32c
    from mqstore.store.state import recovery_point_format as point_format

    point.write_bytes(with_crc32c(point_format._CONTENT.pack(point_format.MAGIC, 99, 0, 0)))
    assert run("verify", orders).exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("verify", "STORE"),
        ("repair", "STORE"),
        ("repair", "STORE", "--apply"),
        ("rebuild", "queues", "STORE"),
        ("rebuild", "keys", "STORE"),
    ],
    ids=" ".join,
)
def test_beside_a_writer(orders: Path, command: tuple[str, ...]) -> None:
    """Exit code 3 and the writer's pid; nothing is done."""
    with MessageStore.open(orders, ORDER_CONFIG):
        before = content(orders)
        result = run(*(orders if argument == "STORE" else argument for argument in command))
        assert result.exit_code == 3, result.stderr
        assert str(os.getpid()) in result.stderr
        assert ("--live" in result.stderr, "read_only" in result.stderr) == (command[0] == "verify", False)
        assert content(orders) == before


def test_live(orders: Path) -> None:
    """Beside a writer it says what is whole."""
    with MessageStore.open(orders, ORDER_CONFIG):
        assert run("verify", orders, "--live").exit_code == 0


def test_repair_shows_and_does_nothing(damaged: Path) -> None:
    """Exit code 1, since there is something to do; which message is lost."""
    before = content(damaged)
    result = run("repair", damaged)
    assert result.exit_code == 1
    assert "orders/0/1" in result.stdout
    assert "--apply does it" in result.stdout
    assert content(damaged) == before
    *_, cover, row = lines_of(run("repair", damaged, "--json"))
    assert cover["placeholders"] == ["orders/0/1"]
    assert (row["isApplied"], row["isNeeded"], row["damagedRanges"]) == (False, True, 1)


def test_repair_in_place(damaged: Path) -> None:
    """Exit code 0, the place of the damaged bytes; then the store is sound."""
    result = run("repair", damaged, "--apply")
    assert result.exit_code == 0, result.stderr
    assert "kept in" in result.stdout
    assert (damaged / "mqstore" / "repaired-0001").is_dir()
    assert run("verify", damaged).exit_code == 0
    assert run("repair", damaged).exit_code == 0
    assert run("repair", damaged).stdout.strip() == "nothing to repair"
    assert len(json_lines(run("get", damaged, "orders", "--queue", 0, "--offset", 0, "--json"))) == 3


def test_repair_into_a_new_directory(damaged: Path, tmp_path: Path) -> None:
    """The old one is left as it is; the new one must not hold anything."""
    before = content(damaged)
    new = tmp_path / "new"
    result = run("repair", damaged, "--into", new, "--apply", "--json")
    assert result.exit_code == 0, result.stderr
    assert lines_of(result)[-1]["into"] == str(new)
    assert content(damaged) == before
    assert run("verify", new).exit_code == 0
    for apply in ((), ("--apply",)):
        again = run("repair", damaged, "--into", new, *apply)
        assert (again.exit_code, again.stdout) == (1, "")
        assert "not empty" in again.stderr


def test_rebuild(orders: Path) -> None:
    """Queues as they were; keys that find."""
    queues = content(orders / "consumequeue")
    for path in queues:
        path.write_bytes(bytes(len(queues[path])))
    assert run("verify", orders).exit_code == 1
    assert run("rebuild", "queues", orders).stdout == "rebuilt: 6 messages in 2 queues\n"
    assert content(orders / "consumequeue") == queues
    assert json_lines(run("rebuild", "keys", orders, "--json"))[0]["rebuilt"] == "keys"
    assert len(json_lines(run("query", orders, "orders", "--key", "o-3", "--json"))) == 1
    assert run("verify", orders).exit_code == 0


def test_rebuild_of_something_else(orders: Path) -> None:
    """Only what is derived."""
    assert run("rebuild", "everything", orders).exit_code == 2
