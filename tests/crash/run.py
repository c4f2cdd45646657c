"""`make crash`: proves what docs/crash_safety.md claims, prints the figures, and writes them down.

usage: run.py [--states 20000] [--kills 1000] [--workers 2]

The figures go to build/crash_safety_figures.json, and those of a run of full length (20,000 states, 1,000
kills) to docs/figures/crash.json and into docs/crash_safety.md too. Exit code 1 for anything lost,
reused, early or not caught; each violation names the state that replays it: run.py --replay NAME.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from support.crash.campaign import Campaign  # noqa: E402
from support.crash.explorer import Violation, replay  # noqa: E402
from support.crash.figures import figures_table, with_figures  # noqa: E402
from support.crash.planted_bugs import PLANTED_BUGS  # noqa: E402

FULL_STATES, FULL_KILLS = 20_000, 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description="The crash tests at full length.")
    parser.add_argument("--states", type=int, default=FULL_STATES)
    parser.add_argument("--kills", type=int, default=FULL_KILLS)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--replay", metavar="NAME", help="open the store on the state of that name once more")
    arguments = parser.parse_args()
    if arguments.replay:
        return replay_state(arguments.replay)
    started = time.monotonic()
    campaign = Campaign(
        arguments.states, arguments.kills, arguments.workers, lambda line: print(line, flush=True)
    )
    campaign.run()
    figures = campaign.figures() | {
        "seconds": round(time.monotonic() - started),
        "workers": arguments.workers,
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "command": f"make crash STATES={arguments.states} KILLS={arguments.kills}",
        "caught": {name: campaign.caught.get(name, "") for name in PLANTED_BUGS},
    }
    print(figures_table(figures))
    write(figures, is_full=arguments.states >= FULL_STATES and arguments.kills >= FULL_KILLS)
    return 1 if campaign.violations else 0


def replay_state(name: str) -> int:
    try:
        replay(name)
    except Violation as violation:
        print(violation)
        return 1
    print(f"state {name}: nothing is wrong")
    return 0


def write(figures: dict[str, object], *, is_full: bool) -> None:
    text = json.dumps(figures, indent=1) + "\n"
    (REPOSITORY / "build").mkdir(exist_ok=True)
    (REPOSITORY / "build" / "crash_safety_figures.json").write_text(text)
    if is_full and not figures["violations"]:
        page = REPOSITORY / "docs" / "crash_safety.md"
        (REPOSITORY / "docs" / "figures" / "crash.json").write_text(text)
        page.write_text(with_figures(page.read_text(), figures))


if __name__ == "__main__":
    sys.exit(main())
