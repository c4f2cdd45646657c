"""Which compiled put is taken: what fits the sources beside it, and nothing else.

Method: manifests written here, and a plain module in place of the extension module. That the real one puts
what the interpreted way does is asked in tests/property/test_direct_put.py.
"""

import logging
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from mqstore.store.direct import machine_code
from mqstore.store.direct.machine_code import MachineCode, find
from mqstore.store.loops.extension_module import Manifest, find_extension
from mqstore.store.loops.machine_code import digest_of


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one source, with machine code of it."""
    monkeypatch.delenv("MQSTORE_DIRECT_PUT", raising=False)
    name = f"{machine_code.__name__.rpartition('.')[0]}.put_machine_code"
    module = ModuleType(name)
    vars(module).update(checksum=hash, DirectPut=object)
    monkeypatch.setitem(sys.modules, name, module)
    source = tmp_path / "source.py"
    source.write_text("LIMIT = 3\n")
    (tmp_path / "put_machine_code.so").write_bytes(bytes(64))
    manifest = Manifest("Cython 1.2.3", "put_machine_code.so", 64, {"source.py": digest_of(source)})
    (tmp_path / "put_machine_code.json").write_bytes(msgspec.json.encode(manifest))
    return tmp_path


def test_one_that_fits_is_taken(package: Path) -> None:
    """The sources are those that it was built from."""
    found = find(package, package)
    assert isinstance(found, MachineCode)
    assert found.compiler == "Cython 1.2.3"


def test_nothing_was_built(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A checkout, or a wheel that was built without a compiler: nobody is warned."""
    assert find(tmp_path, tmp_path) is None
    assert not caplog.records


def test_a_user_may_refuse_it(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an environment variable."""
    monkeypatch.setenv("MQSTORE_DIRECT_PUT", "0")
    assert find(package, package) is None


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("source.py", b"LIMIT = 4\n", "it was built before source.py changed"),
        ("put_machine_code.so", bytes(63), "put_machine_code.so has 63 bytes instead of 64"),
        ("put_machine_code.json", b"{", "truncated"),
    ],
)
def test_one_that_does_not_fit_is_refused(
    package: Path, file: str, content: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A changed source, a file that was cut short, a manifest that cannot be read. A warning says why."""
    (package / file).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert find(package, package) is None
    assert reason in caplog.text


def test_one_that_is_gone_is_missed(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The manifest names a file that is not there."""
    (package / "put_machine_code.so").unlink()
    with caplog.at_level(logging.WARNING):
        assert find(package, package) is None
    assert "No such file" in caplog.text


def test_one_for_another_python_is_refused(
    package: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It cannot be imported."""
    monkeypatch.setitem(sys.modules, f"{machine_code.__name__.rpartition('.')[0]}.put_machine_code", None)
    with caplog.at_level(logging.WARNING):
        assert find(package, package) is None
    assert "Install mqstore again" in caplog.text


def test_each_part_has_a_module_and_a_switch_of_its_own(
    package: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who refuses puts has compiled reads all the same; the warning says which part is interpreted."""
    switch, name = "MQSTORE_DIRECT_READ", "room.read_machine_code"
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, "room", ModuleType("room"))
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delenv(switch, raising=False)
    monkeypatch.setenv("MQSTORE_DIRECT_PUT", "0")
    assert find_extension(package, package, name, switch=switch, what="reads") is None
    manifest = (package / "put_machine_code.json").read_bytes()
    (package / "read_machine_code.json").write_bytes(manifest)
    found = find_extension(package, package, name, switch=switch, what="reads")
    assert found == (module, "Cython 1.2.3")
    (package / "source.py").write_text("LIMIT = 4\n")
    with caplog.at_level(logging.WARNING):
        assert find_extension(package, package, name, switch=switch, what="reads") is None
    assert "All reads are interpreted" in caplog.text
    monkeypatch.setenv(switch, "0")
    caplog.clear()
    assert find_extension(package, package, name, switch=switch, what="reads") is None
    assert not caplog.records
