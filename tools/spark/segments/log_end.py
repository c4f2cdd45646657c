"""The end of the log: how far a read goes that is planned now.

The last segment is walked to where its records end: at zeros (the writer has come this far: it writes a
record's first 8 bytes last), at a BLANK or the end of the file, or at a torn record, which a crash or a power
cut leaves behind. If whole records follow, what lies before them is damage, and the log goes on; the read
then reports it. An opened store knows a place that is not far from the end.
"""

from mqstore.tools.spark.segments.segment_files import SegmentFile
from mqstore.tools.spark.segments.segment_reader import SegmentScan, opened

__all__ = ["find_log_end"]

# Within so many bytes behind damage another record begins, unless one is larger than that.
_LOOK_AHEAD_BYTES = 64 * 1024 * 1024


def find_log_end(segment: SegmentFile, known_offset: int | None, *, check_crc: bool = True) -> int:
    """Physical offset of the end of the log, whose last segment is `segment`.

    known_offset: where a record begins or the log ends. Raises SegmentMissing.
    """
    begin = segment.start_offset
    if known_offset is not None and known_offset >= segment.end_offset:
        # The writer has begun the next segment since the segments were listed.
        return segment.end_offset
    if known_offset is not None and begin <= known_offset <= segment.end_offset:
        begin = known_offset
    with opened(segment) as source:
        size_bytes = min(segment.size_bytes, source.size_bytes())
        scan = SegmentScan(source, segment, begin, segment.start_offset + size_bytes, check_crc=check_crc)
        while True:
            if scan.walk() or scan.position >= size_bytes:
                # A BLANK or the last byte: the segment is full.
                return segment.end_offset
            end = scan.position
            scan.position += 1
            following = scan.find_record(end + _LOOK_AHEAD_BYTES)
            scan.position = end
            if following is None:
                return segment.start_offset + end
            # A writer may have filled the place meanwhile.
            is_full = scan.walk()
            if is_full:
                return segment.end_offset
            if scan.position == end:
                scan.position = following
