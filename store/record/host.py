"""A host: an IP address and a port, as the born host and the store host of a record.

On disk: 4 or 16 address bytes, then the port as a 4-byte big-endian integer. No name is ever resolved.
Source: spec of the commit log, fields 10 and 12.
"""

import ipaddress
import re
from typing import NamedTuple

__all__ = ["IPV4_HOST_BYTES", "IPV6_HOST_BYTES", "Host"]

IPV4_HOST_BYTES = 8
IPV6_HOST_BYTES = 20

_TEXT = re.compile(r"(?:([0-9.]+)|\[([0-9a-fA-F:.]+)\]):([0-9]{1,5})")
_MAX_PORT = 65_535


class Host(NamedTuple):
    """An address of 4 (IPv4) or 16 (IPv6) bytes and a port.

    >>> Host.parse("192.168.1.10:10911")
    Host('192.168.1.10:10911')
    >>> Host.parse("[2001:db8::2]:10911").is_ipv6
    True
    """

    address: bytes
    port: int

    @classmethod
    def parse(cls, text: str) -> "Host":
        """Read `1.2.3.4:80` or `[2001:db8::1]:80`. Raises ValueError for anything else."""
        match = _TEXT.fullmatch(text)
        if match is None or int(match[3]) > _MAX_PORT:
            raise ValueError(f"{text!r} is no address and port")
        address = ipaddress.IPv4Address(match[1]) if match[1] else ipaddress.IPv6Address(match[2])
        return cls(address.packed, int(match[3]))

    @classmethod
    def decode(cls, data: bytes) -> "Host":
        """Read the 8 or 20 bytes of a record."""
        return cls(bytes(data[:-4]), int.from_bytes(data[-4:], "big"))

    def encode(self) -> bytes:
        """The 8 or 20 bytes of a record."""
        return self.address + self.port.to_bytes(4, "big")

    @property
    def is_ipv6(self) -> bool:
        """Whether the address has 16 bytes."""
        return len(self.address) == 16

    def __str__(self) -> str:
        name = str(ipaddress.ip_address(self.address))
        return f"[{name}]:{self.port}" if self.is_ipv6 else f"{name}:{self.port}"

    def __repr__(self) -> str:
        return f"Host({str(self)!r})"
