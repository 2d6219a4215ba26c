"""What a user is told about a login by Kerberos, which most builds of librdkafka do not know.

Kerberos needs a librdkafka that was built with Cyrus SASL (libsasl2), the module of Cyrus SASL for it, and `kinit`, which librdkafka calls. Each
of the three may be missing, and nothing that librdkafka says names the package. docs/security.md has what was tried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from io_kafka.errors import BadOption

MECHANISM = "GSSAPI"

_LACKING = f"No provider for SASL mechanism {MECHANISM}"
"""How librdkafka refuses the options if its build does not know Kerberos."""


def uses_kerberos(options: Mapping[str, str]) -> bool:
    """Whether a client with these options logs in by Kerberos. It does so too if they name no mechanism: that is librdkafka's default."""
    is_login = options.get("security.protocol", "").upper().startswith("SASL_")
    return is_login and (_mechanism(options) or MECHANISM).upper() == MECHANISM


def refusal_without_kerberos(text: str, options: Mapping[str, str]) -> BadOption | None:
    """The fault for what librdkafka has said of the options. None if that is not about Kerberos."""
    if _LACKING not in text:
        return None
    if _mechanism(options) is None:
        return BadOption(
            f"kafka.security.protocol is {options.get('security.protocol')}, and kafka.sasl.mechanism is not set. The Kafka client would take "
            f"Kerberos ({MECHANISM}), which its build does not know.",
            "Set kafka.sasl.mechanism to what the brokers offer: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER.",
        )
    return BadOption(
        f"kafka.sasl.mechanism is {MECHANISM}, and the Kafka client that is installed does not know Kerberos: the package confluent-kafka of "
        "PyPI has a librdkafka without libsasl2.",
        "docs/security.md (Kerberos) says how to build confluent-kafka with one that has it. Or log in by SCRAM, a token or a client "
        "certificate, if the brokers offer that.",
    )


def user_of(options: Mapping[str, str]) -> str | None:
    """The user as a broker names it with Kafka's own rule: the first part of the principal. None without a principal."""
    principal = options.get("sasl.kerberos.principal") if uses_kerberos(options) else None
    return None if principal is None else re.split(r"[/@]", principal)[0]


def advice_on(text: str) -> str:
    """What to do after a login by Kerberos has failed with this text."""
    if "No worthy mechs found" in text:
        return (
            "Install Cyrus SASL's module for Kerberos on this machine: libsasl2-modules-gssapi-mit on Debian and Ubuntu, cyrus-sasl-gssapi on "
            "Red Hat."
        )
    if "not found in Kerberos database" in text:
        return (
            "The principal of a broker is SERVICE/HOST@REALM: correct kafka.sasl.kerberos.service.name, or the name of the host in "
            "kafka.bootstrap.servers and in advertised.listeners of the broker."
        )
    if "No Kerberos credentials" in text or "expired" in text:
        return (
            "kinit has got no ticket, and has said why on standard error. Correct kafka.sasl.kerberos.principal and "
            "kafka.sasl.kerberos.keytab; `klist` shows the tickets that are there."
        )
    return "Correct the kafka.sasl.kerberos settings, and see whether `klist` shows a ticket that is valid."


def _mechanism(options: Mapping[str, str]) -> str | None:
    return options.get("sasl.mechanism") or options.get("sasl.mechanisms")
