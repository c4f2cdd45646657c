"""Plain-Python twin of tools/spark: builds segments and reads them record by record, for comparison.

Written from the record's description, without the encoder, the decoder and the kernels of mqstore.
"""

import ipaddress
import struct
import zlib
from pathlib import Path
from typing import Any

V1, V2, BLANK = 0xDAA320A7, 0xDAA320AB, 0xCBD43194

Row = dict[str, Any]


def host_bytes(address: str, port: int) -> bytes:
    return ipaddress.ip_address(address).packed + struct.pack(">i", port)


def record(
    physical_offset: int,
    *,
    topic: str = "orders",
    body: bytes = b"",
    properties: bytes = b"",
    queue_id: int = 0,
    queue_offset: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    born_timestamp: int = 0,
    store_timestamp: int = 0,
    born_host: bytes = host_bytes("10.0.0.1", 1),
    store_host: bytes = host_bytes("10.0.0.2", 10911),
    reconsume_times: int = 0,
    magic: int = V1,
) -> bytes:
    """One record as it stands at `physical_offset`; the host bits of `sys_flag` are set as needed."""
    sys_flag |= 0x10 * (len(born_host) == 20) | 0x20 * (len(store_host) == 20)
    name = topic.encode()
    rest = b"".join(
        [
            struct.pack(
                ">Iiiqqi",
                zlib.crc32(body) & 0x7FFFFFFF,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
            ),
            struct.pack(">q", born_timestamp) + born_host,
            struct.pack(">q", store_timestamp) + store_host,
            struct.pack(">iq", reconsume_times, 0),
            struct.pack(">i", len(body)) + body,
            struct.pack(">b" if magic == V1 else ">h", len(name)) + name,
            struct.pack(">h", len(properties)) + properties,
        ]
    )
    return struct.pack(">II", len(rest) + 8, magic) + rest


def write_segment(
    store: Path, start_offset: int, data: bytes, size_bytes: int, *, blank: bool = False
) -> Path:
    """Write a segment file of full length, which ends in a BLANK record if `blank`."""
    if blank:
        data += struct.pack(">II", size_bytes - len(data), BLANK)
    assert len(data) <= size_bytes
    path = store / "commitlog" / f"{start_offset:020d}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.ljust(size_bytes, b"\0"))
    return path


def read_rows(path: Path) -> list[Row]:
    """The columns of every record of a segment, one record after the other."""
    data, base, at, rows = path.read_bytes(), int(path.name), 0, []
    while at + 8 <= len(data):
        size, magic = struct.unpack_from(">iI", data, at)
        if magic not in (V1, V2) or struct.unpack_from(">q", data, at + 28)[0] != base + at:
            break
        rows.append(_row(data[at : at + size], magic))
        at += size
    return rows


def _row(data: bytes, magic: int) -> Row:
    size, _, _, queue_id, flag, queue_offset, physical_offset, sys_flag = struct.unpack_from(
        ">iIiiiqqi", data
    )
    at = 40
    (born_timestamp,) = struct.unpack_from(">q", data, at)
    born_host, at = _host(data, at + 8, bool(sys_flag & 0x10))
    (store_timestamp,) = struct.unpack_from(">q", data, at)
    store_host, at = _host(data, at + 8, bool(sys_flag & 0x20))
    (reconsume_times,) = struct.unpack_from(">i", data, at)
    body, at = _field(data, at + 12, ">i")
    topic, at = _field(data, at, ">b" if magic == V1 else ">h")
    stored, at = _field(data, at, ">h")
    assert at == size == len(data)
    properties = _properties(stored)
    return {
        "topic": topic.decode(),
        "queueId": queue_id,
        "queueOffset": queue_offset,
        "physicalOffset": physical_offset,
        "tags": properties.get("TAGS"),
        "keys": properties.get("KEYS"),
        "body": body,
        "properties": properties,
        "flag": flag,
        "sysFlag": sys_flag,
        "bornTimestamp": born_timestamp,
        "storeTimestamp": store_timestamp,
        "bornHost": born_host,
        "storeHost": store_host,
        "reconsumeTimes": reconsume_times,
        "storeSize": size,
    }


def _host(data: bytes, at: int, is_ipv6: bool) -> tuple[str, int]:
    length = 16 if is_ipv6 else 4
    name = ipaddress.ip_address(data[at : at + length])
    (port,) = struct.unpack_from(">i", data, at + length)
    return (f"[{name}]:{port}" if is_ipv6 else f"{name}:{port}"), at + length + 4


def _field(data: bytes, at: int, length_format: str) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(length_format, data, at)
    start = at + struct.calcsize(length_format)
    return data[start : start + length], start + length


def _properties(stored: bytes) -> dict[str, str]:
    properties = {}
    for chunk in stored.decode().split("\x02"):
        separator = chunk.find("\x01")
        if 0 < separator < len(chunk) - 1:
            properties[chunk[:separator]] = chunk[separator + 1 :]
    properties.pop("__CRC32#", None)
    return properties
