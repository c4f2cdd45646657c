"""A server of S3's protocol, started once."""

from collections.abc import Iterator

import pytest

from support.archives.s3_server import S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server
