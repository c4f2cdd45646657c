"""Which machine code is taken: what fits the sources and the processor, and nothing else.

Method: manifests written here, and plain modules in place of extension modules. That the real ones compute
what numba's do is asked of an installed wheel: .ci/wheel runs the tests of the store on one.
"""

import logging
import platform
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from mqstore.store.loops import machine_code
from mqstore.store.loops.machine_code import (
    MANIFEST_NAME,
    MachineCode,
    Manifest,
    NotFound,
    Variant,
    digest_of,
    find,
    symbol_of,
)

PACKAGE = machine_code.__name__.rpartition(".")[0]
WIDE = frozenset(["avx2", "avx512f"])


def loop(count: int) -> int:
    return count


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of a user's."""
    monkeypatch.delenv("MQSTORE_LOOPS", raising=False)
    monkeypatch.delenv("NUMBA_BOUNDSCHECK", raising=False)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one source, with machine code for two kinds of processors of this machine."""
    source = tmp_path / "kernels.py"
    source.write_text("LIMIT = 3\n")
    variants = []
    for name, features in (("wide", WIDE), ("plain", frozenset[str]())):
        module = ModuleType(f"{PACKAGE}.{name}")
        setattr(module, symbol_of(loop), lambda count: 2 * count)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        (tmp_path / f"{name}.so").write_bytes(bytes(64))
        variants.append(Variant(name, f"{name}.so", 64, platform.machine(), tuple(features)))
    manifest = Manifest("numba 1.2.3", {"kernels.py": digest_of(source)}, tuple(variants))
    (tmp_path / MANIFEST_NAME).write_bytes(msgspec.json.encode(manifest))
    return tmp_path


@pytest.mark.parametrize(
    ("features", "name"), [(WIDE, "wide"), (WIDE | {"sse2"}, "wide"), ({"avx2"}, "plain")]
)
def test_the_best_that_the_processor_can_run(package: Path, features: frozenset[str], name: str) -> None:
    """The first of the manifest whose features are all there."""
    found = find(package, package, frozenset(features))
    assert isinstance(found, MachineCode)
    assert (found.name, found.compiler) == (name, "numba 1.2.3")


def test_nothing_was_built(tmp_path: Path) -> None:
    """A checkout, or a pure wheel."""
    assert find(tmp_path, tmp_path, WIDE) == NotFound(
        "this mqstore was installed without machine code for its loops"
    )


def test_an_old_binary_beside_an_edited_source_is_refused(
    package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And a warning names the source."""
    (package / "kernels.py").write_text("LIMIT = 4\n")
    with caplog.at_level(logging.WARNING):
        assert isinstance(find(package, package, WIDE), NotFound)
    assert "was built before kernels.py changed" in caplog.text


def test_a_package_of_bytecode_alone_has_its_machine_code(package: Path) -> None:
    """A source that is not there has not been edited."""
    (package / "kernels.py").unlink()
    assert isinstance(find(package, package, WIDE), MachineCode)


@pytest.mark.parametrize("damage", ["missing", "cut", "not loadable"])
def test_the_next_one_is_taken_if_the_best_cannot_be_loaded(
    package: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is cut is not even tried: loading it would end the process."""
    if damage == "missing":
        (package / "wide.so").unlink()
    elif damage == "cut":
        (package / "wide.so").write_bytes(bytes(9))
    else:
        monkeypatch.delitem(sys.modules, f"{PACKAGE}.wide")
    found = find(package, package, WIDE)
    assert isinstance(found, MachineCode)
    assert found.name == "plain"


def test_a_damaged_manifest_is_a_warning(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And numba compiles."""
    (package / MANIFEST_NAME).write_bytes((package / MANIFEST_NAME).read_bytes()[:40])
    with caplog.at_level(logging.WARNING):
        assert isinstance(find(package, package, WIDE), NotFound)
    assert f"{MANIFEST_NAME} cannot be read" in caplog.text


def test_files_that_all_cannot_be_loaded_are_named(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each with its reason."""
    for file in package.glob("*.so"):
        file.unlink()
    with caplog.at_level(logging.WARNING):
        assert isinstance(find(package, package, WIDE), NotFound)
    assert "wide cannot be loaded" in caplog.text
    assert "plain cannot be loaded" in caplog.text


@pytest.mark.parametrize("setting", [("MQSTORE_LOOPS", "compile"), ("NUMBA_BOUNDSCHECK", "1")])
def test_a_user_can_have_numba_compile(
    package: Path, monkeypatch: pytest.MonkeyPatch, setting: tuple[str, str]
) -> None:
    """By our own switch, or by numba's that checks bounds, which machine code does not."""
    monkeypatch.setenv(*setting)
    (package / MANIFEST_NAME).write_bytes(b"{")
    assert find(package, package, WIDE) == NotFound(
        f"the environment variable {setting[0]} has numba compile the loops"
    )


def test_another_machine_gets_none(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a directory of packages is carried to a machine of another kind."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert find(package, package, WIDE) == NotFound("there is no machine code for this processor (riscv64)")


def test_only_loops_that_python_calls_are_in_it(package: Path) -> None:
    """The others are parts of those, and stay what they are."""
    found = find(package, package, WIDE)
    assert isinstance(found, MachineCode)
    assert found.loop_of(loop, ("int64",), holds_gil=False)(4) == 8
    assert found.loop_of(loop, ()) is loop
    assert not found.compiles_with("pclmul")


def test_the_processor_has_features() -> None:
    """On Linux, where they can be asked for."""
    assert machine_code.features_of_processor()
