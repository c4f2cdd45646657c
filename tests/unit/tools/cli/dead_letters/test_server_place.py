"""mqstore dlq at a server that wants access keys and TLS, as typed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqstore.server import ServerSettings, running
from mqstore.server.security.tls import server_tls
from support.command_line import json_lines, run
from support.server.certificates import Certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    (tmp_path / "certificates").mkdir()
    return Certificates(tmp_path / "certificates")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Two keys, of which the server knows the first."""
    file = tmp_path / "keys.toml"
    file.write_text('web = "secret"\nother = "another"\n')
    return file


@pytest.fixture
def address(dead: Path, certificates: Certificates) -> Iterator[str]:
    """Where the dead letters are served to those who sign, and have a certificate."""
    tls = server_tls(certificates.server, None, certificates.ca)
    settings = ServerSettings(address="127.0.0.1:0", access_keys={"web": "secret"}, tls=tls)
    with running(dead, settings=settings) as server:
        yield server.address


def test_who_has_a_key_and_a_certificate_is_served(
    address: str, keys: Path, certificates: Certificates
) -> None:
    place = ("--server", address, "--access-keys", keys)
    place = (*place, "--tls-ca", certificates.ca, "--tls-cert", certificates.client)
    assert len(json_lines(run("dlq", "list", *place, "--json"))) == 2
    assert len(json_lines(run("dlq", "show", *place, "billing", 1, "--json"))) == 1
    assert run("dlq", "export", *place, "billing").stdout.count("\n") == 2
    (row,) = json_lines(run("dlq", "resend", *place, "billing", 1, "--apply", "--json"))
    assert row["isApplied"]


def test_who_lacks_one_of_them_is_told(
    address: str, keys: Path, certificates: Certificates, tmp_path: Path
) -> None:
    """In one line, which says what was wrong where the server says it."""
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('web = "guessed"\n')
    tls = ("--tls-ca", certificates.ca, "--tls-cert", certificates.client)
    for others, said in (
        (("--access-keys", keys), ""),
        (("--access-keys", keys, "--tls"), "certificate verify failed"),
        (("--access-keys", keys, "--tls-ca", certificates.ca), ""),
        (tls, "not signed"),
        (("--access-keys", wrong, *tls), "secret"),
    ):
        result = run("dlq", "list", "--server", address, *others, "billing")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1), others
        assert said in result.stderr


@pytest.mark.parametrize("option", ["--access-keys", "--tls-ca", "--tls-cert"])
def test_files_that_are_not_what_they_should_be(option: str, tmp_path: Path) -> None:
    """Are named, before anybody is asked."""
    file = tmp_path / "nothing"
    missing = run("dlq", "list", "--server", "127.0.0.1:1", option, file, "billing")
    assert (missing.exit_code, missing.stderr.count("\n"), str(file) in missing.stderr) == (2, 1, True)
    file.write_text("nothing")
    damaged = run("dlq", "list", "--server", "127.0.0.1:1", option, file, "billing")
    assert (damaged.exit_code, damaged.stderr.count("\n"), str(file) in damaged.stderr) == (2, 1, True)


def test_without_a_server_they_are_refused(dead: Path) -> None:
    result = run("dlq", "list", dead, "billing", "--tls")
    assert (result.exit_code, "--server" in result.stderr) == (2, True)
