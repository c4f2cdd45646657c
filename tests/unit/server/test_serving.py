"""Goal: no client of a server waits for the import of a compiled loop. Method: a new process serves."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
from mqstore.server import serving
with serving.running("data"):
    print(json.dumps([name for name in sys.modules if name.endswith("_kernels")]))
"""
NEEDED = {
    "mqstore.index.keys.run_kernels",
    "mqstore.index.pull.pull_kernels",
    "mqstore.schedule.delivery.delivery_kernels",
    "mqstore.store.bulk.encode_kernels",
    "mqstore.store.bulk.message_kernels",
    "mqstore.store.bulk.msgpack_kernels",
    "mqstore.store.bulk.sent.batch_kernels",
}


def test_loops_are_imported_before_the_first_client(tmp_path: Path) -> None:
    """Those of puts, pulls, queries and deliveries; in a checkout their import may compile for seconds."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, check=True)
    assert set(json.loads(ran.stdout)) >= NEEDED
