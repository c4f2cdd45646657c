"""Where archives are made: a directory, and a server of S3's protocol, started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore import MessageStore
from support.archives.s3_server import S3Server, s3_server
from support.archives.segmented_store import fill, open_store


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["directory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place of each kind."""
    if request.param == "directory":
        return str(tmp_path / "archive")
    server: S3Server = request.getfixturevalue("s3")
    return server.url()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    """With three sealed segments; its writer is at work."""
    with open_store(tmp_path / "store") as opened:
        fill(opened, 3)
        yield opened
