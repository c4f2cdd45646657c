"""`make wheel`: what a new user waits for: README's first program after an install, and `mqstore serve`.

usage: first_run.py PYTHON [--json FILE] [--page FILE]      PYTHON has mqstore, and has not run it yet

Each run is a process of its own with an empty directory. The first one is the first of that installation: it
writes bytecode, and loops are compiled if they were not built. Memory is the greatest resident set of the
process, size that of all distributions in site-packages. A server is asked as a client asks first
(GET_BROKER_CLUSTER_INFO) as soon as it says where it listens; its memory is the resident set then.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
from report import replace_between

from mqstore.remoting.command import encode_request
from mqstore.remoting.frame import FrameReader
from mqstore.remoting.request_codes import RequestCode

ROOT = Path(__file__).resolve().parents[1]
_MIB = 1 << 20


class Run(NamedTuple):
    """One run of the program: its time, and its greatest resident set."""

    seconds: float
    memory_mib: float


def program() -> str:
    """README's first block of Python."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found.group(1)


def run(python: Path) -> Run:
    """Run the program in an empty directory. Raises CalledProcessError if it fails."""
    with tempfile.TemporaryDirectory() as directory:
        began_s = time.perf_counter()
        process = subprocess.Popen(
            [str(python), "-P", "-c", program()], cwd=directory, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "README's first program")
    return Run(seconds, usage.ru_maxrss / 1024)


def serve(python: Path) -> Run:
    """Start a server in an empty directory, until its first answer. Raises OSError if it gives none."""
    with tempfile.TemporaryDirectory() as directory:
        command = [str(python), "-P", "-c", "from mqstore.tools.cli.app import main; main()"]
        began_s = time.perf_counter()
        with subprocess.Popen(
            [*command, "serve", "data", "--port", "0", "--json"],
            cwd=directory,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                told = json.loads(process.stdout.readline())
                host, port = told["address"].rsplit(":", 1)
                ask(host, int(port))
                seconds = time.perf_counter() - began_s
                status = Path(f"/proc/{process.pid}/status").read_text()
            finally:
                process.terminate()
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert resident is not None
    return Run(seconds, int(resident[1]) / 1024)


def ask(host: str, port: int) -> None:
    """Wait for the answer to one request. Raises OSError if there is none."""
    reader = FrameReader()
    with socket.create_connection((host, port), timeout=60) as connection:
        connection.sendall(encode_request(RequestCode.GET_BROKER_CLUSTER_INFO, 1))
        while data := connection.recv(65_536):
            if reader.feed(data):
                return
    raise OSError("the connection ended without an answer")


def installed_mib(python: Path) -> float:
    """Size of site-packages, without pip, which a virtual environment brings."""
    asked = "import sysconfig; print(sysconfig.get_path('platlib'))"
    told = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True)
    folder = Path(told.stdout.strip())
    sizes = (
        path.lstat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(("pip", "setuptools"))
    )
    return sum(sizes) / _MIB


@click.command(context_settings={"show_default": True})
@click.argument("python", type=click.Path(path_type=Path))
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the figures here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write the table into this page.")
@click.option("--runs", type=int, default=7, help="Further runs, whose median is shown.")
def main(python: Path, json_path: Path | None, page: Path | None, runs: int) -> None:
    """Measure, print, and write the figures."""
    python = python.absolute()
    size_mib = installed_mib(python)
    first = run(python)
    later = sorted(run(python) for _ in range(runs))[runs // 2]
    served = sorted(serve(python) for _ in range(runs))[runs // 2]
    figures = {
        "command": f"first_run.py, {runs} further runs",
        "python": sys.version.split()[0],
        "load": os.getloadavg()[0],
        "installed_mib": round(size_mib, 1),
        "first_run_s": round(first.seconds, 3),
        "later_run_s": round(later.seconds, 3),
        "memory_mib": round(max(first.memory_mib, later.memory_mib), 1),
        "serve_s": round(served.seconds, 3),
        "serve_mib": round(served.memory_mib, 1),
    }
    click.echo(json.dumps(figures, indent=2))
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=2) + "\n")
    if page is not None:
        replace_between(page, "first run", table(figures))


def table(figures: dict[str, object]) -> str:
    """What the page shows."""
    return (
        "| README's first program | |\n| --- | --- |\n"
        f"| first run after the installation | {figures['first_run_s']:.2f} s |\n"
        f"| later runs | {figures['later_run_s']:.2f} s |\n"
        f"| memory at most | {figures['memory_mib']:.0f} MiB |\n"
        f"| installed, with all that it needs | {figures['installed_mib']:.0f} MiB |\n"
        f"| `mqstore serve`, an empty directory: start to first answer | {figures['serve_s']:.2f} s |\n"
        f"| its memory then | {figures['serve_mib']:.0f} MiB |\n\n"
        f"`make wheel`: {figures['command']}, Python {figures['python']}, load {figures['load']:.1f}."
    )


if __name__ == "__main__":
    main()
