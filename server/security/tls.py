"""TLS of the server's port: certificates from PEM files, for all connections.

A server with TLS speaks nothing else: a client without it is closed at its first byte. With a CA for clients,
only those with a certificate of that CA are let in.
Source: docs/spec/remoting.md section 14; TlsHelper of Apache RocketMQ.
"""

import ssl
from pathlib import Path

from mqstore.store.errors import ConfigIllegal

__all__ = ["server_tls"]


def server_tls(certificate: Path, key: Path | None, client_ca: Path | None) -> ssl.SSLContext:
    """The context of a server; `key` may lie in the file of the certificate.

    Raises OSError, ConfigIllegal for files that are no certificate, or no key of it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:
        files = ", ".join(str(path) for path in (certificate, key, client_ca) if path is not None)
        if not isinstance(error, ssl.SSLError):
            # It does not say which of them.
            raise OSError(error.errno, error.strerror, files) from error
        raise ConfigIllegal(
            f"TLS cannot be set up with {files}: {error.reason or error}: give PEM files, with a key that is "
            "the certificate's and has no password"
        ) from error
    return context
