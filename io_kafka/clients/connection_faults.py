"""Why Kafka cannot be reached: what a client reports beside its calls, as a fault that names the reason.

librdkafka's calls say only that no broker has answered. Its error callback has the reason of each attempt to connect, within a third of a
second. `ConnectionReports` collects these reasons. A client asks it when a call has had no answer.

There are two kinds of reasons:

    lasting      the login, the certificates, the protocol of the port, the name of the host: with the same settings it fails again.
                 The fault is a CannotConnect.
    passing      a connection that is refused, lost or slow: a broker that starts or restarts is like that. The fault is a BrokerUnreachable.

Guarantees: a lasting reason is a fault only if no broker is left that may answer. Where a broker has answered a client of this process with the
same settings before, all of them wait for both kinds alike (`has_answered`): a password may be changed on one side before the other, and a name
may be unknown while a machine restarts. So at most the first calls of a process end at once, and none of a worker's (engine/resident/entry.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import KafkaError

from io_kafka.clients import kerberos
from io_kafka.clients.tls_probe import addresses, what_listens, why_not_verified
from io_kafka.errors import (
    BrokerNotTrusted,
    BrokerUnreachable,
    CannotConnect,
    CertificateRefused,
    LoginRefused,
    UnknownHost,
    WrongProtocol,
)

_PLACE = re.compile(r"^(?:\w+://)?(?P<server>[^/\s]+)/(?P<node>\w+): ")
"""How librdkafka begins what it reports of a broker. The node is its number, or `bootstrap` for one of `bootstrap.servers`."""

_STATE = re.compile(r" \(after \d+ms in state \w+(?:, .*)?\)$")

_CERTIFICATE_ALERT = re.compile(
    r"alert (?P<alert>bad certificate|unsupported certificate|certificate (?:revoked|expired|unknown|required)|unknown ca|handshake failure)",
    re.IGNORECASE,
)
"""The alerts of TLS with which a broker refuses the certificate of a client, or the lack of one."""

_NOT_BEGUN = "Failed to initialize SASL authentication: "
"""How librdkafka begins what prevents a login on this machine, such as Kerberos without a ticket."""

ENDS_CONNECTIONS = (
    "it accepts connections and ends them at once, as a broker does that starts, and as a listener does that expects a login when "
    "`kafka.security.protocol` names none"
)

_ANSWERED: set[tuple[int, str, frozenset[tuple[str, str]]]] = set()
"""The settings with which a broker has answered, with the id of the process. A process that is forked has to learn it for itself."""

_LASTING = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._RESOLVE, KafkaError._SSL}


class ConnectionReports:
    """The reasons of one client, or of several with the same settings that follow each other."""

    def __init__(self, servers: str, options: Mapping[str, str], process: int = 0) -> None:
        self._servers, self._options = servers, options
        self._key = (process, servers, frozenset(options.items()))
        self._by_place: dict[tuple[str, str], KafkaError] = {}  # the last report comes last
        self._are_all_down = False
        self._no_token: KafkaError | None = None  # the one reason that concerns no broker

    @property
    def has_answered(self) -> bool:
        """Whether a broker has answered any client of this process with these settings."""
        return self._key in _ANSWERED

    def note(self, error: KafkaError) -> None:
        """The error callback of a client. It runs within a call to the client, and never raises."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._are_all_down = True
        elif (place := _PLACE.match(error.str())) is not None:
            self._by_place.pop((place["server"], place["node"]), None)  # a key that is there would keep its place
            self._by_place[place["server"], place["node"]] = error
        elif error.code() == KafkaError._AUTHENTICATION:
            self._no_token = error

    def answered(self) -> None:
        """A broker has answered, so what was reported before is over."""
        _ANSWERED.add(self._key)
        self._by_place.clear()
        self._are_all_down, self._no_token = False, None

    @property
    def reason(self) -> str | None:
        """The last reason that was reported, without the client's own words about its state; None if nothing was."""
        if self._no_token is not None:
            return _plain(self._no_token)
        if not self._by_place:
            return None
        (_, node), error = next(reversed(self._by_place.items()))
        is_advertised = error.code() == KafkaError._RESOLVE and node != "bootstrap"
        return _plain(error) + (f" (broker {node} advertises that name)" if is_advertised else "")

    def refusal(self) -> CannotConnect | None:
        """The fault of a lasting reason, after a call without an answer. None if there is no such reason, and after an earlier answer."""
        return None if self.has_answered else self.lasting()

    def explain(self, fault: BrokerUnreachable) -> CannotConnect | BrokerUnreachable:
        """The fault to raise after all waiting, in place of `fault`, with the reason that the client has reported."""
        lasting = self.lasting()
        if lasting is not None:
            return lasting
        reason = self.reason
        if reason is None and self._are_all_down and what_listens(self._servers) != "nothing":
            reason = ENDS_CONNECTIONS
        return fault if reason is None else BrokerUnreachable(fault.servers, fault.doing, reason)

    def lasting(self) -> CannotConnect | None:
        """The fault of a lasting reason, whether a broker has answered before or not. It may take some connections of our own to find it."""
        if self._no_token is not None:
            return LoginRefused(
                f"there is nothing to log in with at the Kafka broker {self._servers}: {_plain(self._no_token)}.",
                "Correct the kafka.sasl.oauthbearer settings, and see whether the token endpoint answers.",
            )
        reports = list(self._by_place.items())
        if reports and self._is_none_left:
            faults = [self._fault_of(server, node, error) for (server, node), error in reports]
            return faults[0] if all(fault is not None for fault in faults) else None
        return self._tls_port_fault() if self._are_all_down and not reports else None

    @property
    def _is_none_left(self) -> bool:
        """Whether no broker may answer of which nothing was reported. A client knows the number of a broker only from the answer of another one,
        so after a report with a number, only the client can say that all brokers are down."""
        if self._are_all_down:
            return True
        reported = {server for server, _ in self._by_place}
        has_numbers = any(node != "bootstrap" for _, node in self._by_place)
        return not has_numbers and {f"{host}:{port}" for host, port in addresses(self._servers)} <= reported

    def _fault_of(self, server: str, node: str, error: KafkaError) -> CannotConnect | None:
        text = error.str()
        alert = _CERTIFICATE_ALERT.search(text)
        if alert is not None:
            return self._certificate_fault(server, alert["alert"])
        if "SSL_HANDSHAKE" in text and "closed by peer" in text:
            # Also a broker that stops closes a connection then, so it is asked.
            return self._plain_port_fault(server) if what_listens(server) == "plain" else None
        if error.code() not in _LASTING:
            return None
        if error.code() == KafkaError._RESOLVE:
            return _unknown_host(server, node, _plain(error))
        return self._trust_fault(server, error) if error.code() == KafkaError._SSL else self._login_fault(server, error)

    def _tls_port_fault(self) -> CannotConnect | None:
        """A listener that expects TLS closes a connection without it, and the client reports no reason."""
        protocol = self._protocol
        if not protocol.endswith("PLAINTEXT") or what_listens(self._servers) != "tls":
            return None
        return WrongProtocol(
            f"kafka.security.protocol is {protocol}, and the Kafka port at {self._servers} speaks TLS.",
            f"Set kafka.security.protocol to {'SSL or SASL_SSL' if protocol == 'PLAINTEXT' else 'SASL_SSL'}, with kafka.ssl.ca.location; "
            "or name the broker's port without TLS in kafka.bootstrap.servers.",
        )

    def _plain_port_fault(self, server: str) -> CannotConnect:
        plain = "SASL_PLAINTEXT" if self._protocol.startswith("SASL") else "PLAINTEXT"
        return WrongProtocol(
            f"kafka.security.protocol is {self._protocol}, and the Kafka port at {server} does not speak TLS.",
            f"Name the broker's TLS port in kafka.bootstrap.servers, or set kafka.security.protocol to {plain}.",
        )

    def _certificate_fault(self, server: str, alert: str) -> CannotConnect:
        location = self._options.get("ssl.certificate.location") or self._options.get("ssl.keystore.location")
        if location is None and "ssl.certificate.pem" not in self._options:
            return CertificateRefused(
                f"the Kafka broker at {server} asks for a client certificate, and none is set ({alert}).",
                "Set kafka.ssl.certificate.location and kafka.ssl.key.location to PEM files that the broker's authority has signed.",
            )
        ended = None if location is None else _past_expiry(Path(location))
        if ended is not None:
            return CertificateRefused(
                f"the Kafka broker at {server} refuses the client certificate {location}: it has expired on {ended:%Y-%m-%d %H:%M} UTC.",
                "Have it renewed, and set kafka.ssl.certificate.location and kafka.ssl.key.location to the new one.",
            )
        return CertificateRefused(
            f"the Kafka broker at {server} refuses the client certificate {location or 'of kafka.ssl.certificate.pem'} ({alert}).",
            "Set kafka.ssl.certificate.location to one that an authority has signed which the broker trusts, and kafka.ssl.key.location to "
            "its key.",
        )

    def _trust_fault(self, server: str, error: KafkaError) -> CannotConnect:
        if "certificate verify failed" not in error.str():
            return BrokerNotTrusted(
                f"TLS with the Kafka broker at {server} fails: {_plain(error)}.",
                "Compare kafka.security.protocol and the kafka.ssl settings with those of the broker's listener.",
            )
        why = why_not_verified(server, self._options)
        if why is not None and "mismatch" in why.lower():
            what_to_do = (
                "Name the broker in kafka.bootstrap.servers, and in its advertised.listeners, as its certificate does."
            )
        elif why is not None and "expired" in why:
            what_to_do = "Have the broker's certificate renewed."
        else:
            what_to_do = "Set kafka.ssl.ca.location to the PEM file of the authority that has signed it."
        return BrokerNotTrusted(
            f"the certificate of the Kafka broker at {server} cannot be verified{'' if why is None else f': {why}'}.",
            what_to_do,
        )

    def _login_fault(self, server: str, error: KafkaError) -> CannotConnect:
        reason = re.sub(r"^SASL authentication error: ", "", _plain(error))
        offered = re.search(r"supported mechanisms: ?(?P<names>[\w,.-]*)", error.str())
        if offered is not None and not offered["names"]:
            what_to_do = (
                "This listener knows no login: set kafka.security.protocol to "
                f"{'SSL' if self._protocol == 'SASL_SSL' else 'PLAINTEXT'}, or name the port of the listener that does."
            )
        elif offered is not None:
            what_to_do = f"Set kafka.sasl.mechanism to {' or '.join(offered['names'].split(','))}."
        elif "OAUTHBEARER" in error.str().upper():
            what_to_do = "Correct the kafka.sasl.oauthbearer settings, and see whether the token endpoint answers."
        elif kerberos.uses_kerberos(self._options):
            what_to_do = kerberos.advice_on(error.str())
        else:
            what_to_do = "Correct kafka.sasl.username, kafka.sasl.password and kafka.sasl.mechanism."
        if reason.startswith(_NOT_BEGUN):  # the broker has not been asked
            return LoginRefused(
                f"no login at the Kafka broker at {server} is possible: {reason.removeprefix(_NOT_BEGUN)}.", what_to_do
            )
        user = self._options.get("sasl.username")
        return LoginRefused(
            f"the Kafka broker at {server} refuses the login{'' if user is None else f' of user {user!r}'}: {reason}.",
            what_to_do,
        )

    @property
    def _protocol(self) -> str:
        return self._options.get("security.protocol", "PLAINTEXT").upper()


def _unknown_host(server: str, node: str, reason: str) -> CannotConnect:
    why = reason.rsplit(": ", 1)[-1]
    if node == "bootstrap":
        return UnknownHost(
            f"the host of the Kafka broker {server} is not known: {why}.",
            "Correct kafka.bootstrap.servers, or the name service of this machine.",
        )
    return UnknownHost(
        f"the host of the Kafka broker {server} is not known: {why}. Broker {node} advertises that name.",
        "Correct advertised.listeners of the broker, or make the name known to this machine.",
    )


def _plain(error: KafkaError) -> str:
    return _STATE.sub("", _PLACE.sub("", error.str())).rstrip(".")


def _past_expiry(location: Path) -> datetime | None:
    """When the certificate in this PEM file has expired; None if it has not, and if it cannot be read."""
    from cryptography import x509  # takes 0.1 s to load, and is needed after a fault only

    try:
        ends = x509.load_pem_x509_certificate(location.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None
    return ends if ends < datetime.now(UTC) else None
