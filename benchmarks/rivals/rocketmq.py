"""Apache RocketMQ's own DefaultMessageStore, in a JVM that stays up for all benchmarks.

The driver is benchmarks/rocketmq/. RocketMQ's defaults but for the flush mode: segments of 1 GiB, key
index on, no record CRC (mqstore writes one). The round runs in Java, on Java threads, and the time is
taken there; before the first round of a kind of work the JIT is warmed with WARM_UP_SECONDS of it. Without
Maven or a JDK it takes no part.
"""

import atexit
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rivals.contestant import Contestant, Round, Timed, Work

__all__ = ["ROCKETMQ", "RocketMq"]

BUILD = Path(__file__).resolve().parents[2] / "build" / "bench" / "rocketmq"
WARM_UP_SECONDS = 1.0
BATCH_BYTES_MAX = 4_194_304
"""RocketMQ's maxMessageSize, which a whole batch must keep to."""

# RocketMQ reaches into the JDK to unmap its files.
_JAVA_OPTIONS = (
    "-Xms2g",
    "-Xmx2g",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


class RocketMq(Contestant):
    """The process, started when first asked."""

    name = "RocketMQ"

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._warm: set[tuple[object, ...]] = set()

    @property
    def is_there(self) -> bool:
        """Whether benchmarks/rocketmq/prepare found what it needs."""
        return (BUILD / "compiled-for").exists() and (BUILD / "classes").is_dir()

    @property
    def version(self) -> str:
        """Of its jars; empty when it is not there."""
        return (BUILD / "version").read_text().strip() if self.is_there else ""

    def can(self, work: Work) -> bool:
        return self.is_there and not work.columns and work.batch * (work.body_bytes + 100) < BATCH_BYTES_MAX

    @contextmanager
    def ready(self, work: Work, directory: Path) -> Iterator[Timed]:
        kind = (work.sync, work.batch > 1, work.in_flight, work.threads)
        if kind not in self._warm:
            self._warm.add(kind)
            warm_seconds = 0.0
            while warm_seconds < WARM_UP_SECONDS:
                warm_seconds += self._put(work, directory)
        yield lambda: Round(work.messages, self._put(work, directory))

    def _put(self, work: Work, directory: Path) -> float:
        seconds: float = self.ask(
            "put",
            path=str(directory),
            messages=work.messages,
            body_bytes=work.body_bytes,
            threads=work.threads,
            batch=work.batch,
            sync=work.sync,
            in_flight=work.in_flight,
            keys=work.keys,
            attributes=work.attributes,
        )
        subprocess.run(["rm", "-rf", str(directory)], check=True)
        return seconds

    def ask(self, operation: str, **fields: Any) -> Any:
        """The answer to one request (Driver.java). Raises RuntimeError with what the driver said."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"op": operation, **fields}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process has died"}
        if "error" in answer:
            raise RuntimeError(f"RocketMQ: {answer['error']}; see {BUILD / 'driver.log'}")
        return answer.get("answer")

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None:
            home = os.environ.get("JAVA_HOME")
            with (BUILD / "driver.log").open("w") as log:
                self._process = subprocess.Popen(
                    [
                        str(Path(home, "bin", "java")) if home else "java",
                        *_JAVA_OPTIONS,
                        f"-Duser.home={BUILD}",
                        "-cp",
                        f"{BUILD / 'classes'}:{BUILD / 'lib'}/*",
                        "bench.Driver",
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    encoding="utf-8",
                )
            atexit.register(self.end)
        return self._process

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()


ROCKETMQ = RocketMq()
