"""Offset message ids: text to host and offset and back; what is no id is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqstore.store.record.host import Host
from mqstore.store.record.message_id import decode_message_id, encode_message_id


@given(
    st.builds(
        Host,
        st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
        st.integers(0, 65_535),
    ),
    st.integers(0, 2**63 - 1),
)
def test_an_id_names_its_host_and_offset(host: Host, physical_offset: int) -> None:
    """32 digits for IPv4 and 56 for IPv6, upper case."""
    message_id = encode_message_id(host.encode(), physical_offset)
    assert len(message_id) == (56 if host.is_ipv6 else 32)
    assert message_id == message_id.upper()
    assert decode_message_id(message_id) == (host, physical_offset)


def test_a_negative_offset_is_written_as_java_writes_it() -> None:
    """A damaged record may have one, and is shown all the same."""
    assert (
        encode_message_id(Host.parse("192.168.1.10:10911").encode(), -2) == "C0A8010A00002A9FFFFFFFFFFFFFFFFE"
    )


@pytest.mark.parametrize("text", ["", "C0A8", "C0A8010A00002A9F000000000000040", "G" * 32, "0" * 34])
def test_what_is_no_id_is_refused(text: str) -> None:
    """Of another length, or not of hex digits."""
    with pytest.raises(ValueError, match=r".+"):
        decode_message_id(text)
