"""The place of an archive: named objects in a folder of any file system that pyarrow knows.

    s3://bucket/prefix, gs://..., abfs://..., hdfs://..., file:///..., a directory's path
    any file system of fsspec, handed in as a file system, or as fsspec+NAME://... where fsspec is installed

An object is there whole or not at all. Stores of objects promise that: an upload is seen when it is complete.
Elsewhere an object is written under a name of its own, synced where the place is a directory of this machine,
and then renamed. What is asked of a place besides: who lists or reads after a write has returned sees it
(S3, Google and Azure promise that too). No conditional write is needed.

`storage_options` are arguments of pyarrow's file system, such as access_key and endpoint_override of S3; what
s3fs and pandas call them is understood too. Addresses are shown without the user, the password and the
options in them, which may be secrets.
Durability: when `write` returns, or `complete` of what `create` gave, as the place promises it. Threads: any.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqstore.store.files.os_file_system import OsFileSystem
from mqstore.store_layout import user_path
from mqstore.tools.archive.archive_errors import ArchiveRefused, PyarrowMissing
from mqstore.tools.archive.archive_file_system import file_system_of, shown_address
from mqstore.tools.archive.unfinished_object import UnfinishedFile, UnfinishedObject

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pa_fs

__all__ = ["LOCAL_PIECE_BYTES", "PIECE_BYTES", "ArchivePlace"]

PIECE_BYTES = 16 << 20
"""What is read at a time: large, because each request to an object store takes tens of ms."""
LOCAL_PIECE_BYTES = 256 << 10
"""The same of files on this machine: it stays in a processor's cache."""

_UNFINISHED = ".unfinished"
# What makes a write visible as a whole, by the name that pyarrow or fsspec gives it.
_WHOLE_WRITES = frozenset({"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "adl", "oss", "memory"})


class ArchivePlace:
    """Objects by their names, in folders one deep. Raises OSError where the place cannot be reached."""

    def __init__(
        self,
        url: str | Path,
        file_system: "pa_fs.FileSystem | None" = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """url: with `file_system` the path within it. Raises ArchiveRefused, PyarrowMissing."""
        try:
            import pyarrow.fs as pa_fs
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            raise PyarrowMissing from None
        text = str(url)
        if not text.isascii() and text != text.encode(errors="replace").decode():
            raise ArchiveRefused(f"{text!r} is not UTF-8, which pyarrow needs: name another place", value=url)
        self.shown = shown_address(text)
        if file_system is not None:
            self._files, self._root = file_system, text
        elif "://" in text:
            self._files, self._root = file_system_of(text, self.shown, storage_options or {})
        else:
            self._files, self._root = pa_fs.LocalFileSystem(), str(user_path(text).absolute())
            self.shown = self._root
        self._root = self._root.rstrip("/")
        self._is_local = isinstance(self._files, pa_fs.LocalFileSystem)
        self._writes_whole = bool(_kinds(self._files) & _WHOLE_WRITES)
        # Folders of this machine whose own names are durable; any thread adds to it.
        self._durable_folders: set[str] = set()

    @property
    def directory(self) -> Path | None:
        """Where it is on this machine; None elsewhere."""
        return Path(self._root) if self._is_local else None

    def list(self, folder: str = "") -> dict[str, int]:
        """Names and sizes of the objects directly in a folder; none where it does not exist."""
        import pyarrow.fs as pa_fs

        path = f"{self._root}/{folder}" if folder else self._root
        try:
            found = self._files.get_file_info(pa_fs.FileSelector(path, allow_not_found=True))
        except FileNotFoundError:
            # Another archiver makes the directory at this moment.
            return {}
        return {
            each.base_name: int(each.size)
            for each in found
            if each.type == pa_fs.FileType.File and not each.base_name.endswith(_UNFINISHED)
        }

    def read(self, name: str) -> bytes:
        """All bytes of a small object. Raises FileNotFoundError."""
        return b"".join(self.read_pieces(name))

    def read_pieces(self, name: str) -> Iterator[bytes]:
        """The bytes of an object, piece by piece. Raises FileNotFoundError."""
        piece_bytes = LOCAL_PIECE_BYTES if self._is_local else PIECE_BYTES
        with self._files.open_input_stream(self._path(name), buffer_size=0) as stream:
            while piece := stream.read(piece_bytes):
                yield piece

    def open(self, name: str) -> "pa.NativeFile":
        """An object, to be read at any position, from any thread. Raises FileNotFoundError."""
        return self._files.open_input_file(self._path(name))

    def shown_name(self, name: str) -> str:
        """Where an object is, to be shown; of a directory its path."""
        return f"{self._root if self._is_local else self.shown}/{name}"

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write an object, which is there when this returns; one of that name is replaced."""
        unfinished = self.create(name)
        try:
            for piece in pieces:
                unfinished.write(piece)
        except BaseException:
            unfinished.abandon()
            raise
        unfinished.complete()

    def create(self, name: str) -> UnfinishedObject:
        """A new object without bytes, which is not there before it is complete."""
        path = self._path(name)
        if self._writes_whole:
            return UnfinishedObject(self._files, path)
        self._files.create_dir(path.rpartition("/")[0], recursive=True)
        unfinished = f"{path}.{uuid.uuid4().hex[:8]}{_UNFINISHED}"
        kind = UnfinishedFile if self._is_local else UnfinishedObject
        return kind(self._files, unfinished, partial(self._name, unfinished, path))

    def _name(self, unfinished: str, path: str) -> None:
        """Give a written file its name, durably where it is on this machine."""
        folder = path.rpartition("/")[0]
        self._files.move(unfinished, path)
        if self._is_local:
            OsFileSystem().sync_directory(Path(folder))
            if folder not in self._durable_folders:
                # All names down to this one.
                for directory in (Path(self._root), Path(self._root).parent):
                    OsFileSystem().sync_directory(directory)
                self._durable_folders.add(folder)

    def delete(self, name: str) -> None:
        """Delete an object; a missing one is no error."""
        with suppress(FileNotFoundError):
            self._files.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def __repr__(self) -> str:
        return f"ArchivePlace({self.shown!r})"


def _kinds(file_system: "pa_fs.FileSystem") -> set[str]:
    import pyarrow.fs as pa_fs

    if isinstance(file_system, pa_fs.PyFileSystem):
        # fsspec: one protocol, or several names of it.
        protocol = getattr(getattr(file_system.handler, "fs", None), "protocol", ())
        return {protocol} if isinstance(protocol, str) else set(protocol)
    return {file_system.type_name}
