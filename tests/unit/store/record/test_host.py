"""Hosts: the bytes on disk and the text, back and forth, for both widths of address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.record.host import Host

HOSTS = st.builds(
    Host,
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 65_535),
)


@given(HOSTS)
def test_a_host_survives_its_bytes_and_its_text(host: Host) -> None:
    """Decoding what was encoded, and parsing what was printed, give the same host."""
    assert Host.decode(host.encode()) == host
    assert Host.parse(str(host)) == host
    assert host.is_ipv6 == (len(host.encode()) == 20)


def test_bytes_are_the_address_and_a_port_of_four_bytes() -> None:
    """Sample A's born host."""
    assert Host.parse("10.0.0.1:54321").encode().hex(" ") == "0a 00 00 01 00 00 d4 31"
    assert repr(Host.parse("[2001:db8::1]:1")) == "Host('[2001:db8::1]:1')"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.2.3.4",
        "1.2.3:80",
        "example.org:80",
        "1.2.3.4:",
        "1.2.3.4:http",
        "1.2.3.4:-1",
        "1.2.3.4:65536",
        "1.2.3.4:8_0",
        "1.2.3.4: 80",
        "[1.2.3.4]:80",
        "2001:db8::1:80",
        "[fe80::1%eth0]:80",
        "[2001:db8::1:80",
    ],
)
def test_what_is_no_address_and_port_is_refused(text: str) -> None:
    """Names are not resolved, and nothing is guessed."""
    with pytest.raises(ValueError, match=r".+"):
        Host.parse(text)
