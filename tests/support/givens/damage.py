"""A flipped bit in a record of the copy `copies/monday`."""

from pathlib import Path

segment = Path("copies/monday/commitlog/00000000000000000000")
data = bytearray(segment.read_bytes())
place = data.index(b'{"id": 2}')
data[place] ^= 1
segment.write_bytes(data)
