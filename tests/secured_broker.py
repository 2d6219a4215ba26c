"""A real broker with SASL over TLS, with TLS that asks clients for certificates, and with Kafka's own authorizer.

Its plain listener is the administrator's: whoever comes there without a name may do everything. Users of the other listeners may do what
`allow` has allowed them, and nothing else.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from io_kafka.broker.local import LocalBroker
from io_kafka.broker.node import HOST
from io_kafka.broker.ports import free_port
from io_kafka.broker.properties import Secured
from io_kafka.clients.rights import Right
from io_kafka.outside import CLIENT_LOG

USER, PASSWORD = "app", "app-secret"
CLIENT_NAME = "worker"
"""The common name of the client certificate."""
MECHANISM = "SCRAM-SHA-512"
ANSWER_SECONDS_MAX = 20.0
ITERATIONS = 4096
"""The least that Kafka allows."""


class Authority:
    """A certificate authority. Its files are PEM, which both Kafka and librdkafka read."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name, self._key = folder, name, ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        folder.mkdir(parents=True, exist_ok=True)
        builder = _builder(name, name, self._key.public_key(), days=1)
        self._certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, *, days: int = 1) -> tuple[Path, Path]:
        """(certificate, key). With `days` of -1 the certificate has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
        builder = _builder(name, self._name, key.public_key(), days=days)
        signed = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(
            self._key, hashes.SHA256()
        )
        certificate, private = (
            self._folder / f"{name}-by-{self._name}.crt",
            self._folder / f"{name}-by-{self._name}.key",
        )
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, private


def _builder(name: str, issuer: str, key: ec.EllipticCurvePublicKey, *, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass(frozen=True)
class _Ports:
    sasl: int
    mutual: int


class SecuredBroker:
    """`start` makes the user USER with PASSWORD, who may do nothing yet."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "certificates", "authority")
        self.stranger = Authority(folder / "certificates", "stranger")
        sasl = free_port(HOST)
        mutual = free_port(HOST, [sasl or 0])
        assert sasl is not None and mutual is not None
        self._ports = _Ports(sasl, mutual)
        certificate, key = self.authority.issue("broker")
        together = folder / "certificates" / "broker.pem"
        together.write_bytes(key.read_bytes() + certificate.read_bytes())
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        listeners = {"PASSWORDS": ("SASL_SSL", sasl), "CERTIFICATES": ("SSL", mutual)}
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(together),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.certificates.ssl.client.auth": "required",
            "listener.name.passwords.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.passwords.{MECHANISM.lower()}.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        self.local = LocalBroker(folder / "broker", secured=Secured(listeners, settings))

    def start(self) -> SecuredBroker:
        self.local.start(die_with_parent=True)
        self.set_password()
        return self

    def set_password(self, password: str = PASSWORD) -> None:
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
        change = UserScramCredentialUpsertion(USER, credential, password.encode())
        self.admin.alter_user_scram_credentials([change])[USER].result(ANSWER_SECONDS_MAX)

    def stop(self) -> None:
        self.local.stop()

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.local.bootstrap_servers}, logger=CLIENT_LOG)

    @property
    def plain(self) -> str:
        return self.local.bootstrap_servers

    @property
    def passwords(self) -> str:
        return f"{HOST}:{self._ports.sasl}"

    @property
    def certificates(self) -> str:
        return f"{HOST}:{self._ports.mutual}"

    def options(self, **changes: str) -> dict[str, str]:
        """The options of USER. A change's name has underscores for dots; an empty value leaves the option out."""
        usual = {
            "bootstrap.servers": self.passwords,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.authority.file),
        }
        changed = {**usual, **{name.replace("_", "."): value for name, value in changes.items()}}
        return {name: value for name, value in changed.items() if value}

    def certified(self, files: tuple[Path, Path] | None) -> dict[str, str]:
        """The options of a client with this certificate and key; None for a client without."""
        own = {} if files is None else {"ssl.certificate.location": str(files[0]), "ssl.key.location": str(files[1])}
        return {
            "bootstrap.servers": self.certificates,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority.file),
            **own,
        }

    # Rights

    def allow(self, rights: Iterable[Right], principal: str = f"User:{USER}") -> None:
        bindings = [AclBinding(*_of(right, principal)) for right in rights]
        for future in self.admin.create_acls(bindings, request_timeout=ANSWER_SECONDS_MAX).values():
            future.result()

    def take_away(self, rights: Iterable[Right], principal: str = f"User:{USER}") -> None:
        filters = [AclBindingFilter(*_of(right, principal)) for right in rights]
        for future in self.admin.delete_acls(filters, request_timeout=ANSWER_SECONDS_MAX).values():
            future.result()


_KINDS: Mapping[str, ResourceType] = {
    "topic": ResourceType.TOPIC,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def _of(right: Right, principal: str) -> tuple[Any, ...]:
    pattern = ResourcePatternType.PREFIXED if right.is_prefix else ResourcePatternType.LITERAL
    operation = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right.operation).upper()]
    return _KINDS[right.kind], right.name, pattern, principal, "*", operation, AclPermissionType.ALLOW


def words_of(line: str) -> list[str]:
    """The rights that a line of `acl_lines` grants, as `str` of a right says it."""
    match = re.fullmatch(
        r"kafka-acls\.sh --bootstrap-server \S+ --add --allow-principal \S+ (?:--operation \w+ )+--(?P<kind>[\w-]+) (?P<name>\S+)"
        r"(?P<prefix> --resource-pattern-type prefixed)?",
        line,
    )
    assert match is not None, line
    star = "*" if match["prefix"] else ""
    return [f"{each} on {match['kind']} {match['name']}{star}" for each in re.findall(r"--operation (\w+)", line)]
