"""kill -9 of an archiver: every entry names a whole object, and the next run goes on until all is archived.

To a directory, and to a server of S3's protocol. Method: support/archives/killed_archives.py; at length by
`make archive-kills`. The seed is fixed; the moment at which a signal strikes is not, so runs differ.
"""

import random
from pathlib import Path

import pytest

from support.archives.killed_archives import kill_and_restore
from support.archives.s3_server import s3_server

SEED = 20261123
KILLS = 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["directory", "s3"])
def test_an_archiver_is_killed_and_started_again(tmp_path: Path, kind: str) -> None:
    """At no moment an entry without its object, and none too many is left to do."""
    with s3_server() as s3:
        url = str(tmp_path / "archive") if kind == "directory" else s3.url()
        report = kill_and_restore(tmp_path, url, KILLS, random.Random(SEED))
    assert report.killed, "no child was killed at work: shorten the waits"
