"""How loops are compiled: with checked bounds on request, and wherever the package is installed.

Bounds: one interpreter with NUMBA_BOUNDSCHECK=1 calls loops with positions that no caller gives. Each must
raise IndexError; without checks they would read or write somewhere else.

Places: a copy of the package that cannot be written is imported by an interpreter without a home, which
compiles one small loop and reports where it is kept. Root may write everywhere, so root's interpreters have
their capabilities taken away.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.sources import LAYERS, ROOT

CHECKED = """
import os
import numba
import numpy as np
from mqstore.store import byte_kernels, compiled
from mqstore.store.checksum import crc32_kernels
from mqstore.store.files.timed_sync import TimedSync
from mqstore.store.record import record_kernels

assert TimedSync().sync(os.open("file", os.O_RDWR | os.O_CREAT), 60)
copy_bytes = compiled.compiled(lambda *given: byte_kernels.copy_bytes(*given))
load_word = compiled.compiled(lambda *given: byte_kernels.load_word(*given))
data = np.zeros(100, np.uint8)
assert compiled.CHECKS_BOUNDS
assert byte_kernels.read_int(data, 96) == load_word(data, 92) == 0
copy_bytes(data, 90, data, 0, 10)
crc32_kernels.crc32(data, 0, 100)
for call in (
    lambda: byte_kernels.read_int(data, 97),
    lambda: load_word(data, 93),
    lambda: load_word(data, -1),
    lambda: load_word(data, 1 << 40),
    lambda: copy_bytes(data, 91, data, 0, 10),
    lambda: copy_bytes(data, 0, data, 91, 10),
    lambda: copy_bytes(data, 0, data, 20, -10),
    lambda: copy_bytes(data, 0, data, 20, 1 << 40),
    lambda: crc32_kernels.crc32(data, 0, 101),
    lambda: crc32_kernels.crc32(data, -1, 64),
):
    try:
        call()
    except IndexError:
        print("refused")
"""


@pytest.mark.slow
def test_with_checked_bounds_nothing_outside_is_touched(tmp_path: Path) -> None:
    """An index, a word, a copy and a CRC that leave the array raise IndexError."""
    run = subprocess.run(
        [sys.executable, "-c", CHECKED],
        cwd=tmp_path,
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.split() == ["refused"] * 10


ONE_LOOP = """
import json, logging, os, sys, tempfile

if os.environ.get("NO_TEMPORARY_DIRECTORY"):
    tempfile.tempdir = "/proc"
said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("mqstore").addHandler(handler)

import numpy as np
from mqstore.store import byte_kernels

exec(os.environ.get("THEN", ""))
value = byte_kernels.read_int(np.arange(8, dtype=np.uint8), 0)
stats = byte_kernels.read_int.stats
json.dump(
    {
        "source": byte_kernels.__file__,
        "value": value,
        "place": stats.cache_path,
        "loaded": sum(stats.cache_hits.values()),
        "said": said,
    },
    sys.stdout,
)
"""


def run_loop(package: Path, folder: Path, **environment: str) -> dict[str, Any]:
    """What an interpreter reports that imports mqstore from `package`, with a home that cannot be written."""
    home = folder / "home"
    if not home.exists():
        home.mkdir()
        home.chmod(0o555)
    command = [sys.executable, "-c", ONE_LOOP]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv") or pytest.skip(
            "root needs setpriv (util-linux) to do without its rights"
        )
        command = [setpriv, "--bounding-set=-all", "--inh-caps=-all", *command]
    run = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "HOME": str(home)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    report: dict[str, Any] = json.loads(run.stdout)
    assert report["value"] == 0x00010203
    assert report["source"].startswith(str(package))
    return report


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a copy of the package, in which nothing can be written; without compiled loops."""
    folder = tmp_path_factory.mktemp("site")
    for layer in LAYERS:
        target = folder / "mqstore" if layer == "mqstore" else folder / "mqstore" / layer
        shutil.copytree(ROOT / layer, target, ignore=shutil.ignore_patterns("*.nb?"), dirs_exist_ok=True)
    directories = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in directories:
        path.chmod(0o555)
    yield folder
    for path in directories:
        path.chmod(0o755)


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    path = tmp_path / "temporary"
    path.mkdir()
    path.chmod(0o1777)
    return path


@pytest.mark.slow
def test_a_read_only_installation_keeps_loops_in_the_temporary_directory(
    installed: Path, tmp_path: Path, temporary: Path
) -> None:
    """The first process compiles, the second loads. Others can read nothing there."""
    first = run_loop(installed, tmp_path, TMPDIR=str(temporary))
    second = run_loop(installed, tmp_path, TMPDIR=str(temporary))
    ours = temporary / f"mqstore-{os.geteuid()}"
    assert Path(first["place"]).is_relative_to(ours)
    assert second["place"] == first["place"]
    assert (first["loaded"], second["loaded"]) == (0, 1)
    assert first["said"] == second["said"] == []
    assert ours.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_where_nothing_can_be_written_loops_are_compiled_and_it_is_said_once(
    installed: Path, tmp_path: Path
) -> None:
    """The warning names the way out, however many loops there are."""
    report = run_loop(installed, tmp_path, NO_TEMPORARY_DIRECTORY="1")
    (said,) = report["said"]
    assert "NUMBA_CACHE_DIR" in said
    assert report["place"] is None


@pytest.mark.slow
def test_the_users_folder_comes_first(installed: Path, tmp_path: Path, temporary: Path) -> None:
    """NUMBA_CACHE_DIR is used as numba uses it."""
    chosen = tmp_path / "chosen"
    report = run_loop(installed, tmp_path, TMPDIR=str(temporary), NUMBA_CACHE_DIR=str(chosen))
    assert Path(report["place"]).is_relative_to(chosen)
    assert not list(temporary.iterdir())


@pytest.mark.slow
def test_a_users_folder_that_cannot_be_written_is_passed_over(
    installed: Path, tmp_path: Path, temporary: Path
) -> None:
    """The next place is taken."""
    report = run_loop(installed, tmp_path, TMPDIR=str(temporary), NUMBA_CACHE_DIR="/proc/none")
    assert Path(report["place"]).is_relative_to(temporary)


@pytest.mark.slow
def test_a_home_that_is_not_known_is_no_folder_of_the_working_directory(
    installed: Path, tmp_path: Path, temporary: Path
) -> None:
    """A user who is not in passwd has the home `~`. Anybody may have left code in a folder of that name."""
    report = run_loop(installed, tmp_path, TMPDIR=str(temporary), XDG_CACHE_HOME="~/.cache")
    assert Path(report["place"]).is_relative_to(temporary)
    assert not (tmp_path / "~").exists()


@pytest.mark.slow
def test_a_folder_that_others_prepared_is_not_used(installed: Path, tmp_path: Path, temporary: Path) -> None:
    """A link to a folder of theirs: nothing is loaded from it, nothing is written to it."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (temporary / f"mqstore-{os.geteuid()}").symlink_to(theirs)
    report = run_loop(installed, tmp_path, TMPDIR=str(temporary))
    assert report["place"] is None
    assert [("no folder" in said) for said in report["said"]] == [True]
    assert not list(theirs.iterdir())


@pytest.mark.slow
def test_a_folder_that_others_put_there_later_is_not_used(
    installed: Path, tmp_path: Path, temporary: Path
) -> None:
    """The folder of a running process may be tidied away, and another user may make it anew."""
    run_loop(installed, tmp_path, TMPDIR=str(temporary))
    ours = temporary / f"mqstore-{os.geteuid()}"
    then = f"os.chmod({str(ours)!r}, 0o777)"
    report = run_loop(installed, tmp_path, TMPDIR=str(temporary), THEN=then)
    assert report["loaded"] == 0
    assert len(report["said"]) == 1


@pytest.mark.slow
def test_a_folder_that_is_lost_later_costs_time_only(
    installed: Path, tmp_path: Path, temporary: Path
) -> None:
    """A loop is compiled when its folder is gone and cannot be made again."""
    then = f"import shutil; shutil.rmtree({str(temporary)!r})"
    report = run_loop(installed, tmp_path, TMPDIR=str(temporary), THEN=then)
    assert report["loaded"] == 0
    assert len(report["said"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", bytes(4096)], ids=["empty", "zeros"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_file_that_a_power_cut_left_is_written_anew(
    installed: Path, tmp_path: Path, temporary: Path, kind: str, content: bytes
) -> None:
    """numba syncs nothing: its files may be empty or full of zeros. The loop is compiled and kept again."""
    first = run_loop(installed, tmp_path, TMPDIR=str(temporary))
    (file,) = Path(first["place"]).glob(f"*.{kind}")
    file.write_bytes(content)
    again = [run_loop(installed, tmp_path, TMPDIR=str(temporary)) for _ in range(2)]
    assert [report["loaded"] for report in again] == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mqstore.zip", "mqstore.whl"])
def test_a_package_in_an_archive_works(installed: Path, tmp_path: Path, temporary: Path, name: str) -> None:
    """Whatever its ending: the second process loads what the first one compiled."""
    archive = tmp_path / name
    with zipfile.ZipFile(archive, "w") as file:
        for path in installed.rglob("*.py"):
            file.write(path, path.relative_to(installed))
    first = run_loop(archive, tmp_path, TMPDIR=str(temporary))
    second = run_loop(archive, tmp_path, TMPDIR=str(temporary))
    assert Path(first["place"]).is_relative_to(temporary)
    assert (first["loaded"], second["loaded"]) == (0, 1)
    chosen = tmp_path / "chosen"
    third = run_loop(archive, tmp_path, TMPDIR=str(temporary), NUMBA_CACHE_DIR=str(chosen))
    assert Path(third["place"]).is_relative_to(chosen)
