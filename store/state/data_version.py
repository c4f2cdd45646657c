"""The data version: the stamp that a state file carries to tell a newer state from an older one.

A broker compares it to see whether a replica's copy is stale; mqstore advances it, but
never compares it. Immutable: owners replace theirs under their own lock. No I/O.
Source: DataVersion of Apache RocketMQ; page: docs/format/state_files.md.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mqstore.store.state.state_file_format import whole_number

__all__ = ["DataVersion"]


class DataVersion(NamedTuple):
    """How often, and when last, the state of a file changed."""

    counter: int = 0
    state_version: int = 0
    """Epoch of the replication controller; kept as found, 0 without one."""
    timestamp_ms: int = 0

    @classmethod
    def decode(cls, state: object) -> "DataVersion":
        """From the `dataVersion` of a state file; absent fields are 0. ValueError when it is no such map."""
        if state is None:
            return cls()
        if not isinstance(state, Mapping):
            raise ValueError(f"dataVersion is {state!r}, not an object")
        counter, state_version, timestamp = (
            state.get(name) or 0 for name in ("counter", "stateVersion", "timestamp")
        )
        return cls(whole_number(counter), whole_number(state_version), whole_number(timestamp))

    def encode(self) -> dict[str, Any]:
        """As a state file keeps it."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp_ms,
        }

    def next(self, now_ms: int) -> "DataVersion":
        """The version after one more change."""
        return DataVersion(self.counter + 1, self.state_version, now_ms)
