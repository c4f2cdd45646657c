"""Two stores to compare, each in a process of its own: Apache RocketMQ's, of some version, and mqstore.

Both take the same requests, one JSON object a line (tests/interop/driver/, mqstore.py), so that a
test reads the same for each pair of writer and reader. A process serves many stores one by one, and is
started again by itself after it was killed. `make interop` puts RocketMQ's classes where they are looked for.
"""

import abc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = [
    "BUILD",
    "ROCKETMQ_VERSIONS",
    "Mqstore",
    "Refused",
    "RocketMq",
    "StoreProcess",
    "java_command",
    "prepared_versions",
    "rocketmq_settings",
]

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "interop"

ROCKETMQ_VERSIONS = ("5.5.0", "5.1.4", "4.9.7")
"""As pinned in tests/interop/pom.xml."""

# No timer wheel, which would make each store 80 MB larger.
_ROCKETMQ_STORE = {"timerWheelEnable": "false"}
_ROCKETMQ_BROKER = {"brokerIP1": "127.0.0.1"}

# What is the table in each state file.
_STATE_TABLES = {
    "topics": "topicConfigTable",
    "subscriptionGroup": "subscriptionGroupTable",
    "consumerOffset": "offsetTable",
    "delayOffset": "offsetTable",
}

# RocketMQ reaches into the JDK to unmap its files.
# Tests start many JVMs, each for some seconds; a benchmark wants them as they are in production.
_QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_JAVA_OPTIONS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


def java_command(version: str, home: Path, *options: str) -> list[str]:
    """The start of a command that runs a class beside RocketMQ's; what RocketMQ writes goes to `home`."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    class_path = f"{BUILD / version / 'classes'}:{BUILD / version / 'lib'}/*"
    tuning = os.environ.get("INTEROP_JAVA_OPTIONS", _QUICK_START).split()
    return [str(java), *_JAVA_OPTIONS, *options, *tuning, f"-Duser.home={home}", "-cp", class_path]


def prepared_versions() -> list[str]:
    """The versions whose jars and driver `make interop` has made ready."""
    return [version for version in ROCKETMQ_VERSIONS if (BUILD / version / "classes").is_dir()]


class Refused(Exception):
    """The store could not do what it was asked; the text is its own."""


class StoreProcess(abc.ABC):
    """A process that keeps one store at a time and answers requests about it."""

    name = ""
    has_boundaries = True

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    @abc.abstractmethod
    def open(self, path: Path, **settings: Any) -> dict[str, int]:
        """Open the store in `path`; settings are those of StoreConfig. Answers the range of the log."""

    @abc.abstractmethod
    def _command(self) -> list[str]: ...

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _start(self) -> "subprocess.Popen[str]":
        BUILD.mkdir(parents=True, exist_ok=True)
        with (BUILD / f"{self.name.replace(' ', '-')}.log").open("a") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment(),
                encoding="utf-8",
            )

    def ask(self, operation: str, **fields: Any) -> Any:
        """The answer to one request. Raises Refused with what the store said."""
        if self._process is None:
            self._process = self._start()
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(json.dumps({"op": operation, **fields}) + "\n")
        requests.flush()
        line = answers.readline()
        if not line:
            raise Refused(f"{self.name} has died; see {BUILD}")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(f"{self.name}: {answer['error']}")
        return answer["answer"]

    def state(self) -> dict[str, Any]:
        """Topics, groups, consumer offsets and delay offsets: each file's own table, by name."""
        answer: dict[str, Any] = self.ask("state")
        return answer

    def close(self) -> None:
        """Close the store cleanly."""
        self.ask("close")

    def kill(self) -> None:
        """Kill the process with the store open: SIGKILL, as by the OOM killer."""
        if self._process is not None:
            self._process.kill()
            self.end()

    def end(self) -> None:
        """End the process. The store should be closed."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def put(self, messages: list[dict[str, Any]], at_once: int = 500) -> list[dict[str, Any]]:
        """Put messages (messages.py); what became of each."""
        results: list[dict[str, Any]] = []
        for at in range(0, len(messages), at_once):
            results += self.ask("put", messages=messages[at : at + at_once])
        return results

    def __repr__(self) -> str:
        return self.name


class Mqstore(StoreProcess):
    """mqstore in a Python process of its own."""

    name = "mqstore"

    def open(self, path: Path, **settings: Any) -> dict[str, int]:
        answer: dict[str, int] = self.ask("open", path=str(path), settings=settings)
        return answer

    def _command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "support.interop.mqstore"]

    def _environment(self) -> dict[str, str]:
        path = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return os.environ | {"PYTHONPATH": os.pathsep.join(path)}


class RocketMq(StoreProcess):
    """Apache RocketMQ's store of one version, in a JVM."""

    def __init__(self, version: str) -> None:
        super().__init__()
        self.version = version
        self.name = f"RocketMQ {version}"
        # Whether an offset by time takes a boundary; before, it was the nearest by times of files.
        self.has_boundaries = not version.startswith("4.")

    @property
    def has_long_topics(self) -> bool:
        """Whether it knows V2 records: topics of more than 127 bytes."""
        return not self.version.startswith("4.")

    @property
    def closes_properties(self) -> bool:
        """Whether it writes the separator behind the last property, and knows the record CRC."""
        return self.version.split(".") >= ["5", "2"]

    @property
    def forgets_deliver_times(self) -> bool:
        """Whether its recovery gives a waiting message the hash of its tag in place of its deliver time.

        It reads the delay levels only afterwards. What comes back so is delivered at once.
        """
        return self.version.startswith("4.")

    def open(self, path: Path, **settings: Any) -> dict[str, int]:
        store = _ROCKETMQ_STORE | rocketmq_settings(settings)
        answer: dict[str, int] = self.ask("open", path=str(path), store=store, broker=_ROCKETMQ_BROKER)
        return answer

    def state(self) -> dict[str, Any]:
        state = self.ask("state")
        tables = {name: state[name][table] for name, table in _STATE_TABLES.items()}
        delay_offsets = {level: offset for level, offset in tables["delayOffset"].items() if offset}
        return tables | {"delayOffset": delay_offsets}

    def _command(self) -> list[str]:
        return [*java_command(self.version, BUILD / self.version, "-Xmx1g"), "interop.Driver"]


# Settings that RocketMQ does not have, or has elsewhere (the store host is the message's).
_OURS_ALONE = frozenset({"key_index", "read_only", "start", "store_host"})


def rocketmq_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of StoreConfig under RocketMQ's names, without those that only mqstore has."""
    return {_camel_case(name): value for name, value in settings.items() if name not in _OURS_ALONE}


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join("CRC" if word == "crc" else word.capitalize() for word in others)
