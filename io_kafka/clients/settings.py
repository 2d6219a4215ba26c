"""The configuration of all Kafka clients, from the options `kafka.*` that a user writes.

`KafkaSettings.parse` takes the options without their prefix, in the spelling of Spark and Java or of librdkafka. It
refuses, by name, each option that is unknown, that cannot be translated, or that would break what Stepwell promises. The
result is plain data: it is hashable, it can be sent to a task, and its text shows no secret.

Guarantees, whatever the user writes: a consumer reads only committed messages, never commits offsets, and never moves to
another offset by itself. A producer is transactional; one that is not writes each message once, into a topic that only it writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException, libversion
from confluent_kafka.admin import AdminClient

from base.secrets import mask_values, remember_all
from io_kafka.client_log import CLIENT_LOG
from io_kafka.clients.connection_faults import ConnectionReports
from io_kafka.clients.kerberos import refusal_without_kerberos
from io_kafka.errors import BadOption, BrokerUnreachable
from io_kafka.extras import Extras
from io_kafka.outside import REAL, Outside

DEFAULT_BOOTSTRAP_SERVERS = "127.0.0.1:9092"

_OURS: dict[str, tuple[str | None, str]] = {
    "isolation.level": ("read_committed", "messages of an aborted transaction must never count"),
    "auto.offset.reset": (None, "use the table's `startingOffsets`; later offsets come from the step log"),
    "enable.auto.commit": ("false", "offsets are kept in the step log"),
    "enable.auto.offset.store": ("false", "offsets are kept in the step log"),
    "enable.partition.eof": (None, "Stepwell needs it to find the end of a range"),
    "allow.auto.create.topics": ("false", "a misspelt topic must be an error"),
    "check.crcs": ("true", "damaged messages must be an error"),
    "transactional.id": (None, "it is the fence between two runs of a pipeline"),
    "enable.idempotence": ("true", "output is exactly once"),
    "enable.gapless.guarantee": (None, "transactions hold that already"),
    "acks": ("all", "output is exactly once"),
    "request.required.acks": ("all", "output is exactly once"),
    "key.serializer": (None, "the table's `format` says it"),
    "value.serializer": (None, "the table's `format` says it"),
    "key.deserializer": (None, "the table's `format` says it"),
    "value.deserializer": (None, "the table's `format` says it"),
    "interceptor.classes": (None, "they are Java classes, and Stepwell's client is librdkafka"),
}
"""Options that Stepwell decides: its value, and the reason or what a user does instead. An option with that value is accepted."""

_CONSUMER = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "check.crcs": True,
}
_CONSUMER_DEFAULTS = {
    # librdkafka requires one, but no group is ever joined.
    "group.id": "stepwell",
    # With the default of 1 s a consumer idles as soon as its queue is full, which is 4 to 5 times slower.
    "fetch.queue.backoff.ms": 2,
    # A consumer that waits at a log's end finishes that fetch before it can move elsewhere. The default is 500 ms.
    "fetch.wait.max.ms": 100,
    # With the default of 64 MB per process, a partition that moves to another process has much of it fetched in vain.
    "queued.max.messages.kbytes": 16_384,
}
"""Defaults that a user may change."""

_SECOND_DEFAULTS = {
    # It begins with a long history beside steps, which a full queue would delay. This is several steps of messages, or half of a large portion.
    "queued.max.messages.kbytes": 4_096,
}
_PRODUCER = {"enable.idempotence": True, "acks": "all"}
_PRODUCER_DEFAULTS = {
    # The longest time that a message may wait for others. A commit flushes at once, so this does not delay a step.
    "linger.ms": 5,
    # Kafka's own clients partition keys by murmur2; librdkafka's default differs.
    "partitioner": "murmur2_random",
    # All output of a step is queued before it is sent, so the step's limits must bound it and not the queue's.
    "queue.buffering.max.messages": 1_000_000,
    "delivery.report.only.error": True,
    # The limit of the topic decides, not the client's default of 1 MB. Only a message that is larger by itself is sent in a larger batch,
    # because `batch.size` stays as it is. The broker's `socket.request.max.bytes` is 100 MiB.
    "message.max.bytes": 64 * 1024 * 1024,
}
_COMMON_DEFAULTS = {
    # A broker restarts in seconds, but the default waits up to 10 s between two tries.
    "reconnect.backoff.max.ms": 1000,
    # How long a broker may not know a new topic. The default of 30 s is a long wait for a misspelt name.
    "topic.metadata.propagation.max.ms": 5000,
}


@dataclass(frozen=True)
class KafkaSettings:
    """The settings with which clients of Kafka are made, and who makes them."""

    options: tuple[tuple[str, str], ...] = field(repr=False)
    """(name, value) under librdkafka's names. They are sorted by name, `bootstrap.servers` is among them, and none of `_OURS` is."""
    outside: Outside = field(default=REAL, compare=False, repr=False)
    """It makes the clients, and provides all else that a run needs of its machine."""
    extras: Extras = Extras.NONE
    """What a reader with these settings returns of each message besides key, value and offset. It enters the checksum of what was read, so all
    readers of a revision must agree."""
    is_second: bool = False
    """Whether a reader with these settings has a consumer of its own, which reads a partition elsewhere than the other one."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> KafkaSettings:
        """The settings for `options`, whose names have no prefix `kafka.`. Raises BadOption, which names the option and what to do."""
        chosen = {"bootstrap.servers": DEFAULT_BOOTSTRAP_SERVERS, **_translate(options)}
        for name in list(chosen):
            if name in _OURS:
                _refuse_unless_ours(name, chosen.pop(name))
        remember_all(chosen)  # also a password that was part of another option
        _refuse_unknown(chosen)
        return cls(tuple(sorted(chosen.items())))

    @property
    def bootstrap_servers(self) -> str:
        return dict(self.options)["bootstrap.servers"]

    def consumer_config(self) -> dict[str, Any]:
        return {
            **_COMMON_DEFAULTS,
            **_CONSUMER_DEFAULTS,
            **(_SECOND_DEFAULTS if self.is_second else {}),
            **dict(self.options),
            **_CONSUMER,
            "allow.auto.create.topics": False,
        }

    def producer_config(self, transactional_id: str | None) -> dict[str, Any]:
        """`transactional_id`: None for a producer whose messages do not count before something else says so. Each reports its delivery."""
        own = {**_PRODUCER, **({"delivery.report.only.error": False} if transactional_id is None else {})}
        own |= {} if transactional_id is None else {"transactional.id": transactional_id}
        return {**_COMMON_DEFAULTS, **_PRODUCER_DEFAULTS, **dict(self.options), **own}

    def admin_config(self) -> dict[str, Any]:
        return {**_COMMON_DEFAULTS, **dict(self.options)}

    def reports(self) -> ConnectionReports:
        """For the reasons that a client with these settings reports: its `note` is to be the client's `error_cb`."""
        return ConnectionReports(self.bootstrap_servers, dict(self.options), self.outside.pid())

    def masked_options(self) -> dict[str, str]:
        """The options as they may be shown: secrets are masked."""
        return mask_values(dict(self.options))

    def __repr__(self) -> str:
        return f"KafkaSettings({self.masked_options()})"


def client_version() -> str:
    """The version of librdkafka."""
    return str(libversion()[0])


def brokers_of(bootstrap_servers: str, *, timeout_s: float) -> tuple[str, frozenset[int]]:
    """(the id of the cluster at this address, the ids of its brokers that are up). Raises BrokerUnreachable."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "reconnect.backoff.max.ms": 200}, logger=CLIENT_LOG)
    try:
        found = admin.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise BrokerUnreachable(bootstrap_servers, "waiting for the broker", str(error)) from error
    return str(found.cluster_id), frozenset(found.brokers)


def _refuse_unless_ours(name: str, value: str) -> None:
    ours, reason = _OURS[name]
    accepted = {ours} | ({"-1"} if ours == "all" else set())
    if value.lower() not in accepted:
        raise BadOption(f"kafka.{name} = {value!r} cannot be set: {reason}. Remove the option.")


def _refuse_unknown(chosen: dict[str, str]) -> None:
    """Raises BadOption if librdkafka refuses an option. Only the construction of a client shows that, so one is made, which connects to nothing.

    librdkafka names one unknown option at a time. Each is set aside until the others are accepted.
    """
    rest = {name: value for name, value in chosen.items() if name != "bootstrap.servers"}
    unknown: list[str] = []
    for _ in range(len(rest) + 1):
        try:
            Consumer({"group.id": "stepwell", **rest}, logger=CLIENT_LOG).close()
            break
        except KafkaException as error:
            text = error.args[0].str()
            name = re.search(r'No such configuration property: "([^"]+)"', text)
            if name is None or name.group(1) not in rest:
                if unknown:
                    break  # one that is misspelled may be what is missing
                raise _refusal(text, rest) from error
            unknown.append(name.group(1))
            del rest[name.group(1)]
        except TypeError as error:
            raise _refusal(str(error), rest) from error
    if unknown:
        names = ", ".join(f"kafka.{name}" for name in sorted(unknown))
        raise BadOption(
            f"unknown option {names}: Stepwell's Kafka client is librdkafka, which does not have every option of the "
            f"Java client. "
            "Its names are in librdkafka's CONFIGURATION.md. Remove or rename the option."
        )


def _refusal(text: str, rest: Mapping[str, str]) -> BadOption:
    without_kerberos = refusal_without_kerberos(text, rest)
    if without_kerberos is not None:
        return without_kerberos
    given = ", ".join(f"kafka.{name}" for name in sorted(rest))
    return BadOption(f"one of the options {given} is refused by the Kafka client: {text}. Correct it.")


# Java's names

_SSL_ADVICE = "Convert the certificates to PEM files and name them by"

_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "max.request.size": "message.max.bytes",
}


def _translate(options: Mapping[str, str]) -> dict[str, str]:
    """The options under librdkafka's names. An option that needs no translation stays as it is."""
    given = {name: str(value) for name, value in options.items()}
    out: dict[str, str] = {}
    out.update(_login(given))
    out.update(_truststore(given))
    out.update(_keystore(given))
    if given.get("ssl.endpoint.identification.algorithm") == "":
        # In Java an empty name switches the check off.
        given["ssl.endpoint.identification.algorithm"] = "none"
    for name, value in given.items():
        out[_RENAMED.get(name, name)] = value
    return out


def _login(given: dict[str, str]) -> dict[str, str]:
    """User name and password from the `sasl.jaas.config` of PLAIN and SCRAM. Removes that option from `given`."""
    jaas = given.pop("sasl.jaas.config", None)
    if jaas is None:
        return {}
    advice = "Write kafka.sasl.mechanism, kafka.sasl.username and kafka.sasl.password instead."
    module = re.match(r"\s*(?:[\w.]+\.)?(\w+)\s+(?:required|requisite|sufficient|optional)\b(.*)", jaas, re.DOTALL)
    if module is None:
        raise BadOption(f'kafka.sasl.jaas.config is not of the form `LoginModule required name="value" ...;`. {advice}')
    kind = module.group(1)
    mechanism = given.get(
        "sasl.mechanism", given.get("sasl.mechanisms", "PLAIN" if kind == "PlainLoginModule" else None)
    )
    wanted = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512")}.get(kind)
    if wanted is None:
        raise BadOption(
            f"kafka.sasl.jaas.config names {kind}, which is a Java class; Stepwell's client is librdkafka. "
            f"For Kerberos write "
            "kafka.sasl.kerberos.principal and kafka.sasl.kerberos.keytab, for OAuth "
            "kafka.sasl.oauthbearer.method and its options."
        )
    if mechanism not in wanted:
        raise BadOption(
            f"kafka.sasl.jaas.config names {kind}, but kafka.sasl.mechanism is {mechanism}; it goes with {wanted}."
        )
    found = dict(re.findall(r'(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)', module.group(2)))
    if not {"username", "password"} <= found.keys():
        raise BadOption(f"kafka.sasl.jaas.config has no username or no password. {advice}")
    given.setdefault("sasl.mechanism", mechanism) if "sasl.mechanisms" not in given else None
    return {"sasl.username": _unquote(found["username"]), "sasl.password": _unquote(found["password"])}


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text


def _truststore(given: dict[str, str]) -> dict[str, str]:
    """`ssl.ca.location` from a PEM truststore; any other kind is refused. Removes the truststore's options from `given`."""
    location = given.pop("ssl.truststore.location", None)
    kind = given.pop("ssl.truststore.type", "JKS" if location else "PEM").upper()
    given.pop("ssl.truststore.password", None)
    if kind != "PEM":
        raise BadOption(
            f"kafka.ssl.truststore.location is a {kind} store, which librdkafka cannot read. {_SSL_ADVICE} "
            f"kafka.ssl.ca.location."
        )
    return {"ssl.ca.location": location} if location else {}


def _keystore(given: dict[str, str]) -> dict[str, str]:
    """librdkafka reads a PKCS12 keystore itself. A PEM keystore is one file with key and certificates. JKS is refused."""
    kind = given.pop("ssl.keystore.type", None)
    location = given.get("ssl.keystore.location")
    if location is None or (kind is None and location.endswith((".p12", ".pfx"))) or (kind or "").upper() == "PKCS12":
        return {}
    if (kind or "").upper() == "PEM":
        del given["ssl.keystore.location"]
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    raise BadOption(
        f"kafka.ssl.keystore.location is a {(kind or 'JKS').upper()} store, which librdkafka cannot read. "
        f"{_SSL_ADVICE} "
        "kafka.ssl.certificate.location and kafka.ssl.key.location, or use a PKCS12 store and "
        "kafka.ssl.keystore.type = PKCS12."
    )
