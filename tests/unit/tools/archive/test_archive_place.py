"""Goal: an object is there whole or not at all, on each kind of file system, and no secret is shown.

Method: a directory, a server of S3's protocol and fsspec-like file systems; writes that end in an error.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pa_fs
import pytest

from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.tools.archive import unfinished_object
from mqstore.tools.archive.archive_errors import ArchiveRefused
from mqstore.tools.archive.archive_file_system import shown_address
from mqstore.tools.archive.archive_place import ArchivePlace
from support.archives.odd_place import OddPlace
from support.archives.s3_server import CREDENTIALS, S3Server


@pytest.mark.slow
def test_what_is_written_is_read_and_listed(url: str) -> None:
    """Folders are apart; a write replaces; a deletion of what is not there is no error."""
    place = ArchivePlace(url)
    assert place.list() == {}
    place.write("commitlog/a", [b"one", b"two"])
    place.write("root.json", [b"{}"])
    assert (place.list(), place.list("commitlog")) == ({"root.json": 2}, {"a": 6})
    place.write("commitlog/a", [b"three"])
    assert place.read("commitlog/a") == b"three"
    for _ in range(2):
        place.delete("commitlog/a")
    assert place.list("commitlog") == {}
    with pytest.raises(FileNotFoundError):
        place.read("commitlog/a")


def test_a_write_that_ends_in_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    """No half object, and no leftover of it."""
    place = ArchivePlace(tmp_path / "archive")
    place.write("commitlog/a", [b"old"])

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the disk of the source fails")

    with pytest.raises(RuntimeError):
        place.write("commitlog/a", broken())
    assert place.read("commitlog/a") == b"old"
    assert [path.name for path in (tmp_path / "archive" / "commitlog").iterdir()] == ["a"]


def test_an_object_that_was_begun_is_there_when_it_is_complete(tmp_path: Path) -> None:
    """Not before, and complete without being sent again."""
    place = ArchivePlace(tmp_path / "archive")
    first, second, third = (place.create(f"commitlog/{name}") for name in "abc")
    for each, data in (first, b"one"), (second, b"two"), (third, b"three"), (first, b" and more"):
        each.write(data)
    assert place.list("commitlog") == {}
    second.complete()
    third.abandon()
    assert place.list("commitlog") == {"b": 3}
    first.complete()
    assert place.read("commitlog/a") == b"one and more"
    assert len(list((tmp_path / "archive" / "commitlog").iterdir())) == 2


def test_the_disk_is_at_work_while_a_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked now and then; when it fails, the object is not there, and nothing is left of it."""
    monkeypatch.setattr(unfinished_object, "_SYNCED_AT_ONCE_BYTES", 4)
    failing_size: list[int] = []
    sizes: list[int] = []

    def sync(self: OsFileSystem, path: Path) -> None:
        if path.is_file():
            sizes.append(path.stat().st_size)
            if sizes[-1:] == failing_size:
                raise OSError(errno.EIO, "the disk fails")

    monkeypatch.setattr(OsFileSystem, "sync", sync)
    place = ArchivePlace(tmp_path)
    place.write("commitlog/a", [b"123", b"456", b"789", b"0123"])
    assert (place.read("commitlog/a"), len(sizes)) == (b"1234567890123", 3)
    assert (sizes[0] >= 6, sizes[-1]) == (True, 13)
    for failing_size[:], pieces in ([6], [b"123456"]), ([7], [b"123456", b"7"]):
        with pytest.raises(OSError, match="the disk fails"):
            place.write("commitlog/b", pieces)
        assert place.list("commitlog") == {"a": 13}
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == ["a"]


def test_a_large_object_is_sent_in_parts(url: str) -> None:
    """More than one part of a multipart upload."""
    place, piece = ArchivePlace(url), bytes(range(256)) * (6 << 12)
    place.write("commitlog/large", [piece, piece, b"end"])
    assert place.read("commitlog/large") == piece + piece + b"end"


@pytest.mark.parametrize("are_options_apart", [False, True])
def test_a_small_object_is_sent_with_one_request(s3: S3Server, *, are_options_apart: bool) -> None:
    """It is not begun, sent and ended as an upload in parts: the tag of one that is has a dash."""
    url = s3.url()
    place = ArchivePlace(url)
    if are_options_apart:
        bare = url.partition("?")[0].replace(f"{CREDENTIALS['AWS_ACCESS_KEY_ID']}:testing@", "")
        endpoint = f"http://127.0.0.1:{s3.port}"
        place = ArchivePlace(
            bare, storage_options={"key": "testing", "secret": "testing", "endpoint_url": endpoint}
        )
    large = bytes(12 << 20)
    place.write("small", [b"one", b"two"])
    place.write("large", [large])
    has_dash = {}
    for name in ("small", "large"):
        with place.open(name) as opened:
            has_dash[name] = b"-" in opened.metadata()["ETag"]
    assert has_dash == {"small": False, "large": True}
    assert (place.read("small"), place.read("large")) == (b"onetwo", large)


@pytest.mark.parametrize("options", [{}, {"skip_instance_cache": True}])
def test_a_place_of_fsspec_has_a_name(options: dict[str, bool]) -> None:
    """By its protocol; its options apart, and as fsspec calls them."""
    place = ArchivePlace("fsspec+memory://bucket/orders", storage_options=options)
    place.write("commitlog/a", [b"one"])
    assert (place.list("commitlog"), place.read("commitlog/a")) == ({"a": 3}, b"one")
    place.delete("commitlog/a")
    with pytest.raises(ArchiveRefused, match="is no place for an archive"):
        ArchivePlace("fsspec+nothing://bucket/orders", storage_options=options)


def test_leftovers_of_killed_writers_are_no_objects(tmp_path: Path) -> None:
    """They have a name that is passed over."""
    place = ArchivePlace(tmp_path)
    place.write("a", [b""])
    (tmp_path / "b.12345678.unfinished").write_bytes(b"half")
    assert place.list() == {"a": 0}


def test_any_file_system_of_pyarrow_can_be_handed_in(tmp_path: Path) -> None:
    """The address is then the path within it."""
    files = pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem())
    (tmp_path / "deep").mkdir()
    ArchivePlace("deep/archive", files).write("manifest/x", [b"1"])
    assert (tmp_path / "deep" / "archive" / "manifest" / "x").read_bytes() == b"1"
    odd = OddPlace(tmp_path, lambda name, data: data.upper()).file_system
    ArchivePlace("deep", odd).write("y", [b"abc"])
    assert (tmp_path / "deep" / "y").read_bytes() == b"ABC"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/orders", "s3://bucket/orders"),
        ("s3://key:sec%2Fret@bucket/orders?region=x", "s3://bucket/orders"),
        ("gs://key@bucket/a b", "gs://bucket/a b"),
        ("/mnt/archive", "/mnt/archive"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, shown: str) -> None:
    """Neither the user nor the password nor the options."""
    assert shown_address(url) == shown


def test_what_pyarrow_does_not_know_is_refused() -> None:
    """By a typed error, without the secret."""
    with pytest.raises(ArchiveRefused, match="no place for an archive") as caught:
        ArchivePlace("nowhere://user:secret@bucket")
    assert "secret" not in f"{caught.value} {caught.value.value}"
