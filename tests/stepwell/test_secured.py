"""A real broker with SASL, TLS, certificates of clients and an authorizer: logins that fail, and rights that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.checkpoints.truncation import REFUSED_SECONDS, Truncation
from coordinator.topic_names import log_topic_of, plan_topic_of, table_topic_of, transactional_id_of
from io_kafka.clients.open_transaction import OpenTransaction
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.rights import Right, acl_lines, may_use_transactional_id, missing_on_topics
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader, ensure_step_log
from io_kafka.clients.topics import Topics
from io_kafka.clients.transactions import OUTPUT_POINTS, Claimant, FencedLog
from io_kafka.clients.writer import PipelineWriter
from io_kafka.errors import (
    BrokerNotTrusted,
    CannotConnect,
    CertificateRefused,
    KafkaFault,
    LoginRefused,
    NotAuthorized,
    RightsMissing,
    UnknownHost,
    WrongProtocol,
)
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.records import DivisionRecord, InputRange, Record
from stepwell.doctor import rights
from stepwell.doctor.rights import WantedRights, right_checks
from tests.io_kafka.test_topics import eventually
from tests.secured_broker import CLIENT_NAME, SecuredBroker, words_of

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
        "unknown authority": (broker.options(ssl_ca_location=stranger), BrokerNotTrusted, "verified.*ssl.ca.location"),
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
    topics._requests.admin = topics._requests.new_admin()  # as after a broken connection
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(topics.names)
        eventually(lambda: topics._requests.reports.reason is not None, True)
        secured.set_password()
        assert asked.result(60.0) == set()


# Rights

NAME = "shop"
LOG, PLANS, ID = log_topic_of(NAME), plan_topic_of(NAME), transactional_id_of(NAME)
WANTED = WantedRights(
    {
        LOG: frozenset(rights.STEP_LOG),
        PLANS: frozenset(rights.PLANS),
        "orders": frozenset(rights.INPUT),
        "totals": frozenset(rights.OUTPUT),
        "letters": frozenset(rights.DEAD_LETTERS),
    },
    {LOG: frozenset(rights.STEP_LOG_LATER), "totals": frozenset(rights.REFRESH_UPSERT)},
    tables=True,
)
TABLE_RIGHTS = {Right("topic", table_topic_of(NAME, ""), each, is_prefix=True) for each in rights.TABLES}
"""All are granted on all tables of the pipeline, by one prefix."""


def of_topics() -> list[Right]:
    both = (WANTED.now, WANTED.later)
    return sorted({Right("topic", topic, each) for half in both for topic, those in half.items() for each in those})


@pytest.fixture(scope="module")
def allowed(secured: SecuredBroker) -> SecuredBroker:
    """All that the project needs is granted, and its topics are there but for the one of the plans."""
    topics = Topics(KafkaSettings.parse({"bootstrap.servers": secured.plain}))
    ensure_step_log(topics, LOG)
    for name in ("orders", "totals", "letters"):
        topics.ensure(name, 1)
    secured.allow([*of_topics(), *TABLE_RIGHTS, Right("transactional-id", ID, "Write")])
    return secured


def settings_of(broker: SecuredBroker) -> KafkaSettings:
    return KafkaSettings.parse(broker.options())


def found_missing(broker: SecuredBroker) -> set[str]:
    """The rights that doctor says are missing, as the lines say that it prints for an administrator."""
    settings = settings_of(broker)
    checks = right_checks(settings, Topics(settings), NAME, WANTED)
    assert [check.name for check in checks] == ["rights", "rights for later"]
    return {word for check in checks for line in check.commands for word in words_of(line)}


def test_doctor_finds_each_right_that_is_missing_and_no_other(allowed: SecuredBroker) -> None:
    eventually(lambda: found_missing(allowed), set())
    there = {LOG, "orders", "totals", "letters"}
    for right in [*of_topics(), *sorted(TABLE_RIGHTS), Right("transactional-id", ID, "Write")]:
        is_there = right.name in there or right.kind != "topic"
        if is_there == (right.operation == "Create"):
            continue  # Create is for topics that are not there, and all else for those that are
        allowed.take_away([right])
        eventually(lambda: found_missing(allowed), set(words_of(acl_lines(settings_of(allowed), [right])[0])))
        allowed.allow([right])
    eventually(lambda: found_missing(allowed), set())


def test_a_check_of_a_transactional_id_fences_nobody(allowed: SecuredBroker) -> None:
    settings = settings_of(allowed)
    writer = PipelineWriter(FencedLog(settings, ID, LOG))
    writer.log.start(Claimant(NAME, "h", 1))
    producer = writer.log._producer
    assert may_use_transactional_id(settings, ID)
    writer.log.append([division(writer)])
    assert writer.log._producer is producer, "the writer had to be renewed"
    writer.log.close()


def division(writer: PipelineWriter) -> DivisionRecord:
    step = writer.state.division_next
    return DivisionRecord(
        epoch=writer.epoch, step=step, ranges=(InputRange(topic="orders", partition=0, start=step, end=step + 1),)
    )


def test_a_writer_names_the_right_that_is_missing(allowed: SecuredBroker) -> None:
    """Neither the client nor the broker says which topic and which right."""
    settings = settings_of(allowed)
    for right in (Right("topic", LOG, "Write"), Right("transactional-id", ID, "Write")):
        allowed.take_away([right])
        eventually(lambda: found_missing(allowed), set(words_of(acl_lines(settings, [right])[0])))
        log = FencedLog(settings, ID, LOG)
        with pytest.raises(
            RightsMissing,
            match=rf"the claim of epoch .* has no right Write on {right.kind} {right.name}\. .*--operation Write",
        ):
            log.start(Claimant(NAME, "h", 1))
        allowed.allow([right])
    eventually(lambda: found_missing(allowed), set())
    log = FencedLog(settings, ID, LOG)
    log.start(Claimant(NAME, "h", 1))
    output = Right("topic", "totals", "Write")
    allowed.take_away([output])
    eventually(lambda: found_missing(allowed), set(words_of(acl_lines(settings, [output])[0])))

    def send(transaction: OpenTransaction) -> list[Record]:
        for topic in ("letters", "totals"):
            transaction.produce(TopicPartition(topic, 0), iter([(None, b"x")]), 1, {})
        transaction.flush()
        return []

    with pytest.raises(RightsMissing, match=r"^step 0 cannot be written: .* no right Write on topic totals\. "):
        log.transact(OUTPUT_POINTS, "step 0", send)
    allowed.allow([output])
    log.close()


def test_a_log_that_the_user_may_not_see_is_not_taken_for_one_that_is_gone(allowed: SecuredBroker) -> None:
    with pytest.raises(NotAuthorized, match=r"stepwell\.hidden\.steps"):
        StepLogReader(settings_of(allowed), log_topic_of("hidden")).read()


def test_nobody_needs_a_right_on_the_group(allowed: SecuredBroker) -> None:
    """`allowed` has granted none."""
    writer = PipelineWriter(FencedLog(settings_of(allowed), ID, LOG))
    writer.log.start(Claimant(NAME, "h", 1))
    writer.log.close()
    state = StepLogReader(settings_of(allowed), LOG).read()
    assert state.offset_next > 0


def test_a_log_that_cannot_be_truncated_is_told_once_an_hour(allowed: SecuredBroker) -> None:
    settings, now = settings_of(allowed), [0.0]
    writer = PipelineWriter(FencedLog(settings, ID, LOG))
    writer.log.start(Claimant(NAME, "h", 1))
    for _ in range(4):
        writer.log.append([division(writer)])
        writer.write_step(writer.state.steps, [], encoder="e")
        writer.log.append([writer.state.snapshot()])
    right = Right("topic", LOG, "Delete")
    allowed.take_away([right])
    eventually(lambda: found_missing(allowed), set(words_of(acl_lines(settings, [right])[0])))
    truncation = Truncation(Topics(settings), lambda: now[0])

    def make() -> tuple[int | None, int]:
        with capture_logs() as logs:
            point = truncation.make(writer.state, writer.state.steps, 1, 1)
        return point, sum("grant the right Delete" in line["event"] for line in logs)

    assert make() == (None, 1)
    assert make() == (None, 0)
    now[0] += REFUSED_SECONDS
    assert make() == (None, 1)
    allowed.allow([right])
    eventually(lambda: found_missing(allowed), set())
    assert make() == (None, 0)  # it was asked just now
    now[0] += REFUSED_SECONDS
    point, told = make()
    assert point is not None and told == 0
    writer.log.close()


def test_a_broker_without_an_authorizer_allows_everything(secured: SecuredBroker) -> None:
    """The administrator, who may do all, gets the same answers."""
    topics = Topics(KafkaSettings.parse({"bootstrap.servers": secured.plain}))
    assert missing_on_topics(topics, {"not-there": ("Create",), **WANTED.now}) == set()


@pytest.mark.long
def test_the_table_of_the_documents_is_that_of_doctor() -> None:
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    table = re.findall(
        r"^\| (.+?) \| (.*?) ?\| ?(.*?) ?\|$", text.split("| resource |")[1].split("\n\n")[0], re.MULTILINE
    )
    listed = [
        (cells[0].split("`")[1] if "`" in cells[0] else cells[0], cells[1], cells[2])
        for cells in table
        if "---" not in cells[0]
    ]
    both = f"{', '.join(rights.REFRESH_UPSERT)} of mode upsert, {', '.join(rights.REFRESH_OTHER)} of the other modes"
    assert listed == [
        ("stepwell.NAME.steps", ", ".join(rights.STEP_LOG), ", ".join(rights.STEP_LOG_LATER)),
        ("stepwell.NAME.plans", ", ".join(rights.PLANS), ""),
        ("each input topic", ", ".join(rights.INPUT), ""),
        ("each output topic", ", ".join(rights.OUTPUT), both),
        ("each topic of dead letters", ", ".join(rights.DEAD_LETTERS), ", ".join(rights.REFRESH_OTHER)),
        ("stepwell.NAME.table.*", ", ".join(rights.TABLES), ""),
        ("stepwell.NAME", "Write", ""),
    ]
