"""`make soak`: producers and consumers at work, killed and started again; nothing may be lost.

usage: run.py [--seconds 120] [--seed 1] [--keep]

Prints what went wrong, and the seed, by which the same messages have the same fates again. Exit code 1 then.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mqstore.client.producer.sends import plain_send
from mqstore.client.producer.sends.compiled_send import PLAIN_SEND
from mqstore.store.direct.machine_code import MACHINE_CODE
from support.soak.campaign import run_soak


def version_text() -> str:
    """What is soaked."""
    sends = "interpreted" if PLAIN_SEND is plain_send.plain_send else "compiled"
    puts = "interpreted" if MACHINE_CODE is None else "compiled"
    return f"{Path(plain_send.__file__).parents[3]}: puts {puts}, sends {sends}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Producers and consumers for minutes, with kills.")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the store and the journal")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="mqstore-soak-"))
    print(version_text())
    figures = run_soak(directory, arguments.seed, arguments.seconds)
    print(
        f"{figures.seconds:,.0f} s: {figures.runs} runs, {figures.kills} kills, "
        f"{figures.acknowledged:,} messages acknowledged, {figures.deliveries:,} deliveries to 3 groups, "
        f"{figures.dead_letters:,} dead letters"
    )
    print("\n".join(figures.wrong[:50]) or "nothing was lost, nothing was out of order")
    if figures.wrong:
        print(f"{len(figures.wrong)} findings; again: make soak SEED={arguments.seed}")
    if arguments.keep or figures.wrong:
        print(f"store and journal: {directory}")
    else:
        shutil.rmtree(directory)
    return 1 if figures.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
