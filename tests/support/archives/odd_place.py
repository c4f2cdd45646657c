"""A directory as a file system of pyarrow whose uploads end badly: cut short, changed, or broken off."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs

__all__ = ["OddPlace"]


class OddPlace(pa_fs.FileSystemHandler):  # type: ignore[misc]
    """All goes to `root`, and the bytes of objects pass through `change` on their way.

    change(name, bytes): what arrives; it may raise.
    """

    def __init__(self, root: Path, change: Callable[[str, bytes], bytes]) -> None:
        self._change = change
        self._files = pa_fs.SubTreeFileSystem(str(root), pa_fs.LocalFileSystem())

    @property
    def file_system(self) -> pa_fs.FileSystem:
        return pa_fs.PyFileSystem(self)

    def get_type_name(self) -> str:
        return "odd"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self._files.get_file_info(paths)

    def get_file_info_selector(self, selector: pa_fs.FileSelector) -> Any:
        return self._files.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._files.create_dir(path, recursive=recursive)

    def delete_file(self, path: str) -> None:
        self._files.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self._files.move(source, target)

    def open_input_stream(self, path: str) -> Any:
        return self._files.open_input_stream(path)

    def open_output_stream(self, path: str, metadata: object) -> Any:
        return pa.PythonFile(_Changing(self._files.open_output_stream(path), path, self._change), mode="w")

    def delete_dir(self, path: str) -> None:
        raise AssertionError("an archiver deletes no directory")

    delete_dir_contents = delete_root_dir_contents = delete_dir

    def copy_file(self, source: str, target: str) -> None:
        raise AssertionError("an archiver copies nothing within the archive")

    def open_input_file(self, path: str) -> Any:
        return self._files.open_input_file(path)

    open_append_stream = open_output_stream


class _Changing:
    def __init__(self, stream: Any, path: str, change: Callable[[str, bytes], bytes]) -> None:
        self._stream, self._path, self._change = stream, path, change
        self.closed = False

    def write(self, data: bytes) -> int:
        self._stream.write(self._change(self._path, bytes(data)))
        return len(data)

    def close(self) -> None:
        self.closed = True
        self._stream.close()

    def flush(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
