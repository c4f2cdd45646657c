"""Block logs and what a power cut leaves of them: all that a FLUSH covered, and of the rest what the loss
says.

Method: small logs written here by hand, replayed on small images.
"""

import struct
from pathlib import Path

import pytest

from support.powercut.block_log import LOSSES, BlockLog, BlockLogIllegal, Entry, Loss, entry_count

SECTOR = 512
FLUSH, FUA, DISCARD = 1, 2, 4


def sector(letter: str, sectors: int = 1) -> bytes:
    return letter.encode() * (SECTOR * sectors)


def write_log(path: Path, *requests: tuple[int, bytes, int], claimed: int | None = None) -> Path:
    """A log of (sector, data, flags); of a discard the data only say how long it is."""
    count = len(requests) if claimed is None else claimed
    text = struct.pack("<QQQI", 0x6A736677736872, 1, count, SECTOR).ljust(SECTOR, b"\0")
    for at, data, flags in requests:
        text += struct.pack("<QQQQ", at, len(data) // SECTOR, flags, 0).ljust(SECTOR, b"\0")
        text += b"" if flags & DISCARD else data
    path.write_bytes(text)
    return path


def replayed(tmp_path: Path, log: Path, cut: int, loss: Loss | None = None) -> str:
    """The image's sectors, by the letter that each is full of."""
    image = tmp_path / "image"
    image.write_bytes(bytes(8 * SECTOR))
    with BlockLog(log) as opened:
        opened.replay(image, cut, loss)
    data = image.read_bytes()
    sectors = [data[at : at + SECTOR] for at in range(0, len(data), SECTOR)]
    assert all(len(set(each)) == 1 for each in sectors), "a sector is torn within"
    return "".join(chr(each[0]) if each[0] else "." for each in sectors)


def loss_of(kind: str, **settings: object) -> Loss:
    """The first loss of this kind."""
    losses = (Loss(str(seed), **settings) for seed in range(1_000))  # type: ignore[arg-type]
    return next(loss for loss in losses if loss.kind == kind)


def test_requests_are_done_in_their_order_up_to_the_cut(tmp_path: Path) -> None:
    """A later write wins, and a discard takes bytes away."""
    log = write_log(
        tmp_path / "log",
        (1, sector("a", 3), 0),
        (2, sector("b"), 0),
        (0, b"", FLUSH),
        (3, sector(" "), DISCARD),
    )
    assert [replayed(tmp_path, log, cut) for cut in range(5)] == [
        "........",
        ".aaa....",
        ".aba....",
        ".aba....",
        ".ab.....",
    ]


def test_what_a_flush_covers_is_never_lost_and_fua_needs_none(tmp_path: Path) -> None:
    """Whatever the loss is."""
    log = write_log(
        tmp_path / "log",
        (0, sector("a", 2), 0),
        (0, b"", FLUSH),
        (4, sector("b", 2), FUA),
        (6, sector("c", 2), 0),
    )
    for seed in range(200):
        assert replayed(tmp_path, log, 4, Loss(str(seed)))[:6] == "aa..bb"
    assert replayed(tmp_path, log, 4, loss_of("dropped")) == "aa..bb.."


@pytest.mark.parametrize("kind", LOSSES)
def test_each_loss_leaves_old_sectors_or_new_ones(tmp_path: Path, kind: str) -> None:
    """And all that this kind may leave does come up."""
    log = write_log(tmp_path / "log", (0, sector("a", 4), 0), (4, sector("b", 4), 0))
    states = {
        replayed(tmp_path, log, 2, loss)
        for loss in (Loss(str(seed)) for seed in range(600))
        if loss.kind == kind
    }
    assert all(set(state[:4]) <= {"a", "."} and set(state[4:]) <= {"b", "."} for state in states)
    wanted = {
        "kept": lambda: states == {"aaaabbbb"},
        "dropped": lambda: states == {"........"},
        "some": lambda: states == {"aaaabbbb", "aaaa....", "....bbbb", "........"},
        "halved": lambda: len(states) == 16,
        "torn": lambda: len(states) > 20,
        "last torn": lambda: all(state[:4] == "aaaa" for state in states) and len(states) > 5,
    }
    assert wanted[kind](), states


def test_what_is_written_whole_is_not_torn(tmp_path: Path) -> None:
    """The super block of a file system, for one."""
    log = write_log(tmp_path / "log", (0, sector("a", 8), 0))
    losses = [Loss(str(seed), whole=((2, 4),)) for seed in range(300)]
    states = {replayed(tmp_path, log, 1, loss)[2:6] for loss in losses if loss.kind == "torn"}
    assert states == {"aaaa", "...."}


def test_a_state_follows_from_its_seed(tmp_path: Path) -> None:
    """A failure can be looked at again."""
    log = write_log(tmp_path / "log", *((0, sector(letter, 8), 0) for letter in "abcdef"))
    for seed in map(str, range(20)):
        assert replayed(tmp_path, log, 6, Loss(seed)) == replayed(tmp_path, log, 6, Loss(seed))


def test_entries_are_counted_while_the_log_is_written(tmp_path: Path) -> None:
    """By whoever says what was acknowledged at which request."""
    log = write_log(tmp_path / "log", (0, sector("a"), 0), (0, b"", FLUSH))
    with log.open("rb") as file:
        assert entry_count(file.fileno()) == 2
    with BlockLog(log) as opened:
        assert opened.entries[1] == Entry(0, 0, FLUSH, 4 * SECTOR)
    (tmp_path / "empty").touch()
    with (tmp_path / "empty").open("rb") as file:
        assert entry_count(file.fileno()) == 0


def test_another_file_is_refused(tmp_path: Path) -> None:
    """And so is a log that ends early, or whose entries make no sense."""
    (tmp_path / "log").write_bytes(bytes(SECTOR))
    with pytest.raises(BlockLogIllegal, match="begins with"):
        BlockLog(tmp_path / "log")
    with pytest.raises(BlockLogIllegal, match="ends at byte"):
        BlockLog(write_log(tmp_path / "log", (0, sector("a"), 0), claimed=2))
    with pytest.raises(BlockLogIllegal, match="flags 0x40"):
        BlockLog(write_log(tmp_path / "log", (0, sector("a"), 0x40)))
