"""`make archive-kills`: an archiver is killed at random moments beside a writer; no message may be lost.

usage: archive_kills.py [--kills 50] [--seed 1]

Half of the kills archive to a directory, half to a server of S3's protocol. What must hold after each of
them: support/archives/killed_archives.py. Figures of 50 kills and more go to
docs/figures/archive_kills.json and into docs/archive.md. An AssertionError ends the run: what it names is
lost, doubled or changed.
"""

import argparse
import json
import os
import platform
import random
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from support.archives.killed_archives import kill_and_restore
from support.archives.s3_server import s3_server
from support.page_part import write_part

REPOSITORY = Path(__file__).resolve().parents[2]
FIGURES = REPOSITORY / "docs" / "figures" / "archive_kills.json"
PAGE = REPOSITORY / "docs" / "archive.md"
BEGIN, END = (
    "<!-- archive kills: written by tests/crash/archive_kills.py -->",
    "<!-- end of archive kills -->",
)
FULL_KILLS = 50


def run(kills: int, seed: int) -> dict[str, object]:
    """All kills; the figures."""
    begin, choice = time.monotonic(), random.Random(seed)
    places = {}
    with s3_server() as s3, tempfile.TemporaryDirectory(prefix="mqstore-archive-") as directory:
        for kind, count in (("directory", kills - kills // 2), ("S3", kills // 2)):
            root = Path(directory) / kind
            url = s3.url() if kind == "S3" else str(root / "archive")
            places[kind] = asdict(kill_and_restore(root, url, count, choice))
    return {
        "places": places,
        "seed": seed,
        "seconds": round(time.monotonic() - begin),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "command": f"make archive-kills KILLS={kills} SEED={seed}",
    }


def write(figures: dict[str, object]) -> None:
    """Into the file and the page."""
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    places = figures["places"]
    assert isinstance(places, dict)
    told = "; ".join(
        f"{kind}: {found['kills']} kills, {found['killed']} of them at work, {found['segments']} segments, "
        f"{found['messages']:,} messages restored"
        for kind, found in places.items()
    )
    line = f"{told}. None lost, none changed (`{figures['command']}`, {figures['machine']})."
    write_part(PAGE, BEGIN, END, line)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills of an archiver.")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    figures = run(arguments.kills, arguments.seed)
    sys.stdout.write(json.dumps(figures, indent=1) + "\n")
    if arguments.kills >= FULL_KILLS:
        write(figures)


if __name__ == "__main__":
    main()
