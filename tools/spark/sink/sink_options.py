"""The options of the sink, checked: `df.write.format("mqstore").option(name, value)`.

`path`, the store's directory, which is made if there is none. `topic`: of all rows, in place of a column.
`txnAppId` and `txnVersion`: names from Delta Lake; a write with a version that this application has written
already does nothing. `lockTimeout`: how long another writer of the store is waited for; its default is that
of Kafka's `max.block.ms`. Spark hands the names over in any case; an unknown one is an error.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from mqstore.tools.spark.options import SparkOptionIllegal, absolute_path, duration_ms, is_of_spark

__all__ = ["WriteOptions"]

_NAMES = ("path", "topic", "txnAppId", "txnVersion", "checkpointLocation", "lockTimeout")
# What Spark hands to a sink of its own accord.
_OF_SINKS = frozenset({"queryname", "outputmode"})
_LARGEST_VERSION = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Where to write. directory: absolute. checkpoint: of a stream, as it was given.

    lock_timeout_ms: how long another writer is waited for.
    """

    directory: str
    topic: str | None = None
    app_id: str | None = None
    version: int | None = None
    checkpoint: str | None = None
    lock_timeout_ms: int = 60_000

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "WriteOptions":
        """Check the options as Spark gives them. Raises SparkOptionIllegal."""
        values = _known(given)
        if not values.get("path"):
            raise SparkOptionIllegal(
                "option 'path' is missing: give the store's root directory, as save(path) or start(path)",
                key="path",
            )
        if values.get("txnAppId") == "":
            # All that forget to fill it in would be one application, and skip each other's versions.
            raise SparkOptionIllegal(
                "option 'txnAppId' is empty: say who writes, or leave it out", key="txnAppId", value=""
            )
        return cls(
            directory=absolute_path(values["path"]),
            topic=values.get("topic"),
            app_id=values.get("txnAppId"),
            version=_version(values.get("txnVersion")),
            checkpoint=values.get("checkpointLocation"),
            lock_timeout_ms=duration_ms("lockTimeout", values["lockTimeout"])
            if "lockTimeout" in values
            else cls.lock_timeout_ms,
        )

    def for_batch(self) -> "WriteOptions":
        """These options, for a write in one batch. Raises SparkOptionIllegal."""
        if (self.app_id is None) != (self.version is None):
            given, missing = (
                ("txnAppId", "txnVersion") if self.version is None else ("txnVersion", "txnAppId")
            )
            raise SparkOptionIllegal(
                f"option {given!r} needs {missing!r}: who writes, and which of its writes this is",
                key=missing,
            )
        return self

    def for_stream(self) -> "WriteOptions":
        """These options, for a stream. Raises SparkOptionIllegal."""
        if self.version is not None:
            raise SparkOptionIllegal(
                "option 'txnVersion' is for writes in one batch: in a stream it is the number of the batch",
                key="txnVersion",
            )
        if self.app_id is None and self.checkpoint is None:
            raise SparkOptionIllegal(
                "a stream is known by its checkpoint: give option 'checkpointLocation', or 'txnAppId' if the "
                "session's settings have the checkpoint",
                key="checkpointLocation",
            )
        return self


def _known(given: Mapping[str, str]) -> dict[str, str]:
    spelling = {name.lower(): name for name in _NAMES}
    values = {}
    for name, value in given.items():
        if name.lower() in spelling:
            values[spelling[name.lower()]] = value
        elif not is_of_spark(name) and name.lower() not in _OF_SINKS:
            close = difflib.get_close_matches(name.lower(), spelling, n=1)
            hint = f"did you mean {spelling[close[0]]!r}?" if close else f"there are {', '.join(_NAMES)}"
            raise SparkOptionIllegal(f"unknown option {name!r} of a write: {hint}", key=name, value=value)
    return values


def _version(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST_VERSION:
        raise SparkOptionIllegal(
            f"txnVersion is {text!r}, but must be a whole number from 0 to {_LARGEST_VERSION}",
            key="txnVersion",
            value=text,
        )
    return int(text)
