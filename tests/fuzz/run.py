"""`make fuzz`: asks hostile stores everything, prints what failed, and writes the figures down.

usage: run.py [--cases 20000] [--seed 1] [--workers 2] [--case NUMBER]

A failure names its case: run.py --seed S --case NUMBER runs it again, with everything it says. With
NUMBA_BOUNDSCHECK=1 all bounds of compiled loops are checked. The figures of a run of full length go to
docs/figures/fuzz.json and into docs/crash_safety.md. Exit code 1 if a case failed.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))

from support.fuzz.campaign import CaseResult, run_cases  # noqa: E402
from support.fuzz.figures import fuzz_table, with_fuzz_figures  # noqa: E402

FULL_CASES = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Hostile stores, each asked everything in a process of its own."
    )
    parser.add_argument("--cases", type=int, default=FULL_CASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--case", type=int, help="run this case alone")
    arguments = parser.parse_args()
    numbers = range(arguments.cases) if arguments.case is None else range(arguments.case, arguments.case + 1)
    workers = arguments.workers if arguments.case is None else 1
    checked = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
    started = time.monotonic()
    done = 0

    def show(result: CaseResult) -> None:
        nonlocal done
        done += 1
        if result.failures or arguments.case is not None:
            print(f"FAILED {result}" if result.failures else f"sound: {result}", flush=True)
            print(
                f"again: make fuzz SEED={arguments.seed} CASE={result.number}{' BOUNDS=1' * checked}",
                flush=True,
            )
        if done % 1_000 == 0:
            print(f"{done:,} of {len(numbers):,} cases, {time.monotonic() - started:,.0f} s", flush=True)

    cases = [(arguments.seed, number) for number in numbers]
    campaign = run_cases(cases, workers=workers, on_result=show)
    if arguments.case is not None:
        return 1 if campaign.failed else 0
    figures = {
        "cases": campaign.cases,
        "calls": campaign.calls,
        "refusals": sum(campaign.refusals.values()),
        "kinds": dict(campaign.refusals.most_common()),
        "failed": len(campaign.failed),
        "slowest_seconds": campaign.slowest_seconds,
        "most_resident_mib": campaign.most_resident_bytes >> 20,
        "changes": dict(sorted(campaign.changes.items())),
        "seconds": round(time.monotonic() - started),
        "workers": workers,
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "command": f"make fuzz CASES={arguments.cases} SEED={arguments.seed}{' BOUNDS=1' * checked}",
    }
    print(fuzz_table({"checked" if checked else "usual": figures}))
    write("checked" if checked else "usual", figures)
    return 1 if campaign.failed else 0


def write(kind: str, figures: dict[str, Any]) -> None:
    (REPOSITORY / "build").mkdir(exist_ok=True)
    (REPOSITORY / "build" / f"fuzz_figures_{kind}.json").write_text(json.dumps(figures, indent=1) + "\n")
    if figures["cases"] >= FULL_CASES and not figures["failed"]:
        page = REPOSITORY / "docs" / "crash_safety.md"
        path = REPOSITORY / "docs" / "figures" / "fuzz.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        known[kind] = figures
        path.write_text(json.dumps(known, indent=1) + "\n")
        page.write_text(with_fuzz_figures(page.read_text(), known))


if __name__ == "__main__":
    sys.exit(main())
