"""The signature of a request, by which a broker knows who sends it: an access key, and proof of its secret.

    Signature = Base64(HMAC-SHA1(secret key, values of all other fields in the order of their names + body))

Names are not signed, nor what is between the values. Whoever can read the connection can send the same again:
the secret stays safe, the messages do not.
Pure; any thread. Source: docs/spec/remoting.md section 15; AclClientRPCHook, AclUtils of Apache RocketMQ.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["ACCESS_KEY", "SIGNATURE", "Credentials", "signature_of"]

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"


class Credentials(NamedTuple):
    """Who sends, and the secret that proves it."""

    access_key: str
    secret_key: str

    def signed(self, fields: Mapping[str, str], body: bytes | memoryview) -> dict[str, str]:
        """The fields with access key and signature.

        >>> Credentials("reader", "secret").signed({"topic": "orders"}, b"")["Signature"]
        'll1C9jx+k01sPE176VsVtOQxq1s='
        """
        signed = {**fields, ACCESS_KEY: self.access_key}
        return {**signed, SIGNATURE: signature_of(signed, body, self.secret_key)}

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, <secret>)"


def signature_of(fields: Mapping[str, str], body: bytes | memoryview, secret_key: str) -> str:
    """The signature of a request; a field `Signature` does not count."""
    digest = hmac.new(secret_key.encode(), digestmod=hashlib.sha1)
    for name in sorted(fields):
        if name != SIGNATURE:
            digest.update(fields[name].encode())
    digest.update(body)
    return base64.b64encode(digest.digest()).decode()
