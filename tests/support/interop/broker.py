"""Apache RocketMQ's NameServer, Broker and client, as processes of their own from the published jars.

Their ports are free ones of the loopback, their home is a directory under build/, and each leads a process
group that is killed at the end, whatever happened. On failure the ends of their logs go into the traceback.
"""

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from support.interop.process import BUILD, Refused, java_command

__all__ = ["BrokerRun", "Client", "broker_port", "eventually", "running_broker"]

# Beside the ranges from which a system takes ports for outgoing connections.
_PORTS = range(12_000, 32_000)
# Open files, each locked for a port that this process has chosen.
_claims: list[IO[str]] = []
# A JVM beside other work starts slowly: a broker has taken more than a minute.
_PATIENCE_SECONDS = 180.0
_SHOWN_LINES = 25

_NAME_SERVER_CLASS = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER_CLASS = "org.apache.rocketmq.broker.BrokerStartup"

# The client looks for queues every 20 s.
_JAVA_OPTIONS = ("-Xmx384m", "-Drocketmq.client.rebalance.waitInterval=500")

# 4.9 looks for these in its home; 5.x brings its own, which write into the home of the user.
_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %-5p %t %c{{0}} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="file"/></root>
</configuration>
"""

# What the tests need beside their store's settings: quick to notice, and patient on a slow machine. A pull
# that found nothing is answered soon, for a consumer commits what its filter passed over only with the next.
_BROKER_SETTINGS = {
    "brokerClusterName": "interop",
    "brokerName": "interop",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "timerWheelEnable": "false",
    "enabledAppendPropCRC": "true",
    "flushConsumerOffsetInterval": "500",
    "flushDelayOffsetInterval": "500",
    "longPollingEnable": "false",
    "shortPollingTimeMills": "200",
    "waitTimeMillsInSendQueue": "20000",
    "waitTimeMillsInPullQueue": "20000",
    "osPageCacheBusyTimeOutMills": "20000",
    "diskMaxUsedSpaceRatio": "95",
}


def eventually(is_done: Callable[[], bool], what: str, patience_seconds: float = _PATIENCE_SECONDS) -> None:
    """Ask again and again until it is done; a TimeoutError says what was waited for."""
    give_up = time.monotonic() + patience_seconds
    while not is_done():
        if time.monotonic() > give_up:
            raise TimeoutError(f"not within {patience_seconds:.0f} s: {what}")
        time.sleep(0.05)


def broker_port() -> int:
    """A free port for a broker, which listens on two more: for urgent consumers, and for replicas."""
    return _free_port(-2, 1)


def _free_port(*distances: int) -> int:
    """A port that is free, as are those at these distances from it; no other test is given any of them."""
    while True:
        port = random.SystemRandom().choice(_PORTS)
        ports = (port, *(port + distance for distance in distances))
        if all(map(_claim, ports)) and all(map(_is_free, ports)):
            return port


def _claim(port: int) -> bool:
    """Claim a port as long as this process lives, for a broker listens only seconds later; False if taken."""
    directory = BUILD / "ports"
    directory.mkdir(parents=True, exist_ok=True)
    claim = (directory / str(port)).open("w")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _is_listening(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class _Java(NamedTuple):
    """What the JVMs of one run have in common. home: a directory. options: of the JVM."""

    version: str
    home: Path
    options: Sequence[str]


class _JavaProcess:
    """A JVM with RocketMQ's classes that runs one main class; what it prints goes to a log in `home`."""

    def __init__(self, java: "_Java", name: str, main: str, *arguments: str, **pipes: int) -> None:
        self.name = name
        home = java.home
        with (home / f"{name}.out.log").open("a") as log:
            self._process = subprocess.Popen(
                [*java_command(java.version, home, *_JAVA_OPTIONS, *java.options), main, *arguments],
                **{"stdin": subprocess.DEVNULL, "stdout": log, **pipes},
                stderr=log,
                env={**os.environ, "ROCKETMQ_HOME": str(home)},
                encoding="utf-8",
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def await_port(self, port: int) -> None:
        """Return once it listens there. Raises Refused when it ends instead."""
        eventually(lambda: self._has_ended() or _is_listening(port), f"{self.name} listens on port {port}")
        if self._has_ended():
            raise Refused(f"{self.name} has ended with {self._process.returncode}")

    def _has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Let it shut down by itself, as SIGTERM makes a broker do."""
        self._signal(signal.SIGTERM)
        self._process.wait(_PATIENCE_SECONDS)

    def kill(self) -> None:
        """SIGKILL to the process and all that it started."""
        self._signal(signal.SIGKILL)
        self._process.communicate()

    def _signal(self, number: signal.Signals) -> None:
        if not self._has_ended():
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


class Client(_JavaProcess):
    """The client, which answers requests (tests/interop/driver/all/interop/Client.java)."""

    def __init__(self, java: _Java, name_server: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        super().__init__(java, "client", "interop.Client", name_server, **pipes)

    def ask(self, operation: str, **fields: Any) -> Any:
        """The answer to one request. Raises Refused with what the client said."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps({"op": operation, **fields}) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise Refused("the client has died")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(f"the client: {answer['error']}")
        return answer["answer"]


class BrokerRun:
    """A NameServer, a Broker over a directory, and a client that knows them."""

    def __init__(self, java: _Java) -> None:
        self._java = java
        self._home = java.home
        self._processes: list[_JavaProcess] = []

    def start(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Start all three; they serve when this returns."""
        self.name_server = address = self._start_name_server()
        port = settings["listenPort"]
        file = _settings_file(
            self._home / "broker.properties",
            {
                **_BROKER_SETTINGS,
                **settings,
                "namesrvAddr": address,
                "haListenPort": str(port + 1),
                "storePathRootDir": str(path),
                "storePathCommitLog": str(path / "commitlog"),
            },
        )
        self.broker = _JavaProcess(self._java, "broker", _BROKER_CLASS, "-c", str(file))
        self._processes.append(self.broker)
        self.client = Client(self._java, address)
        self._processes.append(self.client)
        self.broker.await_port(port)

    def _start_name_server(self) -> str:
        port = _free_port()
        file = _settings_file(self._home / "namesrv.properties", {"listenPort": str(port)})
        server = _JavaProcess(self._java, "namesrv", _NAME_SERVER_CLASS, "-c", str(file))
        self._processes.append(server)
        server.await_port(port)
        return f"127.0.0.1:{port}"

    def end(self) -> None:
        """Kill what still runs."""
        for process in reversed(self._processes):
            process.kill()

    def logs(self) -> str:
        """The last lines of every log."""
        parts: list[str] = []
        for log in sorted(self._home.rglob("*.log")):
            lines = [line for line in log.read_text(errors="replace").splitlines() if "|-" not in line]
            if lines:
                parts += [f"-- the end of {log.relative_to(BUILD)}", *lines[-_SHOWN_LINES:]]
        return "\n".join(parts)


def _settings_file(path: Path, settings: Mapping[str, Any]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


@contextmanager
def running_broker(
    version: str,
    path: Path,
    settings: Mapping[str, Any],
    name: str,
    *,
    java_options: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
) -> Iterator[BrokerRun]:
    """RocketMQ of a version at work on the directory `path`; its logs stay in build/, under `name`.

    settings: the broker's, with a "listenPort" from `broker_port`. conf: further files of its folder conf,
    text by name.
    """
    home = BUILD / version / "brokers" / name
    shutil.rmtree(home, ignore_errors=True)
    (home / "conf").mkdir(parents=True)
    for server in ("broker", "namesrv"):
        logback = _LOGBACK.format(file=home / f"{server}.log")
        (home / "conf" / f"logback_{server}.xml").write_text(logback)
    for file, text in (conf or {}).items():
        (home / "conf" / file).write_text(text)
    run = BrokerRun(_Java(version, home, java_options))
    try:
        run.start(path, settings)
        yield run
    except BaseException as error:
        error.add_note(run.logs())
        raise
    finally:
        run.end()
