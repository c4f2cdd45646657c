"""The latency faults: brokers that were slow or failed, and for how long a producer avoids them.

Each attempt of a send tells how it went (`update`). Off by default: then nothing is kept, and every broker is
available. The detector, off by default too, asks brokers that were told to be unreachable whether they
answer.

Threads: any; an item's two fields are written in one step each, and a choice that is a moment late does no
harm. The detector has a thread between `start` and `stop`; `detect_once` is what it does.
Source: docs/spec/client_produce.md section 3; MQFaultStrategy, LatencyFaultToleranceImpl of Apache RocketMQ.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mqstore.client.producer.producer_settings import ProducerSettings
from mqstore.store.threads.service import Service

__all__ = ["LATENCY_MAX_MS", "NOT_AVAILABLE_MS", "LatencyFaults"]

LATENCY_MAX_MS: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
NOT_AVAILABLE_MS: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
"""For how long a broker is avoided after an attempt that took at least as long as LATENCY_MAX_MS has it."""

_ISOLATED_MS: Final = 10_000
_DETECTOR_PERIOD_MS: Final = 3_000


@dataclass(slots=True)
class _FaultItem:
    """What is known of one broker. Times are the timer's, in seconds."""

    is_reachable: bool
    available_from_s: float = 0.0
    look_again_s: float = 0.0


class LatencyFaults:
    """The brokers of one producer that are avoided.

    is_known: whether the producer has a broker of this name. answers: asks it something; any exception means
    no. timer: seconds of a clock that only goes forward.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        is_known: Callable[[str], bool],
        answers: Callable[[str], object],
        timer: Callable[[], float],
        choice: random.Random,
    ) -> None:
        self.is_enabled = settings.send_latency_enable
        self.is_detecting = settings.start_detector_enable
        self._items: dict[str, _FaultItem] = {}
        self._detect_interval_s = settings.detect_interval / 1000
        self._detect_timeout_ms = settings.detect_timeout
        self._is_known = is_known
        self._answers = answers
        self._timer = timer
        self._choice = choice
        self._detector = Service("producer-detector", _DETECTOR_PERIOD_MS, self.detect_once)

    def update(self, broker_name: str, latency_ms: int, *, is_isolated: bool, is_reachable: bool) -> None:
        """Tell how an attempt went. An isolated broker counts as one that took 10 s."""
        if not self.is_enabled:
            return
        item = self._items.get(broker_name)
        if item is None:
            item = self._items.setdefault(broker_name, _FaultItem(is_reachable))
        item.is_reachable = is_reachable
        avoided_ms = _not_available_ms(_ISOLATED_MS if is_isolated else latency_ms)
        if avoided_ms:
            item.available_from_s = max(item.available_from_s, self._timer() + avoided_ms / 1000)

    def is_available(self, broker_name: str) -> bool:
        """Whether the broker is not avoided now; one that nothing is known of is not."""
        item = self._items.get(broker_name)
        return item is None or self._timer() >= item.available_from_s

    def is_reachable(self, broker_name: str) -> bool:
        """Whether the last attempt, or the detector, reached the broker; True if nothing is known."""
        item = self._items.get(broker_name)
        return item is None or item.is_reachable

    def pick_one_at_least(self) -> str | None:
        """The name of any of the brokers that are known and reachable; None if there is none."""
        reachable = [name for name, item in self._items.items() if item.is_reachable]
        return self._choice.choice(reachable) if reachable else None

    # -- the detector ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the detector, if the settings say so."""
        if self.is_detecting:
            self._detector.start()

    def stop(self) -> None:
        """End the detector."""
        self._detector.stop()

    def detect_once(self) -> None:
        """Ask each broker that has not been asked for a while; forget one that the producer does not have."""
        for name, item in list(self._items.items()):
            if self._timer() < item.look_again_s:
                continue
            item.look_again_s = self._timer() + self._detect_interval_s
            if not self._is_known(name):
                self._items.pop(name, None)
            elif not item.is_reachable and self._does_answer(name):
                item.is_reachable = True

    def _does_answer(self, broker_name: str) -> bool:
        asked_s = self._timer()
        try:
            self._answers(broker_name)
        except Exception:  # noqa: BLE001 - whatever it is, the broker did not answer
            return False
        return round((self._timer() - asked_s) * 1000) <= self._detect_timeout_ms

    def __repr__(self) -> str:
        return f"LatencyFaults(is_enabled={self.is_enabled}, {self._items})"


def _not_available_ms(latency_ms: int) -> int:
    for least_ms, avoided_ms in zip(reversed(LATENCY_MAX_MS), reversed(NOT_AVAILABLE_MS), strict=True):
        if latency_ms >= least_ms:
            return avoided_ms
    return 0
