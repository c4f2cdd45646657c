"""The settings of a server, in one immutable value.

Those of the store are StoreConfig's. Nothing is read from the environment.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from mqstore.remoting.frame import MAX_FRAME_BYTES

__all__ = ["ServerSettings"]


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What a server is called, where it is reached, and how much it bears. Times in seconds."""

    # -- behaviour ------------------------------------------------------------------------------------

    address: str
    """`ip:port` where clients reach it. It stands in routes, and in the ids of messages as the store host."""

    broker_name: str = "broker-a"
    """Unique in its cluster."""

    cluster_name: str = "DefaultCluster"
    """What mqadmin's -c names."""

    region_id: str = "DefaultRegion"
    """Told to producers, which trace by it."""

    access_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Secret by access key: requests must be signed with one of them. Without any, nobody need sign."""

    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """For TLS on all connections (security/tls.py)."""

    # -- limits ---------------------------------------------------------------------------------------

    max_frame_bytes: int = MAX_FRAME_BYTES
    """A longer frame ends its connection."""

    max_connections: int = 1_000
    """One more is closed at once."""

    max_under_way: int = 1_024
    """Requests of one connection that wait for disk or thread; above it nothing more is read from it."""

    max_under_way_bytes: int = 64 << 20
    """Bytes of their bodies; above it nothing more is read, either."""

    max_held_pulls: int = 4_096
    """Pulls of one connection that wait for messages; one more is answered SYSTEM_BUSY."""

    max_unsent_bytes: int = 64 << 20
    """Answers that a client does not read; above it the connection is closed. It is looked at once the
    transport has asked for a pause: from 64 KiB on, with TLS from 512 KiB."""

    max_waiting_work: int = 10_000
    """Requests of all connections that wait for a thread; above it they are answered SYSTEM_BUSY."""

    max_names: int = 10_000
    """Topics, and groups, that sends and heartbeats may create; one more is refused (17, 26)."""

    max_memberships: int = 1_000
    """Groups in which the clients of one connection may be; those beyond are passed over."""

    worker_threads: int = 8
    """Threads for what may wait for the disk, or take long."""

    idle_s: float = 120.0
    """A connection without a byte for so long is closed."""

    partial_frame_s: float = 30.0
    """So long a frame may take from its first byte to its last."""

    member_s: float = 120.0
    """A client that sends no heartbeat for a group for so long is a member no longer."""

    drain_s: float = 10.0
    """So long a stop waits for what is under way."""

    def __post_init__(self) -> None:
        host, _, port = self.address.rpartition(":")
        assert host, self.address
        assert port.isdigit(), self.address
