"""A server of S3's protocol on the loopback (moto), in a process of its own, and addresses in it."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pyarrow.fs as pa_fs

__all__ = ["CREDENTIALS", "S3Server", "s3_server"]

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@dataclass
class S3Server:
    """`url()` gives an empty place in a bucket of its own each time."""

    port: int
    _numbers: Iterator[int] = field(default_factory=lambda: iter(count()))

    @property
    def files(self) -> pa_fs.S3FileSystem:
        """The server as a file system; it may make buckets."""
        return pa_fs.S3FileSystem(
            access_key=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def url(self) -> str:
        bucket = f"bucket{next(self._numbers)}"
        self.files.create_dir(bucket)
        user = f"{CREDENTIALS['AWS_ACCESS_KEY_ID']}:{CREDENTIALS['AWS_SECRET_ACCESS_KEY']}"
        endpoint = quote(f"127.0.0.1:{self.port}", safe="")
        return f"s3://{user}@{bucket}/orders?scheme=http&region=us-east-1&endpoint_override={endpoint}"


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start one; it ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(sys.executable).with_name("moto_server")
    with subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _wait_for(port, process)
            yield S3Server(port)
        finally:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "the server of S3's protocol has ended"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return
