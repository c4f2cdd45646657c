"""The form of an export: the format of its files, their compression, and how bodies are shown as text.

It is checked before anything is read. What it means for a file: row_writers.py.
"""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from mqstore.store.errors import ConfigIllegal
from mqstore.tools.export.export_errors import ExportRefused
from mqstore.tools.ingest.row_files import RowFormat, format_of

__all__ = ["ExportForm", "export_form"]

_COMPRESSIONS: Final = {
    RowFormat.PARQUET: ("zstd", "snappy", "gzip", "none"),
    RowFormat.JSONL: ("none", "gzip"),
    RowFormat.CSV: ("none", "gzip"),
}
"""The first is the default."""
_PACKED_SUFFIX: Final = ".gz"


@dataclass(frozen=True, kw_only=True)
class ExportForm:
    """How rows are written. all_base64: bodies are never texts."""

    row_format: RowFormat
    compression: str
    all_base64: bool

    @property
    def suffix(self) -> str:
        """Of the files of a directory.

        >>> export_form("csv", "gzip", None, all_base64=False).suffix
        '.csv.gz'
        """
        is_packed = self.compression == "gzip" and self.row_format is not RowFormat.PARQUET
        return f".{self.row_format.value}" + (_PACKED_SUFFIX if is_packed else "")


def export_form(
    file_format: str | None, compression: str | None, file: PurePath | None, *, all_base64: bool
) -> ExportForm:
    """The form that was asked for, or that the name of `file` shows. Raises ConfigIllegal, ExportRefused."""
    row_format = _format(file_format, file)
    if all_base64 and row_format is RowFormat.PARQUET:
        raise ExportRefused("bodies in Parquet are bytes: base64 is for jsonl and csv", value=all_base64)
    possible = _COMPRESSIONS[row_format]
    if compression is None:
        is_packed = file is not None and file.suffix == _PACKED_SUFFIX
        compression = "gzip" if is_packed else possible[0]
    if compression not in possible:
        raise ConfigIllegal(
            f"{row_format.value} has no compression {str(compression)!r}: there are {', '.join(possible)}",
            key="compression",
            value=compression,
        )
    return ExportForm(row_format=row_format, compression=compression, all_base64=all_base64)


def _format(file_format: str | None, file: PurePath | None) -> RowFormat:
    names = ", ".join(RowFormat)
    if file_format is not None:
        try:
            return RowFormat(file_format)
        except ValueError:
            raise ConfigIllegal(
                f"there is no format {file_format!r}: there are {names}", key="format", value=file_format
            ) from None
    if file is None:
        return RowFormat.PARQUET
    shown = format_of(file.with_suffix("") if file.suffix == _PACKED_SUFFIX else file)
    if shown is None:
        raise ExportRefused(
            f"the name of {file} shows no format: give one of {names}, or end it in a slash for a directory",
            value=file,
        )
    return shown
