"""The nine logins that fail, and a host that is not known, on a real broker with SASL, TLS and certificates of clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from io_kafka.clients.topics import Topics
from io_kafka.errors import (
    BrokerNotTrusted,
    CannotConnect,
    CertificateRefused,
    KafkaFault,
    LoginRefused,
    UnknownHost,
    WrongProtocol,
)
from io_kafka.offsets import OffsetRange
from tests.io_kafka.test_topics import eventually
from tests.secured_broker import CLIENT_NAME, SecuredBroker

Options = dict[str, str]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured")).start()
    yield broker
    broker.stop()


def failing(broker: SecuredBroker) -> dict[str, tuple[Options, type[CannotConnect], str]]:
    """By name: the options, the kind of the fault, and what its text has to say."""
    stranger = str(broker.stranger.file)
    expired = broker.authority.issue("expired", days=-1)
    return {
        "wrong password": (broker.options(sasl_password="no"), LoginRefused, "'app': .*Correct kafka.sasl.username"),
        "unknown user": (broker.options(sasl_username="nobody"), LoginRefused, "user 'nobody': .*invalid credentials"),
        "wrong mechanism": (broker.options(sasl_mechanism="PLAIN"), LoginRefused, "sasl.mechanism to SCRAM-SHA-512"),
        "unknown authority": (broker.options(ssl_ca_location=stranger), BrokerNotTrusted, "issuer.*ssl.ca.location"),
        "TLS on the plain port": (
            broker.options(bootstrap_servers=broker.plain),
            WrongProtocol,
            f"{broker.plain} does not speak TLS",
        ),
        "plain on the TLS port": (
            {"bootstrap.servers": broker.passwords},
            WrongProtocol,
            "PLAINTEXT, and .* speaks TLS",
        ),
        "no certificate": (
            broker.certified(None),
            CertificateRefused,
            "asks for a client certificate, and none is set",
        ),
        "foreign certificate": (
            broker.certified(broker.stranger.issue(CLIENT_NAME)),
            CertificateRefused,
            "which the broker trusts",
        ),
        "expired certificate": (broker.certified(expired), CertificateRefused, r"it has expired on \d{4}"),
        "unknown host": (
            {"bootstrap.servers": "kafka.invalid:9092"},
            UnknownHost,
            "host of the Kafka broker kafka.invalid",
        ),
    }


def fault_of_topics(options: Options) -> KafkaFault:
    with pytest.raises(KafkaFault) as raised:
        Topics(KafkaSettings.parse(options)).names()
    return raised.value


def fault_of_log(options: Options) -> KafkaFault:
    with pytest.raises(KafkaFault) as raised:
        StepLogReader(KafkaSettings.parse(options), "steps").read()
    return raised.value


def fault_of_reader(options: Options) -> KafkaFault:
    reader = RangeReader(KafkaSettings.parse(options))
    with pytest.raises(KafkaFault) as raised:
        reader.read([OffsetRange("orders", 0, 0, 1)])
    return raised.value


def test_every_client_names_the_reason_of_a_login_that_fails(secured: SecuredBroker) -> None:
    """All at once, because each of them waits for the client's report."""
    cases = failing(secured)
    asked = [(name, ask) for name in cases for ask in (fault_of_topics, fault_of_log, fault_of_reader)]
    with ThreadPoolExecutor(len(asked)) as pool:
        faults = list(pool.map(lambda each: each[1](cases[each[0]][0]), asked))
    for (name, _), fault in zip(asked, faults, strict=True):
        _, kind, text = cases[name]
        assert type(fault) is kind, f"{name}: {fault}"
        assert re.search(text, str(fault)), f"{name}: {fault}"


def test_right_logins_are_answered(secured: SecuredBroker) -> None:
    for options in (secured.options(), secured.certified(secured.authority.issue(CLIENT_NAME))):
        assert Topics(KafkaSettings.parse(options)).names() == set()


def test_a_password_that_is_changed_while_a_client_lives_is_waited_for(secured: SecuredBroker) -> None:
    topics = Topics(KafkaSettings.parse(secured.options()), timeout_s=60.0)
    assert topics.names() == set()
    secured.set_password("another")
    topics._admin = topics._new_admin()  # as after a broken connection
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(topics.names)
        eventually(lambda: topics._reports.reason is not None, True)
        secured.set_password()
        assert asked.result(60.0) == set()
