"""What is shipped: every folder of the package, its type marker, and one version number.

Goal: a folder that works from the checkout also works from a wheel. Method: pyproject.toml compared with the
folders on disk and with the installed package.
"""

import importlib.metadata
import importlib.resources
import re
import tomllib

from support.sources import ROOT, package_sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_every_folder_is_shipped() -> None:
    """`packages` in pyproject.toml lists each folder that holds a module, and no other."""
    with_modules = {source.module if source.path.endswith("__init__.py") else source.module.rpartition(".")[0]
                    for source in package_sources()}  # fmt: skip
    assert with_modules == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_module_at_the_top_is_shipped() -> None:
    """`py-modules` lists the modules that lie beside pyproject.toml, and no other; setup.py is none."""
    modules = [path.stem for path in ROOT.glob("*.py") if path.name != "setup.py"]
    assert modules == PROJECT["tool"]["setuptools"]["py-modules"]


def test_every_folder_is_a_package() -> None:
    """Each has an __init__.py: a folder without one would be importable from the checkout only."""
    folders = {source.path.rpartition("/")[0] for source in package_sources()}
    assert not [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").exists()]


def test_type_checkers_may_read_the_annotations() -> None:
    """py.typed lies in the package and is named in pyproject.toml, or it would not be in the wheel."""
    assert importlib.resources.files("mqstore").joinpath("py.typed").is_file()
    assert PROJECT["tool"]["setuptools"]["package-data"]["mqstore"] == ["py.typed"]


def test_a_page_lists_all_extras() -> None:
    """docs/index.md says of each extra of pyproject.toml what it is for, and of no other."""
    _, _, section = (ROOT / "docs" / "index.md").read_text("utf-8").partition("## Extras\n")
    first_cells = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    listed = [name for cell in first_cells for name in re.findall(r"`([a-z]+)`", cell)]
    assert sorted(listed) == sorted(PROJECT["project"]["optional-dependencies"])


def test_the_version_is_written_once() -> None:
    """The installed version is that of pyproject.toml, and the changelog has a heading for it."""
    version = PROJECT["project"]["version"]
    assert importlib.metadata.version("mqstore") == version, "install again: pip install -e ."
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[?{re.escape(version)}\b", changelog, re.MULTILINE), (
        f"CHANGELOG.md lacks {version}"
    )


def test_the_command_is_installed() -> None:
    """A plain install brings the command `mqstore`, and what it is made with."""
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name="mqstore")
    assert entry.value == "mqstore.tools.cli.app:main"
    assert callable(entry.load())
