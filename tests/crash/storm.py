"""`make storm`: the interrupt storm at full length; see tests/support/crash/interrupt_storm.py.

usage: storm.py [--stride 1] [--strikes 2000] [--seed 1] [--workers 2] [OPERATION ...]

Strikes each operation at every place (every `stride`-th), with SYNC_FLUSH and ASYNC_FLUSH, and then sends
signals into all of them. The seed is that of the signals, and says which kind of
exception strikes at which place: three seeds strike with each kind everywhere. A strike that did harm is
named by its place.
Exit code 1 for anything lost, given twice, hung, or for an exception of another type.
"""

import argparse
import logging
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.crash.interrupt_storm import OPERATIONS, StormyStore, storm, sweep

_LONGEST_END_S = 30


def main() -> int:
    parser = argparse.ArgumentParser(description="Exceptions at every place of every operation.")
    parser.add_argument("operations", nargs="*", default=OPERATIONS, metavar="OPERATION")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--strikes", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    arguments = parser.parse_args()
    wrong = 0
    # A fresh process for each scene: none inherits a profile hook, a thread or memory from another.
    with ProcessPoolExecutor(arguments.workers, get_context("spawn"), max_tasks_per_child=1) as pool:
        scenes = {
            pool.submit(run_scene, flush_disk_type, operation, arguments): (flush_disk_type, operation)
            for flush_disk_type in ("SYNC_FLUSH", "ASYNC_FLUSH")
            for operation in ("", *arguments.operations)
        }
        for scene in as_completed(scenes):
            try:
                title, found = scene.result()
            except BrokenExecutor as error:
                title, found = f"{scenes[scene]} or one beside it killed its process", [repr(error)]
            print("\n  ".join([title, *found[:20]]), flush=True)
            wrong += bool(found)
    print(f"{wrong} scenes went wrong")
    return 1 if wrong else 0


def run_scene(flush_disk_type: str, operation: str, arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """One scene: its title, and what went wrong. operation: empty for signals into all of them."""
    logging.disable(logging.CRITICAL)
    # What the interpreter itself closes tells of a strike and goes on.
    sys.unraisablehook = lambda _: None
    began_s = time.monotonic()
    name = f"{flush_disk_type} {operation or f'{arguments.strikes} signals, seed {arguments.seed}'}"
    with tempfile.TemporaryDirectory() as directory:
        stormy = StormyStore(Path(directory, "data"), start=not operation, flush_disk_type=flush_disk_type)
        stormy.put_some()
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
    found += threads_that_do_not_end()
    acknowledged = stormy.acknowledged_before + len(stormy.acknowledged)
    return f"{name}: {acknowledged:,} acknowledged, {time.monotonic() - began_s:.0f} s", found


def threads_that_do_not_end() -> list[str]:
    """Those for which the end of the process would wait for ever; also one that never began."""
    give_up_s = time.monotonic() + _LONGEST_END_S
    while True:
        left = [thread for thread in threading.enumerate() if not thread.daemon]
        left.remove(threading.main_thread())
        if not left or time.monotonic() > give_up_s:
            return [f"{thread!r} does not end" for thread in left]
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
