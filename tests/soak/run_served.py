"""`make soak-serve`: hundreds of connections to `mqstore serve`, clients killed and stopped, and rubbish.

usage: run_served.py [--seconds 120] [--malformed 10000] [--seed 1] [--flush ASYNC_FLUSH] [--keep]

The figures of a run of full length go to docs/figures/serve.json and into docs/serve.md. Exit code 1 for
anything lost, unanswered, or left behind.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.crash.figures import with_text_between
from support.soak.served_campaign import ServedFigures, run_served_soak

REPOSITORY = Path(__file__).resolve().parents[2]
FULL_SECONDS, FULL_MALFORMED = 120, 10_000
BEGIN, END = "<!-- soak: written by `make soak-serve` -->", "<!-- end of soak -->"
GROWTH_MIB = 32


def main() -> int:
    parser = argparse.ArgumentParser(description="Clients of a server, killed and stopped at random.")
    parser.add_argument("--seconds", type=float, default=FULL_SECONDS)
    parser.add_argument("--malformed", type=int, default=FULL_MALFORMED)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flush", default="ASYNC_FLUSH")
    parser.add_argument("--keep", action="store_true", help="leave the store and the journal")
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="mqstore-soak-"))
    figures = run_served_soak(
        directory, arguments.seed, arguments.seconds, arguments.malformed, flush_type=arguments.flush
    )
    wrong = list(figures.wrong)
    if figures.memory_end_mib - figures.memory_begin_mib > GROWTH_MIB:
        wrong.append(f"memory grew from {figures.memory_begin_mib} to {figures.memory_end_mib} MiB")
    print(sentence(figures, arguments.flush, arguments.seed))
    print("\n".join(wrong[:50]) or "nothing was lost, nothing was left unanswered")
    if arguments.keep or wrong:
        print(f"store, journal and logs: {directory}")
    else:
        shutil.rmtree(directory)
    if not wrong and arguments.seconds >= FULL_SECONDS and arguments.malformed >= FULL_MALFORMED:
        write(figures, arguments.flush, arguments.seed)
    return 1 if wrong else 0


def sentence(figures: ServedFigures, flush_type: str, seed: int) -> str:
    """What happened, in one paragraph."""
    return (
        f"{figures.connections} connections with {figures.held_pulls:,} pulls that wait, {flush_type}, "
        f"{figures.seconds:,.0f} s, seed {seed}: {figures.kills} times all clients of a process were killed, "
        f"{figures.stops} times stopped for up to 3 s; {figures.malformed:,} connections sent rubbish. "
        f"{figures.acknowledged:,} messages were acknowledged. The server's own memory was "
        f"{figures.memory_begin_mib} MiB in the first quarter of the time and {figures.memory_end_mib} MiB "
        "in the last."
    )


def write(figures: ServedFigures, flush_type: str, seed: int) -> None:
    """The figures, and the page that shows them."""
    state = figures._asdict() | {
        "flush_type": flush_type,
        "seed": seed,
        "machine": f"{os.cpu_count()} cores, Linux {platform.release()}",
        "python": platform.python_version(),
    }
    (REPOSITORY / "docs" / "figures" / "serve.json").write_text(json.dumps(state, indent=1) + "\n")
    page = REPOSITORY / "docs" / "serve.md"
    text = f"{sentence(figures, flush_type, seed)} Nothing was lost, and every request was answered."
    page.write_text(with_text_between(page.read_text(), BEGIN, END, text))


if __name__ == "__main__":
    sys.exit(main())
