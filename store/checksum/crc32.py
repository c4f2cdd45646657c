"""CRC-32 of bytes, called from Python: the checksum of bodies and of records.

ISA-L (the distribution `isal`) computes it by carry-less multiplication, in a seventh of zlib's time
for 1 KiB. The polynomial is zlib's; tests compare the results with zlib. Compiled loops have their own
(crc32_kernels.py).
Threads: any. Decision: docs/decisions/0008-crc-of-single-records-by-isa-l.md.
"""

from typing import Final

from isal.isal_zlib import crc32, crc32_combine

__all__ = ["HELD_BYTES", "crc32", "crc32_combine"]

HELD_BYTES: Final = 5_120
"""`crc32` of this many bytes or fewer holds the GIL; for more it releases the GIL."""
