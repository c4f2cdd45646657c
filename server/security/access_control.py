"""Access control: only who can sign with a known key is served.

Keys are RocketMQ's: its clients sign each request with an access key and its secret (remoting/signature.py).
A key that is known may do everything; there are no permissions by topic.

    # keys.toml: access key = "secret key"
    web = "correct horse battery staple"

The secret never crosses the line. A request that is overheard can be sent again by whoever overheard it: on a
network with others, use TLS as well.
Threads: any; a value. Source: docs/spec/remoting.md section 15; PlainPermissionManager of Apache RocketMQ.
"""

import hmac
from collections.abc import Mapping
from typing import Any, Final

from mqstore.remoting.command import Command
from mqstore.remoting.signature import ACCESS_KEY, SIGNATURE, signature_of
from mqstore.store.errors import ConfigIllegal, NoPermission, StoreError

__all__ = ["AccessControl", "AccessRefused", "checked_keys"]

# For keys that are not known: their signature is compared, too, so that no time tells them.
_NO_SECRET: Final = "no secret"


class AccessRefused(StoreError):
    """A request is not signed, or not with the secret of its key."""

    response_code = NoPermission.response_code

    def __init__(self, reason: str, access_key: str | None) -> None:
        super().__init__(reason)
        self.access_key = access_key


class AccessControl:
    """Checks requests. keys: secret by access key; without any nothing is checked."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)

    def check(self, command: Command) -> None:
        """Raises AccessRefused, FieldsIllegal."""
        if not self._keys:
            return
        fields = command.fields_as_texts()
        access_key, signature = fields.get(ACCESS_KEY), fields.get(SIGNATURE)
        if not access_key or not signature:
            raise AccessRefused("the request is not signed: give the client an access key", None)
        secret = self._keys.get(access_key)
        wanted = signature_of(fields, command.body, secret or _NO_SECRET)
        is_right = hmac.compare_digest(wanted.encode(), signature.encode())
        if secret is None or not is_right:
            raise AccessRefused(
                f"access key {access_key!r} is not known, or the request is not signed with its secret",
                access_key,
            )

    def __repr__(self) -> str:
        return f"AccessControl({len(self._keys)} keys)"


def checked_keys(given: Mapping[str, Any], file: str) -> dict[str, str]:
    """The keys that stand in a file, by its name in errors. Raises ConfigIllegal."""
    for name, secret in given.items():
        if not name or not isinstance(secret, str) or not secret:
            raise ConfigIllegal(
                f'{file}: access key {name!r} needs a secret, a text that is not empty: {name} = "..."',
                key=name,
            )
    if not given:
        raise ConfigIllegal(f'{file} has no access key: add a line key = "secret"')
    return dict(given)
