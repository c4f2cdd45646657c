"""Covering: which records go into a damaged stretch of the log, so that it can be walked over again.

Nothing outside of the stretch moves: physical offsets are in message ids and queues, queue offsets in what
consumers remember. So the stretch is filled to the byte (mqstore/repair/placeholder.py):

    the places of all lost messages are     a stand-in in each place, of the same size
      known, one behind the other
    else                                    the shortest stand-ins, in the order of their queues
    what is left                            fillers; a BLANK where the stretch ends with its segment

It decides and encodes, and touches no file (repair_plan.py).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mqstore.repair.placeholder import MIN_FILLER_BYTES, filler, least_bytes, stand_in
from mqstore.store.record.record_format import BLANK_MIN_BYTES, encode_blank
from mqstore.verify.log_scan import DamagedStretch, LogScan
from mqstore.verify.queue_check import LostMessage

__all__ = ["Cover", "plan_covers"]

_LONGEST_FILLER_BYTES = 1 << 20


class _Place(NamedTuple):
    """Where the stand-in of a message goes."""

    message: LostMessage
    offset: int
    size_bytes: int


class Cover(NamedTuple):
    """What goes into one stretch. ends_segment: the stretch does, so a BLANK takes what is left."""

    stretch: DamagedStretch
    places: tuple[_Place, ...]
    ends_segment: bool
    store_timestamp: int

    @property
    def rest_offset(self) -> int:
        """Behind the last stand-in."""
        if not self.places:
            return self.stretch.start_offset
        return self.places[-1].offset + self.places[-1].size_bytes

    @property
    def lost(self) -> tuple[LostMessage, ...]:
        """The messages that get stand-ins."""
        return tuple(place.message for place in self.places)

    def records(self) -> Iterator[tuple[int, bytes]]:
        """(physical offset, bytes) of all that is written, in the order of the log."""
        for message, offset, size_bytes in self.places:
            queue = (message.topic, message.queue_id, message.queue_offset)
            yield offset, stand_in(*queue, offset, size_bytes, self.store_timestamp)
        offset, end = self.rest_offset, self.stretch.end_offset
        if self.ends_segment:
            yield offset, encode_blank(end - offset)
            return
        while offset < end:
            left = end - offset
            size_bytes = left if left < 2 * _LONGEST_FILLER_BYTES else _LONGEST_FILLER_BYTES
            yield offset, filler(offset, size_bytes, self.store_timestamp)
            offset += size_bytes


def plan_covers(
    scan: LogScan, lost: Sequence[LostMessage], segment_bytes: int, newest_timestamp: int
) -> tuple[tuple[Cover, ...], tuple[LostMessage, ...]]:
    """A cover for each damaged stretch, and the lost messages for which none has room.

    newest_timestamp: of the log, for a stretch that has no record before it.
    """
    by_stretch: dict[int, list[LostMessage]] = {stretch.start_offset: [] for stretch in scan.damages}
    left_out = []
    # Those with a place first: what they need is known.
    for message in sorted(lost, key=lambda each: (each.physical_offset < 0, each.queue_offset)):
        stretch = next((each for each in scan.damages if _takes(each, message, by_stretch)), None)
        if stretch is None:
            left_out.append(message)
        else:
            by_stretch[stretch.start_offset].append(message)
    covers = tuple(
        _cover(stretch, by_stretch[stretch.start_offset], segment_bytes, newest_timestamp)
        for stretch in scan.damages
    )
    return covers, tuple(left_out)


def _takes(stretch: DamagedStretch, message: LostMessage, by_stretch: dict[int, list[LostMessage]]) -> bool:
    """Whether the message lay in the stretch, and there is room for its stand-in."""
    if message.physical_offset >= 0:
        end = message.physical_offset + message.size_bytes
        if not (stretch.start_offset <= message.physical_offset and end <= stretch.end_offset):
            return False
    elif not message.after_offset <= stretch.start_offset <= stretch.end_offset <= message.before_offset:
        return False
    others = by_stretch[stretch.start_offset]
    needed = sum(least_bytes(each.topic)[1] for each in (*others, message))
    return needed <= stretch.length_bytes


def _cover(
    stretch: DamagedStretch, messages: list[LostMessage], segment_bytes: int, newest_timestamp: int
) -> Cover:
    ends_segment = stretch.end_offset % segment_bytes == 0
    least_rest = BLANK_MIN_BYTES if ends_segment else MIN_FILLER_BYTES
    places = _in_place(stretch, messages) or _packed(stretch, messages)
    cover = Cover(stretch, places, ends_segment, stretch.before_timestamp or max(1, newest_timestamp))
    left = stretch.end_offset - cover.rest_offset
    is_fine = left >= least_rest or (left == 0 and not ends_segment)
    if not is_fine and messages:
        places = _packed(stretch, messages)
        cover = cover._replace(places=places)
        left = stretch.end_offset - cover.rest_offset
        if 0 < left < least_rest:
            last = places[-1]
            stretched = last._replace(size_bytes=last.size_bytes + left)
            cover = cover._replace(places=(*places[:-1], stretched))
    return cover


def _in_place(stretch: DamagedStretch, messages: list[LostMessage]) -> tuple[_Place, ...]:
    """Each stand-in where its message was; () when they do not follow each other, or are too small."""
    at, places = stretch.start_offset, []
    for message in sorted(messages, key=lambda each: each.physical_offset):
        if message.physical_offset != at or message.size_bytes < least_bytes(message.topic)[1]:
            return ()
        places.append(_Place(message, at, message.size_bytes))
        at += message.size_bytes
    return tuple(places)


def _packed(stretch: DamagedStretch, messages: list[LostMessage]) -> tuple[_Place, ...]:
    """The shortest stand-ins, one behind the other; those of one queue in its order."""
    wanted = [least_bytes(message.topic) for message in messages]
    full = sum(size for size, _ in wanted) + MIN_FILLER_BYTES <= stretch.length_bytes
    at, places = stretch.start_offset, []
    for message in sorted(messages, key=lambda each: (each.topic, each.queue_id, each.queue_offset)):
        size_bytes = least_bytes(message.topic)[0 if full else 1]
        places.append(_Place(message, at, size_bytes))
        at += size_bytes
    return tuple(places)
