"""The store `old`, whose first two segments are 100 hours old."""

import os
import time
from pathlib import Path

from mqstore import MessageStore, StoreConfig

with MessageStore.open(
    "old", StoreConfig(mapped_file_size_commit_log=131_072, max_message_size=65_000)
) as store:
    for _ in range(30):
        store.put("orders", bytes(10_000))
for segment in sorted(Path("old/commitlog").iterdir())[:2]:
    os.utime(segment, (time.time() - 360_000,) * 2)
