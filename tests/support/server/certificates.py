"""Certificates for tests of TLS: a CA, and what it has signed, made anew for each run."""

import ssl
from pathlib import Path

import trustme

__all__ = ["Certificates"]


class Certificates:
    """Files in a directory. ca: the CA's certificate. server, client: certificate and key in one file."""

    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        self.ca = directory / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self.server, self.client = directory / "server.pem", directory / "client.pem"
        for file, name in ((self.server, "127.0.0.1"), (self.client, "client.example")):
            authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(file)

    def trusting(self, certificate: Path | None = None) -> ssl.SSLContext:
        """The context of a client that trusts the CA, with a certificate of its own if one is given."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context
