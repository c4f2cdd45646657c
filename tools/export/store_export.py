"""The export of a store: which rows, in which columns, to which place; and what was done.

    export(store, "orders.parquet", topics="orders")    one file
    export(store, "lake/")                              a directory by topic and date
    export(store, sys.stdout.buffer, file_format="jsonl", topics="orders")

Rows come topic by topic, within a topic by queue, within a queue by offset. They are read by the store's own
decoder (row_source.py), so columns and their names are those of `to_arrow`. Memory holds a few batches of 64
MiB at a time, whatever the store's size.

It takes no lock, changes nothing in the store, and works beside a live writer: what is put after the
beginning is not exported. Files: unfinished.py, partitioned_directory.py; their content: row_writers.py.
Threads: any. Durable when it returns, unless the destination is a stream.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mqstore.message_store import MessageStore
from mqstore.store.clock import END_OF_TIME_MS
from mqstore.store.errors import ConfigIllegal
from mqstore.store_layout import user_path
from mqstore.tools.export.export_errors import PyarrowMissing
from mqstore.tools.export.export_form import ExportForm, export_form
from mqstore.tools.export.queue_ranges import chosen_topics, queue_ranges
from mqstore.tools.export.unfinished import unfinished

if TYPE_CHECKING:
    from mqstore.tools.export.row_source import RowSource

__all__ = ["ExportReport", "export"]


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What was exported.

    destination: `-` for a stream. topic_rows: rows of each topic that was asked for. files, size_bytes: 0 for
    a stream. left_out: topics whose queues only a RocketMQ broker can read.
    """

    destination: str
    file_format: str
    rows: int
    topic_rows: dict[str, int]
    files: int
    size_bytes: int
    left_out: tuple[str, ...]


def export(
    store: MessageStore,
    destination: str | Path | BinaryIO,
    *,
    file_format: str | None = None,
    topics: str | Iterable[str] | None = None,
    all_topics: bool = False,
    begin_ms: int = 0,
    end_ms: int = END_OF_TIME_MS,
    columns: Sequence[str] | None = None,
    compression: str | None = None,
    decompress: bool = True,
    base64: bool = False,
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> ExportReport:
    """Write the messages of topics as rows of Parquet, JSON lines or CSV.

    destination: a file, if its name has a suffix (orders.parquet, orders.csv.gz). A directory, partitioned by
    topic and date, if it has none, ends in a slash, or is a directory already. Or a binary stream, which
    stays open. file_format: parquet, jsonl or csv; by default what the suffix shows, and parquet where there
    is none. topics: None means all, without the broker's own unless `all_topics`. begin_ms, end_ms: store
    times in epoch ms, the last not included. columns: as for `to_arrow`. compression: Parquet has zstd (the
    default), snappy, gzip, none; jsonl and csv have none and gzip (the default of names in .gz).
    decompress: False gives bodies as stored. A body that cannot be decompressed is given as stored anyway,
    with a warning in the log. base64: jsonl and csv have all bodies in `body_base64`, not only those that
    are no text. overwrite: replace an export that is there. on_progress: called with (messages read,
    messages in all); what it raises ends the export, and nothing of it is left.

    Raises ExportRefused, TopicUnknown, TopicNotSupported, ConfigIllegal and PyarrowMissing before anything is
    written; CorruptRecord, also for damage that the opening found; OSError.

    >>> from mqstore import Message
    >>> with MessageStore.open("data") as store:
    ...     put = store.put_message(Message("orders", b"first", tags="created"))
    ...     export(store, "orders.jsonl", topics="orders", columns=["topic", "tags", "body"]).rows
    1
    >>> print(Path("orders.jsonl").read_text().strip())
    {"topic":"orders","tags":"created","body":"first","body_base64":null}
    """
    try:
        from mqstore.tools.export.row_source import RowSource
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise PyarrowMissing from None
    path = user_path(destination) if isinstance(destination, str | Path) else None
    is_directory = path is not None and _is_directory(destination, path)
    form = export_form(file_format, compression, None if is_directory else path, all_base64=base64)
    if store.recovery.damage is not None:
        # The log ends before it: messages would be missing, and nothing would say so.
        raise store.recovery.damage
    named = [topics] if isinstance(topics, str) else topics
    chosen, left_out = chosen_topics(store, named, all_topics=all_topics)
    source = RowSource(
        store=store,
        ranges=queue_ranges(store, chosen, begin_ms, end_ms),
        begin_ms=begin_ms,
        end_ms=end_ms,
        columns=columns,
        decompress=decompress,
        on_progress=on_progress,
        topic_rows=dict.fromkeys(chosen, 0),
    )
    files, size_bytes = 0, 0
    if isinstance(destination, str | Path):
        assert path is not None
        files, size_bytes = _to_path(source, form, path, is_directory, overwrite=overwrite)
    else:
        _to_stream(source, form, destination)
    return ExportReport(
        destination="-" if path is None else str(path),
        file_format=form.row_format.value,
        rows=sum(source.topic_rows.values()),
        topic_rows=source.topic_rows,
        files=files,
        size_bytes=size_bytes,
        left_out=tuple(left_out),
    )


def _is_directory(destination: object, path: Path) -> bool:
    return str(destination).endswith("/") or not path.suffix or path.is_dir()


def _to_path(
    source: "RowSource", form: ExportForm, target: Path, is_directory: bool, *, overwrite: bool
) -> tuple[int, int]:
    """(files written, their bytes)."""
    with unfinished(target, is_directory=is_directory, overwrite=overwrite) as path:
        if is_directory:
            _to_directory(source, form, path)
        else:
            with path.open("xb") as file:
                _to_stream(source, form, file)
        sizes = [each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file()]
    return len(sizes), sum(sizes)


def _to_stream(source: "RowSource", form: ExportForm, file: BinaryIO) -> None:
    from mqstore.tools.export.row_writers import row_writer

    writer = row_writer(file, form, source.schema)
    try:
        for batch in source.batches():
            writer.write(batch.rows)
        writer.close()
    except BaseException:
        writer.abandon()
        raise


def _to_directory(source: "RowSource", form: ExportForm, root: Path) -> None:
    """Without the column `topic`, which is in the names of the folders."""
    from mqstore.tools.export.partitioned_directory import PartitionedDirectory
    from mqstore.tools.export.row_writers import row_writer

    names = [name for name in source.schema.names if name != "topic"]
    if not names:
        raise ConfigIllegal(
            "topic alone makes no file of a directory by topic: name another column, or export to one file",
            key="columns",
            value=source.schema.names,
        )
    directory = PartitionedDirectory(
        root, form.suffix, lambda file, rows: row_writer(file, form, rows.schema)
    )
    try:
        for batch in source.batches():
            directory.write(batch.topic, batch.rows.select(names), batch.store_times_ms)
        directory.close()
    except BaseException:
        directory.abandon()
        raise
