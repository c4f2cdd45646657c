"""`make storm`: the interrupt storm at full length; see tests/support/crash/interrupt_storm.py.

usage: storm.py [--stride 1] [--strikes 2000] [--seed 1] [OPERATION ...]

Strikes each operation at every place (every `stride`-th), with SYNC_FLUSH and ASYNC_FLUSH, and then sends
signals into all of them. The seed is that of the signals, and says which kind of
exception strikes at which place: three seeds strike with each kind everywhere. A strike that did harm is
named by its place.
Exit code 1 for anything lost, given twice, hung, or for an exception of another type.
"""

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.crash.interrupt_storm import OPERATIONS, StormyStore, storm, sweep


def main() -> int:
    parser = argparse.ArgumentParser(description="Exceptions at every place of every operation.")
    parser.add_argument("operations", nargs="*", default=OPERATIONS, metavar="OPERATION")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--strikes", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    # What the interpreter itself closes tells of a strike and goes on.
    sys.unraisablehook = lambda _: None
    wrong = 0
    for flush_disk_type in ("SYNC_FLUSH", "ASYNC_FLUSH"):
        for operation in arguments.operations:
            wrong += _run(flush_disk_type, operation, arguments)
        wrong += _run(flush_disk_type, "", arguments)
    print(f"{wrong} scenes went wrong")
    return 1 if wrong else 0


def _run(flush_disk_type: str, operation: str, arguments: argparse.Namespace) -> bool:
    """One scene: whether it went wrong."""
    began_s = time.monotonic()
    name = f"{flush_disk_type} {operation or f'{arguments.strikes} signals, seed {arguments.seed}'}"
    with tempfile.TemporaryDirectory() as directory:
        stormy = StormyStore(Path(directory, "data"), start=not operation, flush_disk_type=flush_disk_type)
        for _ in range(8):
            stormy.put_message()
        try:
            if operation:
                found = sweep(stormy, operation, 1, arguments.stride, arguments.seed)
            else:
                found = storm(stormy, arguments.seed, arguments.strikes)
            stormy.audit()
            stormy.audit_closed()
            stormy.store.close()
        except Exception as error:  # noqa: BLE001 - the finding
            found = [repr(error)]
    print(f"{name}: {len(stormy.acknowledged)} acknowledged, {time.monotonic() - began_s:.0f} s", flush=True)
    for line in found[:20]:
        print(f"  {line}", flush=True)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
