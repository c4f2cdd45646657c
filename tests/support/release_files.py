"""Writes the pages of sizes and of licences from what pip installs: `make release-files`.

Each row is an installation of its own: the wheel of this checkout, with one extra or none, in an empty
directory (`pip install --target`). A size is the sum of the files' lengths, without compiled bytecode. A
licence is what the metadata of a distribution says: its expression, else its classifiers, else the first line
of its licence field.
"""

import argparse
import importlib.metadata
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = ("", "jit", "arrow", "prometheus", "opentelemetry", "ui", "spark", "java", "demo")
SIZES = ROOT / "docs" / "figures" / "installation.json"

SIZES_HEAD = """# Sizes of the installation

Each row is an installation of its own, with all that it needs, without bytecode. The extra `java` has a Java;
the others do not count one.
"""
LICENCES_HEAD = """# Licences of what is installed

mqstore is under Apache-2.0. This is what the metadata of each package says that pip installs with it.
"""


def install(wheel: Path, extra: str, target: Path) -> None:
    """The wheel with an extra, and what they need, without bytecode."""
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", target, wanted],
        check=True,
    )


def licence_of(found: importlib.metadata.Distribution) -> str:
    """What the metadata says."""
    about = found.metadata
    if expression := about.get("License-Expression"):
        return str(expression)
    classifiers = [text for text in about.get_all("Classifier") or () if text.startswith("License :: ")]
    named = [text.rpartition(" :: ")[2] for text in classifiers if text.count(" :: ") > 1]
    field = str(about.get("License") or "").strip().partition("\n")[0]
    return ", ".join(named) or field or "not said"


def measured(wheel: Path, extra: str) -> dict[str, object]:
    """Size and distributions of one installation."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory)
        install(wheel, extra, target)
        files = [path for path in target.rglob("*") if path.is_file() and not path.is_symlink()]
        found = sorted(importlib.metadata.distributions(path=[directory]), key=lambda one: one.name.lower())
        return {
            "extra": extra,
            "size_bytes": sum(path.stat().st_size for path in files),
            "distributions": {one.name: [one.version, licence_of(one)] for one in found},
        }


def pages(figures: dict[str, object]) -> dict[str, str]:
    """The two pages, by name."""
    runs = figures["installations"]
    assert isinstance(runs, list)
    sizes = ["| install | MB | distributions |", "| --- | ---: | ---: |"]
    licences: dict[str, tuple[str, str, list[str]]] = {}
    for run in runs:
        name = f"mqstore[{run['extra']}]" if run["extra"] else "mqstore"
        sizes.append(f"| `{name}` | {run['size_bytes'] / 1e6:.1f} | {len(run['distributions'])} |")
        for distribution, (version, licence) in run["distributions"].items():
            licences.setdefault(distribution, (version, licence, []))[2].append(run["extra"] or "mqstore")
    rows = ["| package | version | licence | comes with |", "| --- | --- | --- | --- |"]
    for name, (version, licence, extras) in sorted(licences.items(), key=lambda row: row[0].lower()):
        where = "mqstore" if "mqstore" in extras else ", ".join(f"`{extra}`" for extra in extras)
        rows.append(f"| {name} | {version} | {licence} | {where} |")
    about = (
        f"Written by `make release-files`: {figures['machine']}, `{figures['wheel']}` of"
        f" {figures['wheel_bytes']:,} bytes. A wheel `none-any` has no machine code: it brings numba instead."
    )
    return {
        "installation_sizes": f"{SIZES_HEAD}\n" + "\n".join([*sizes, "", about, ""]),
        "licences": f"{LICENCES_HEAD}\n" + "\n".join([*rows, "", about, ""]),
    }


def main() -> None:
    """Measure, keep the figures, write the pages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel.resolve()
    figures: dict[str, object] = {
        "machine": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        "wheel": wheel.name,
        "wheel_bytes": wheel.stat().st_size,
        "installations": [measured(wheel, extra) for extra in EXTRAS],
    }
    SIZES.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    for name, text in pages(figures).items():
        (ROOT / "docs" / f"{name}.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
