"""The source distribution holds what a build needs, and nothing else.

Goal: `pip install mqstore-*.tar.gz` works without the checkout. Method: an sdist is built from copies of the
files that belong to the package, beside a file and a folder that do not; its list of files is compared
with the sources.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.sources import LAYERS, ROOT, package_sources

AT_THE_TOP = {
    "CHANGELOG.md",
    "LICENSE",
    "MANIFEST.in",
    "PKG-INFO",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
    "pyspark_mqstore.py",
    "setup.cfg",
    "setup.py",
}
BUILD = "from setuptools import build_meta; build_meta.build_sdist('dist')"


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the sdist, by their paths within it."""
    checkout = tmp_path_factory.mktemp("checkout")
    for layer in LAYERS:
        shutil.copytree(ROOT / layer, checkout / layer, ignore=shutil.ignore_patterns("__pycache__"))
    for name in AT_THE_TOP - {"PKG-INFO", "setup.cfg"}:
        shutil.copy(ROOT / name, checkout)
    (checkout / "notes.txt").write_text("not for others")
    (checkout / "tests").mkdir()
    (checkout / "tests" / "test_none.py").write_text("")
    subprocess.run([sys.executable, "-c", BUILD], cwd=checkout, check=True, capture_output=True, timeout=120)
    (archive,) = Path(checkout, "dist").glob("mqstore-*.tar.gz")
    with tarfile.open(archive) as opened:
        files = [member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()]
    return {name for name in files if ".egg-info/" not in name}


@pytest.mark.slow
def test_every_source_is_in_it(members: set[str]) -> None:
    """Each module, the marker of types, and what the compiled put is built from."""
    wanted = {source.path for source in package_sources()} | {"mqstore/py.typed"}
    wanted |= {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.h", "*.pxd")
        for path in (ROOT / "store" / "direct").glob(pattern)
    }
    assert wanted - members == set()


@pytest.mark.slow
def test_nothing_else_is_in_it(members: set[str]) -> None:
    """No tests, no notes, nothing that a build left behind."""
    assert {name for name in members if "/" not in name} == AT_THE_TOP
    assert {name.partition("/")[0] for name in members if "/" in name} == set(LAYERS)
    assert {Path(name).suffix for name in members if "/" in name} <= {
        ".py",
        ".h",
        ".pxd",
        ".typed",
        ".html",
        ".css",
        ".svg",
    }
