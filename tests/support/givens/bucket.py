"""A server of S3's protocol with the bucket `backups`, until it is ended; prints what clients must know."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.archives.s3_server import CREDENTIALS, s3_server

# An end by SIGTERM ends what it has started, too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
with s3_server() as server:
    server.files.create_dir("backups")
    known = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.port}", "AWS_REGION": "us-east-1"}
    print(*(f"{name}={value}" for name, value in known.items()), flush=True)
    signal.pause()
