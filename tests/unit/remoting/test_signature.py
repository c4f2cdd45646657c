"""The signature of a request: RocketMQ's, value by value."""

import base64
import hashlib
import hmac

import pytest

from mqstore.remoting.signature import Credentials, signature_of


def test_it_is_rocketmqs() -> None:
    """Values in the order of their names, nothing between them, then the body (AclUtils)."""
    fields = {"topic": "orders", "queueId": "3", "AccessKey": "web", "a": "ü"}
    content = "web" + "ü" + "3" + "orders"
    wanted = hmac.new(b"secret", content.encode() + b"body", hashlib.sha1).digest()
    assert signature_of(fields, b"body", "secret") == base64.b64encode(wanted).decode()


def test_signing_does_not_change_what_is_signed() -> None:
    fields = {"topic": "orders"}
    signed = Credentials("web", "secret").signed(fields, memoryview(b"body"))
    assert fields == {"topic": "orders"}
    assert set(signed) == {"topic", "AccessKey", "Signature"}
    assert signature_of(signed, b"body", "secret") == signed["Signature"]


@pytest.mark.parametrize("body", [b"", b"other"])
def test_the_body_is_signed(body: bytes) -> None:
    assert signature_of({}, body, "secret") != signature_of({}, b"body", "secret")


def test_credentials_do_not_show_their_secret() -> None:
    assert "s3cret" not in repr(Credentials("web", "s3cret"))
