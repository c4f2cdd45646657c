"""The unique id that a producer gives to each message: its property UNIQ_KEY, 32 upper-case hex digits.

     0            8        12           20               28      32
    +------------+--------+------------+----------------+-------+
    | ADDRESS    | PID    | RANDOM     | MS SINCE THE   | COUN- |
    | (IPv4)     |        |            | MONTH BEGAN    | TER   |
    +------------+--------+------------+----------------+-------+      digits

RocketMQ has a hash of its class loader where ours has a random number. The producers of a process draw blocks
of 256 numbers from one counter; the time is as old as the block, a millisecond at most. In a forked child
everything but the address is new, so that no id is given twice.
Threads: any. It opens no connection: the address is that of the interface with the default route.
Source: MessageClientIDSetter#createUniqID of Apache RocketMQ.
"""

import itertools
import math
import os
import socket
import time
import weakref
from collections.abc import Callable, Iterator

from mqstore.store.clock import Clock, SystemClock

__all__ = ["UniqueIds", "local_address"]

_HEX = [f"{number:02X}" for number in range(256)]
_BLOCK_S = 0.001
_NO_BLOCK: tuple[float, str, Iterator[str]] = -math.inf, "", iter(())
_NOTHING_DRAWN = -math.inf, ""
# A clock that was set back a little counts as the beginning of the month.
_SET_BACK_MS = 1_000_000
# For documentation only (RFC 5737): nobody has this address, and nothing is sent to it.
_NOWHERE = ("192.0.2.1", 9)


class _Process:
    """What the ids of one process have in common."""

    def __init__(self, address: bytes) -> None:
        self.address = address
        self.fixed = (address + (os.getpid() & 0xFFFF).to_bytes(2, "big") + os.urandom(4)).hex().upper()
        self.next_block = itertools.count().__next__
        self._month_ms = self._next_month_ms = 0

    def prefix(self, now_ms: int) -> str:
        """The first 28 digits of ids that are made at that time."""
        if now_ms >= self._next_month_ms:
            year, month = time.localtime(now_ms / 1000)[:2]
            self._month_ms = _first_of_month_ms(year, month)
            self._next_month_ms = _first_of_month_ms(year, month + 1)
        elapsed_ms = now_ms - self._month_ms
        if -_SET_BACK_MS < elapsed_ms < 0:
            elapsed_ms = 0
        return f"{self.fixed}{elapsed_ms & 0xFFFF_FFFF:08X}"


def _first_of_month_ms(year: int, month: int) -> int:
    """Midnight in local time; month 13 is the next January."""
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000


def local_address() -> bytes:
    """The IPv4 address that this machine is known by; without one, four bytes of the time, as in RocketMQ."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect(_NOWHERE)  # which only looks at the routes
            return socket.inet_aton(datagrams.getsockname()[0])
    except OSError:
        return (SystemClock().now_ms() & 0xFFFF_FFFF).to_bytes(4, "big")


class UniqueIds:
    """Makes unique ids with the time of `clock`, which is asked once a millisecond of `timer`.

    timer: seconds of a clock that only goes forward.
    """

    def __init__(self, clock: Clock, timer: Callable[[], float]) -> None:
        self._now_ms = clock.now_ms
        self._timer = timer
        # Until when the block is good, by the timer; what its ids begin with; the digits that are left for
        # their ends. Replaced by `renew`, and after a fork. A thread that takes from an old block does no
        # harm: no other has its numbers. In a list, which those who are in a hurry keep.
        self.current: list[tuple[float, str, Iterator[str]]] = [_NO_BLOCK]
        # The block that one caller numbers itself: until when it is good, and what its ids begin with.
        # Replaced by `draw`, and after a fork.
        self.drawn: list[tuple[float, str]] = [_NOTHING_DRAWN]
        _all_ids.add(self)

    def create(self, now_s: float | None = None) -> str:
        """A new id. now_s: what the timer says, if the caller has just asked it."""
        if now_s is None:
            now_s = self._timer()
        renew_s, prefix, digits = self.current[0]
        last = next(digits, None) if now_s < renew_s else None
        while last is None:
            _, prefix, digits = self.renew(now_s)
            last = next(digits, None)
        return prefix + last

    def renew(self, now_s: float) -> tuple[float, str, Iterator[str]]:
        """Begin a new block, and return it."""
        renew_s, prefix = self._next_block(now_s)
        self.current[0] = block = renew_s, prefix, iter(_HEX)
        return block

    def draw(self, now_s: float) -> tuple[float, str]:
        """Begin a block whose 256 ids the caller makes: of these 30 digits, and two more from 00 to FF."""
        self.drawn[0] = block = self._next_block(now_s)
        return block

    def _next_block(self, now_s: float) -> tuple[float, str]:
        process = _this_process()
        return now_s + _BLOCK_S, process.prefix(self._now_ms()) + _HEX[process.next_block() & 0xFF]


_all_ids: "weakref.WeakSet[UniqueIds]" = weakref.WeakSet()
_process: _Process | None = None


def _this_process() -> _Process:
    global _process  # noqa: PLW0603 - there is one process
    if _process is None:
        _process = _Process(local_address())
    return _process


def _begin_anew_in_child() -> None:
    global _process  # noqa: PLW0603 - as above
    _process = None
    for ids in _all_ids:
        ids.current[0] = _NO_BLOCK
        ids.drawn[0] = _NOTHING_DRAWN


os.register_at_fork(after_in_child=_begin_anew_in_child)
