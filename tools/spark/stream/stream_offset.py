"""The offset of a stream: how far a query has read the log of one store, as Spark keeps it in a checkpoint.

    {"phy": 1048576, "store": "5b0c..."}                                  everything before byte `phy` is read
    {"phy": 0, "store": "5b0c...", "since": 1795305600000}                and of what was stored since then
    {"phy": 0, "store": "5b0c...", "begin": {"orders": {"0": 23}}, "until": 4096}
                                                                          and before `until` of these queues
                                                                          what lies from there on

`phy` is a physical offset where a record begins or the log ended. One number is enough: it orders all
messages of all queues, and new topics and queues appear behind it by themselves. What the options of a new
query say about its beginning is in the offset, not in the options: a query that goes on does not begin anew.
Pure values: no file is read here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mqstore.store.errors import StoreError
from mqstore.tools.spark.options import QueueNumbers

__all__ = ["StreamOffset", "StreamOffsetIllegal"]


class StreamOffsetIllegal(StoreError):
    """A checkpoint holds an offset that this data source has not written."""

    def __init__(self, given: object) -> None:
        super().__init__(
            f"{given!r} is no offset of a stream of mqstore: it has a number `phy` and a text `store`. Give "
            "the query the checkpoint that it was started with, or a new one"
        )
        self.given = given


@dataclass(frozen=True, kw_only=True)
class StreamOffset:
    """See the head of this file. begins: of each queue; None: every queue is read whole from `phy` on."""

    phy: int
    store: str
    since_ms: int | None = None
    begins: QueueNumbers | None = None
    until: int = 0

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> "StreamOffset":
        """What Spark read from a checkpoint. Raises StreamOffsetIllegal."""
        try:
            begins = given.get("begin")
            offset = cls(
                phy=given["phy"],
                store=given["store"],
                since_ms=given.get("since"),
                begins=None if begins is None else _queue_numbers(begins),
                until=given.get("until", 0),
            )
        except (TypeError, KeyError, ValueError, AttributeError):
            raise StreamOffsetIllegal(given) from None
        is_numbers = all(type(number) is int and number >= 0 for number in (offset.phy, offset.until))
        if not is_numbers or type(offset.store) is not str or type(offset.since_ms) not in (int, type(None)):
            raise StreamOffsetIllegal(given)
        return offset

    def as_json(self) -> dict[str, Any]:
        """What Spark writes into a checkpoint."""
        given: dict[str, Any] = {"phy": self.phy, "store": self.store}
        if self.since_ms is not None:
            given["since"] = self.since_ms
        if self.begins is not None:
            given["begin"] = {
                topic: {str(queue_id): number for queue_id, number in queues} for topic, queues in self.begins
            }
            given["until"] = self.until
        return given

    def moved_to(self, phy: int, store: str) -> "StreamOffset":
        """The offset once all before `phy` is read. Beginnings of queues are passed at `until`."""
        moved = replace(self, phy=phy, store=store)
        return replace(moved, begins=None, until=0) if phy >= self.until else moved


def _queue_numbers(given: Mapping[str, Mapping[str, Any]]) -> QueueNumbers:
    return tuple(
        (topic, tuple(sorted((int(queue_id), int(number)) for queue_id, number in queues.items())))
        for topic, queues in sorted(given.items())
    )
