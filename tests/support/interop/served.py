"""`mqstore serve` and RocketMQ's clients of one version, as processes of their own, for tests/interop.

The server is started as users start it, on a free port. The clients (Traffic.java) are as published. Each is
ended by its own id; logs stay in build/interop, and their ends go into the traceback of a test that fails.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.interop.process import BUILD, Refused, java_command

__all__ = ["Server", "Traffic", "running_traffic"]

_PATIENCE_SECONDS = 60.0
_SHOWN_LINES = 40
# Retries and delays come soon, as tests need it.
_DELAYS = "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s"
# The client looks for queues every 20 s by itself.
_JAVA_OPTIONS = ("-Xmx512m", "-Drocketmq.client.logUseSlf4j=true", "-Drocketmq.client.logRoot=build")


class Server:
    """`mqstore serve` on a directory. address: where it listens, once `start` has returned."""

    def __init__(self, path: Path, *options: str) -> None:
        self.address = ""
        self._path = path
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.log = path.with_suffix(".serve.log")

    def start(self) -> None:
        """Start it, on the port of before if it has had one."""
        port = self.address.rpartition(":")[2] or "0"
        command = [sys.executable, "-P", "-c", "from mqstore.tools.cli.app import main; main()"]
        command += [
            "serve",
            str(self._path),
            "--port",
            port,
            "--json",
            "-o",
            f"message_delay_level={_DELAYS}",
        ]
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, *self._options], stdout=subprocess.PIPE, stderr=log, encoding="utf-8"
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Refused(f"mqstore serve has ended: {self.log.read_text()[-2000:]}")
        self.address = json.loads(line)["address"]

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    close = kill

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        process.communicate(timeout=_PATIENCE_SECONDS)
        return process.returncode


class Traffic:
    """RocketMQ's clients of one version in a JVM (tests/interop/driver/all/interop/Traffic.java)."""

    def __init__(self, version: str, name_server: str, home: Path, *options: str) -> None:
        self.home = home
        shutil.rmtree(home, ignore_errors=True)
        (home / "conf").mkdir(parents=True)
        # 4.9's mqadmin wants it.
        (home / "conf" / "logback_tools.xml").write_text("<configuration/>")
        with (home / "traffic.log").open("w") as log:
            self._process = subprocess.Popen(
                [*java_command(version, home, *_JAVA_OPTIONS, *options), "interop.Traffic", name_server],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "ROCKETMQ_HOME": str(home)},
                encoding="utf-8",
                start_new_session=True,
            )

    def ask(self, operation: str, **fields: Any) -> Any:
        """The answer to one request. Raises Refused with what the client said."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps({"op": operation, **fields}) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise Refused("the clients have died")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(f"the client: {answer['error']}")
        return answer["answer"]

    def admin(self, *arguments: str) -> str:
        """What a command of mqadmin prints."""
        printed: str = self.ask("admin", arguments=arguments)
        return printed

    def seen(self, name: str) -> list[dict[str, Any]]:
        """What a consumer has been given, in order."""
        found: list[dict[str, Any]] = self.ask("seen", name=name)
        return found

    def end(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.communicate()


@contextmanager
def running_traffic(
    version: str, server: Server, name: str, options: Sequence[str] = ()
) -> Iterator[Traffic]:
    """The clients of a version at a server that runs; both are ended afterwards."""
    traffic = Traffic(version, server.address, BUILD / version / "traffic" / name, *options)
    try:
        yield traffic
    except BaseException as error:
        connections = sorted(traffic.home.rglob("remoting.log"))
        for log in (traffic.home / "traffic.log", *connections, server.log):
            lines = log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
            error.add_note("\n".join([f"-- the end of {log.name}", *lines]))
        raise
    finally:
        traffic.end()
        server.kill()
