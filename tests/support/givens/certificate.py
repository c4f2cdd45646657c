"""server.pem: a certificate and its key."""

import trustme

certificate = trustme.CA().issue_cert("192.0.2.7")
for number, part in enumerate((certificate.private_key_pem, *certificate.cert_chain_pems)):
    part.write_to_path("server.pem", append=number > 0)
