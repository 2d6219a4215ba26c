"""Options `kafka.*` -> what the clients get, and what is refused."""

from __future__ import annotations

import pickle

import pytest

from io_kafka.clients.kerberos import refusal_without_kerberos
from io_kafka.clients.rights import principal_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.errors import BadOption

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_the_default_is_the_local_broker() -> None:
    assert KafkaSettings.parse({}).bootstrap_servers == "127.0.0.1:9092"


def test_what_exactly_once_needs_is_always_set() -> None:
    settings = KafkaSettings.parse({"bootstrap.servers": "h:1", "fetch.queue.backoff.ms": "7"})
    consumer = settings.consumer_config()
    assert consumer["isolation.level"] == "read_committed"
    assert consumer["auto.offset.reset"] == "error"
    assert consumer["enable.auto.commit"] is False
    assert consumer["check.crcs"] is True
    assert consumer["fetch.queue.backoff.ms"] == "7"
    producer = settings.producer_config("p")
    assert (producer["transactional.id"], producer["acks"], producer["enable.idempotence"]) == ("p", "all", True)
    assert settings.admin_config()["bootstrap.servers"] == "h:1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} required username="u" password="p\\"=; q";'},
            {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": 'p"=; q'},
        ),
        (
            {"sasl.jaas.config": f"{PLAIN} required username=u password=p;"},
            {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f"{SCRAM} required\n username='u' password=\"p\";"},
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "'u'", "sasl.password": "p"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"max.request.size": "2000000"}, {"message.max.bytes": "2000000"}),
        ({"isolation.level": "READ_COMMITTED", "acks": "-1", "enable.idempotence": "true"}, {}),
    ],
)
def test_javas_spelling_is_translated(given: dict[str, str], expected: dict[str, str]) -> None:
    assert dict(KafkaSettings.parse(given).options) == {"bootstrap.servers": "127.0.0.1:9092", **expected}


def test_a_pem_truststore_is_a_ca_file() -> None:
    pem = "ssl.truststore.location"
    with pytest.raises(BadOption, match=r"ssl\.ca\.location failed"):  # the client itself looked for the file
        KafkaSettings.parse({"security.protocol": "SSL", pem: "/no/such/ca.pem", "ssl.truststore.type": "PEM"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ssl.truststore.location": "/a.jks"}, "JKS.*kafka.ssl.ca.location"),
        ({"ssl.truststore.location": "/a", "ssl.truststore.type": "PKCS12"}, "PKCS12.*kafka.ssl.ca.location"),
        ({"ssl.keystore.location": "/a.jks"}, "JKS.*kafka.ssl.certificate.location"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "sasl.kerberos.keytab"),
        ({"sasl.jaas.config": f'{SCRAM} required username="u" password="p";'}, "ScramLoginModule.*mechanism is None"),
        ({"sasl.jaas.config": f'{PLAIN} required username="u";'}, "no password.*kafka.sasl.password"),
        ({"sasl.jaas.config": "nonsense"}, "kafka.sasl.username"),
        ({"isolation.level": "read_uncommitted"}, "kafka.isolation.level.*aborted"),
        ({"auto.offset.reset": "latest"}, "kafka.auto.offset.reset.*startingOffsets"),
        ({"enable.auto.commit": "true"}, "kafka.enable.auto.commit.*step log"),
        ({"transactional.id": "x"}, "kafka.transactional.id.*fence"),
        ({"acks": "1"}, "kafka.acks.*exactly once"),
        ({"value.deserializer": "x"}, "format"),
        ({"no.such": "5", "linger.mss": "1", "client.id": "c"}, "kafka.linger.mss, kafka.no.such:"),
        (
            {"sasl.mechansim": "PLAIN", "security.protocol": "SASL_SSL", "sasl.username": "u"},
            "unknown option kafka.sasl.mechansim:",
        ),
        ({"linger.ms": "soon"}, "linger.ms"),
        ({"security.protocol": "TLS"}, "security.protocol"),
    ],
)
def test_impossible_options_are_refused_by_name(given: dict[str, str], told: str) -> None:
    with pytest.raises(BadOption, match=told):
        KafkaSettings.parse(given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"sasl.mechanism": "GSSAPI"},
            r"kafka.sasl.mechanism is GSSAPI, .*does not know Kerberos.*docs/security\.md \(Kerberos\)",
        ),
        ({}, "security.protocol is SASL_SSL, and kafka.sasl.mechanism is not set.*Set kafka.sasl.mechanism"),
    ],
)
def test_a_client_without_kerberos_says_what_to_do(given: dict[str, str], told: str) -> None:
    """librdkafka takes Kerberos where no mechanism is named, and the builds of PyPI do not have it."""
    options = {"security.protocol": "SASL_SSL", **given}
    with pytest.raises(BadOption, match=told):
        KafkaSettings.parse(options)
    assert refusal_without_kerberos("No provider for SASL mechanism PLAIN", options) is None


def test_rights_name_the_user_of_a_principal() -> None:
    kerberos = {"security.protocol": "SASL_SSL", "sasl.kerberos.principal": "shop/host.example.com@EXAMPLE.COM"}
    for options, user in (
        (kerberos, "User:shop"),
        ({**kerberos, "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "User:u"),
        ({"security.protocol": "SASL_SSL"}, "User:NAME"),
    ):
        assert principal_of(KafkaSettings(tuple(sorted(options.items())))) == user


def test_plain_data_that_shows_no_secret() -> None:
    settings = KafkaSettings.parse({"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "hunter2"})
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))
    assert "hunter2" not in repr(settings) and "'sasl.username': 'u'" in repr(settings)
