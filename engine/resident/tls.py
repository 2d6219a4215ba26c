"""The certificate of a run, and the TLS contexts of its connections.

Each run makes one key and one certificate that signs itself (certificates.py). The coordinator hands both out with Spark's closure, so only
processes of the run have them. Both ends of a connection show the certificate, and accept no other (mutual TLS 1.3). Names and addresses of
hosts mean nothing here, so they are not compared.

Guarantee: without the key of the run nobody can open a connection to a process of the run, pretend to be one, or read what is sent.
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunCertificate:
    """The certificate of a run and its key. Both are texts in PEM form. The key is left out of `repr`, so that no log has it."""

    certificate: str
    key: str = field(repr=False)

    def context(self, *, is_server: bool) -> ssl.SSLContext:
        """For one side of connections whose both ends have this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.certificate)
        # The library reads a key from a file only. This one has no other reader, and is gone at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(self.key + self.certificate)
            file.flush()
            context.load_cert_chain(file.name)
        return context
