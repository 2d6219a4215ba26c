"""Makes the certificate of a run (tls.py). Only a coordinator on a cluster imports this module, because the library takes 0.1 s to load."""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from engine.resident.tls import RunCertificate

VALID_FOR = timedelta(days=3650)
"""No connection can be made after that. A service may run for years, and the key is never stored."""

CLOCKS_APART_MAX = timedelta(days=1)
"""How far the clocks of two hosts may be apart. The certificate is valid from so long before it was made."""

COMMON_NAME_CHARACTERS_MAX = 64
"""X.509 allows no more. Nobody compares the name; it shows users whose certificate they see."""


def make_certificate(pipeline: str, now: datetime) -> RunCertificate:
    """A new one. `now` has a time zone."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"stepwell {pipeline}"[:COMMON_NAME_CHARACTERS_MAX])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_APART_MAX)
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return RunCertificate(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )
