"""The fill plan: which records go into a damaged range of the log, so that the log can be scanned again.

Nothing outside of the range moves: physical offsets are in message ids and queues, queue offsets in what
consumers remember. So the range is filled to the byte (mqstore/repair/placeholder.py):

    the places of all lost messages are     a placeholder in each place, of the same size
      known, one right after the other
    else                                    the shortest placeholders, in the order of their queues
    what is left                            fillers; a BLANK where the range ends with its segment

It decides and encodes, and touches no file (repair_in_place.py, repair_copy.py).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mqstore.repair.placeholder import MIN_FILLER_BYTES, filler, least_bytes, placeholder
from mqstore.store.record.record_format import BLANK_MIN_BYTES, encode_blank
from mqstore.verify.log_outline import LogScan
from mqstore.verify.log_scan import DamagedRange
from mqstore.verify.unclaimed_entries import LostMessage

__all__ = ["Fill", "plan_fills"]

_LONGEST_FILLER_BYTES = 1 << 20


class _Place(NamedTuple):
    """Where the placeholder of a message goes."""

    message: LostMessage
    offset: int
    size_bytes: int


class Fill(NamedTuple):
    """What goes into one damaged range. ends_segment: the range does, so a BLANK takes what is left."""

    damage: DamagedRange
    places: tuple[_Place, ...]
    ends_segment: bool
    store_timestamp: int

    @property
    def filler_offset(self) -> int:
        """Where fillers or the BLANK begin: behind the last placeholder."""
        if not self.places:
            return self.damage.start_offset
        return self.places[-1].offset + self.places[-1].size_bytes

    @property
    def lost(self) -> tuple[LostMessage, ...]:
        """The messages that get placeholders."""
        return tuple(place.message for place in self.places)

    def records(self) -> Iterator[tuple[int, bytes]]:
        """(physical offset, bytes) of all that is written, in the order of the log."""
        for message, offset, size_bytes in self.places:
            queue = (message.topic, message.queue_id, message.queue_offset)
            yield offset, placeholder(*queue, offset, size_bytes, self.store_timestamp)
        offset, end = self.filler_offset, self.damage.end_offset
        if self.ends_segment:
            yield offset, encode_blank(end - offset)
            return
        while offset < end:
            left = end - offset
            size_bytes = left if left < 2 * _LONGEST_FILLER_BYTES else _LONGEST_FILLER_BYTES
            yield offset, filler(offset, size_bytes, self.store_timestamp)
            offset += size_bytes


def plan_fills(
    scan: LogScan, lost: Sequence[LostMessage], segment_bytes: int, newest_timestamp: int
) -> tuple[tuple[Fill, ...], tuple[LostMessage, ...]]:
    """A fill for each damaged range, and the lost messages for which none has room.

    newest_timestamp: of the log, for a range that has no record before it.
    """
    by_range: dict[int, list[LostMessage]] = {damage.start_offset: [] for damage in scan.damages}
    left_out = []
    # Messages with a known place come first, since the room that they need is known.
    for message in sorted(lost, key=lambda each: (each.physical_offset < 0, each.queue_offset)):
        damage = next((each for each in scan.damages if _takes(each, message, by_range, segment_bytes)), None)
        if damage is None:
            left_out.append(message)
        else:
            by_range[damage.start_offset].append(message)
    fills = tuple(
        _fill(damage, by_range[damage.start_offset], segment_bytes, newest_timestamp)
        for damage in scan.damages
    )
    return fills, tuple(left_out)


def _takes(
    damage: DamagedRange, message: LostMessage, by_range: dict[int, list[LostMessage]], segment_bytes: int
) -> bool:
    """Whether the message lay in the range, and there is room for its placeholder.

    A range that ends with its segment keeps room for the BLANK: every segment ends in one.
    """
    if message.physical_offset >= 0:
        end = message.physical_offset + message.size_bytes
        if not (damage.start_offset <= message.physical_offset and end <= damage.end_offset):
            return False
    elif not message.after_offset <= damage.start_offset <= damage.end_offset <= message.before_offset:
        return False
    others = by_range[damage.start_offset]
    needed = sum(least_bytes(each.topic)[1] for each in (*others, message))
    blank_bytes = BLANK_MIN_BYTES if damage.end_offset % segment_bytes == 0 else 0
    return needed + blank_bytes <= damage.length_bytes


def _fill(
    damage: DamagedRange, messages: list[LostMessage], segment_bytes: int, newest_timestamp: int
) -> Fill:
    ends_segment = damage.end_offset % segment_bytes == 0
    least_left = BLANK_MIN_BYTES if ends_segment else MIN_FILLER_BYTES
    places = _in_place(damage, messages) or _packed(damage, messages)
    fill = Fill(damage, places, ends_segment, damage.before_timestamp or max(1, newest_timestamp))
    left = damage.end_offset - fill.filler_offset
    is_fine = left >= least_left or (left == 0 and not ends_segment)
    if not is_fine and messages:
        places = _packed(damage, messages)
        fill = fill._replace(places=places)
        left = damage.end_offset - fill.filler_offset
        if 0 < left < least_left:
            last = places[-1]
            longer = last._replace(size_bytes=last.size_bytes + left)
            fill = fill._replace(places=(*places[:-1], longer))
    return fill


def _in_place(damage: DamagedRange, messages: list[LostMessage]) -> tuple[_Place, ...]:
    """Each placeholder where its message was; () if they do not follow each other, or are too small."""
    at, places = damage.start_offset, []
    for message in sorted(messages, key=lambda each: each.physical_offset):
        if message.physical_offset != at or message.size_bytes < least_bytes(message.topic)[1]:
            return ()
        places.append(_Place(message, at, message.size_bytes))
        at += message.size_bytes
    return tuple(places)


def _packed(damage: DamagedRange, messages: list[LostMessage]) -> tuple[_Place, ...]:
    """The shortest placeholders, one after another; those of one queue in its order."""
    wanted = [least_bytes(message.topic) for message in messages]
    full = sum(size for size, _ in wanted) + MIN_FILLER_BYTES <= damage.length_bytes
    at, places = damage.start_offset, []
    for message in sorted(messages, key=lambda each: (each.topic, each.queue_id, each.queue_offset)):
        size_bytes = least_bytes(message.topic)[0 if full else 1]
        places.append(_Place(message, at, size_bytes))
        at += size_bytes
    return tuple(places)
