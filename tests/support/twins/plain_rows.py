"""The plain twins of store/bulk/encode_kernels.py: the same answers, row by row, in Python's own types.

The twin of `encode_rows` and `complete_records` together is a single put: tests/property/test_bulk_puts.py.
"""

from collections.abc import Sequence

from mqstore import Message
from mqstore.store.message.message import NO_PROPERTIES

__all__ = ["plain_groups", "plain_join", "plain_messages", "plain_values"]

_READ = {"topic", "body", "tags", "keys", "queue_id", "delay_level", "properties", "flag"}


def plain_values(rows: Sequence[bytes], name: bytes) -> list[bytes]:
    """The value of the first property with this name in each row of stored properties; b"" for none."""
    return [next((value for value in _values_of(row, name) if value), b"") for row in rows]


def _values_of(row: bytes, name: bytes) -> list[bytes]:
    chunks = [chunk.partition(b"\x01") for chunk in row.split(b"\x02")]
    return [value for found, separator, value in chunks if separator and found == name]


def plain_join(rows: Sequence[Sequence[tuple[bytes, bytes]]]) -> list[bytes] | int:
    """The stored properties of each row of pairs; or the number of the first row with an illegal pair."""
    joined = []
    for number, pairs in enumerate(rows):
        if any(not text or {1, 2} & set(text) for pair in pairs for text in pair):
            return number
        joined.append(b"".join(name + b"\x01" + value + b"\x02" for name, value in pairs))
    return joined


def plain_groups(queues: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """(number of each row's queue, first row of each queue)."""
    first_rows: dict[tuple[int, int], int] = {}
    for row, queue in enumerate(queues):
        first_rows.setdefault(queue, row)
    numbers = {queue: number for number, queue in enumerate(first_rows)}
    return [numbers[queue] for queue in queues], list(first_rows.values())


def plain_messages(
    messages: Sequence[Message],
) -> tuple[list[tuple[bytes, int, int, int]], bool, bool] | None:
    """(body, queue id, delay level, flag) of each message, and whether any has keys or properties.

    None when one has something else, or no bytes as its body, or no numbers of 32 bits.
    """
    rows = []
    for message in messages:
        numbers = message.queue_id, message.delay_level, message.flag
        is_other = any(
            getattr(message, name) != getattr(Message("", b""), name)
            for name in message.__struct_fields__
            if name not in _READ
        )
        is_wide = any(type(number) is not int or not -(2**31) <= number < 2**31 for number in numbers)
        if is_other or is_wide or message.queue_id < 0 or not isinstance(message.body, bytes):
            return None
        rows.append((message.body, *numbers))
    return (
        rows,
        any(message.keys != () for message in messages),
        any(message.properties is not NO_PROPERTIES for message in messages),
    )
