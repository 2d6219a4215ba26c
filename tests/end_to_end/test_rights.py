"""A pipeline whose user has exactly the rights of docs/security.md, on a broker with an authorizer; and then one less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from base.fault import ExitCode, exit_code_of
from coordinator.topic_names import transactional_id_of
from io_kafka.clients.rights import Right
from io_kafka.clients.topics import Topics
from io_kafka.errors import KafkaFault, NotAuthorized
from stepwell.doctor.rights import right_checks, wanted_by
from stepwell.project.tables import OutputSpec
from storage.database import Database
from tests.end_to_end.harness import Playground, Resolved, wait_until
from tests.secured_broker import SecuredBroker, words_of
from tests.small_jobs import small

FILES = {
    "views.sql": """
CREATE STREAMING TABLE numbers (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = '@in', 'on.error' = 'dead-letter');
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@sums', 'mode' = 'upsert', 'key' = 'k') AS
  SELECT k, sum(n) AS total FROM numbers GROUP BY k;
CREATE MATERIALIZED VIEW large TBLPROPERTIES ('topic' = '@large', 'mode' = 'append') AS SELECT k, n FROM numbers WHERE n > 1;
"""
}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(tmp_path_factory.mktemp("secured")).start()
    yield broker
    broker.stop()


@pytest.fixture
def play(spark: SparkSession, secured: SecuredBroker, tmp_path: Path, topic_prefix: str) -> Iterator[Playground]:
    """The test itself is the administrator, who may do everything."""
    yield Playground(small(spark), secured.plain, tmp_path, topic_prefix)
    Database.close_all()


class Restricted:
    """The project of FILES, run by a user who may do what doctor says that it has to be able to do."""

    def __init__(self, play: Playground, broker: SecuredBroker) -> None:
        self.play, self.broker = play, broker
        play.topic("in")
        play.send("in", [{"k": "a", "n": 1}, {"k": "b", "n": 5}, "rubbish"])
        self.options = broker.options()
        self.resolved: Resolved = play.resolve(FILES, {f"kafka.{name}": value for name, value in self.options.items()})
        self.name = self.resolved.spec.name
        settings = self.resolved.spec.kafka
        self.settings, self.topics = settings, Topics(settings)
        self.wanted = wanted_by(self.name, play.topics, self.resolved.project.sources, self.outputs)
        broker.allow([*self.rights(), Right("transactional-id", transactional_id_of(self.name), "Write")])
        wait_until(lambda: self.missing() == set())

    @property
    def outputs(self) -> list[OutputSpec]:
        return [view.output for view in self.resolved.project.views if view.output is not None]

    def rights(self) -> list[Right]:
        halves = (self.wanted.now, self.wanted.later)
        return sorted({Right("topic", name, each) for half in halves for name, those in half.items() for each in those})

    def missing(self) -> set[str]:
        checks = right_checks(self.settings, self.topics, self.name, self.wanted)
        return {word for check in checks for line in check.commands for word in words_of(line)}

    def without(self, *rights: Right) -> None:
        """Takes these rights away, and waits until the broker knows."""
        before = self.missing()
        self.broker.take_away(rights)
        wait_until(lambda: self.missing() != before)

    def refused(self, text: str, **options: bool) -> None:
        try:
            self.play.run(self.resolved, **options)
        except KafkaFault as fault:
            assert re.search(text, str(fault)) and exit_code_of(fault) == ExitCode.KAFKA, f"expected {text}: {fault}"
        else:
            raise AssertionError(f"not refused, where this was expected: {text}")


def test_the_rights_of_the_table_suffice_and_a_full_refresh_is_refused_before_it_begins(
    play: Playground, secured: SecuredBroker
) -> None:
    restricted = Restricted(play, secured)
    resolved = restricted.resolved
    play.run(resolved)
    assert play.check(resolved) == {"sums": 2, "large": 1}
    restricted.broker.take_away([right for right in restricted.rights() if right.operation == "Create"])
    play.send("in", [{"k": "a", "n": 7}])
    play.run(resolved)  # the topics are there now
    large, sums = (
        Right("topic", f"{play.prefix}{name}", what) for name, what in (("large", "Delete"), ("sums", "Read"))
    )
    for right in (large, sums):
        restricted.without(right)
        before = play.log(resolved).offset_next
        restricted.refused(
            rf"a full refresh: .* has no right {right}\. Nothing was changed.*kafka-acls.*--operation {right.operation}",
            full_refresh=True,
        )
        assert play.log(resolved).refresh is None and play.log(resolved).generation == 0
        assert before < play.log(resolved).offset_next  # the claim
        secured.allow([right])
        wait_until(lambda: restricted.missing() == set())
    play.run(resolved)
    play.run(resolved, full_refresh=True)
    assert play.check(resolved) == {"sums": 2, "large": 2} and play.log(resolved).generation == 1


def test_a_topic_that_the_user_may_not_see_is_not_taken_for_one_that_was_deleted(
    play: Playground, secured: SecuredBroker
) -> None:
    """The broker does not list a topic to a user without any right on it. With the rights given back the pipeline goes on."""
    restricted = Restricted(play, secured)
    play.run(restricted.resolved)
    play.send("in", [{"k": "a", "n": 7}])
    for name in ("sums", "in"):
        topic = play.prefix + name
        rights = [right for right in restricted.rights() if right.name == topic]
        restricted.without(*rights)
        wait_until(lambda topic=topic: topic not in restricted.topics.names())
        restricted.refused(rf"topic '{topic}': the broker refuses .*Grant it")
        with pytest.raises(NotAuthorized, match=topic):
            restricted.topics.existing([topic])
        secured.allow(rights)
        wait_until(lambda: restricted.missing() == set())
        assert restricted.topics.existing([topic]) == {topic}
    play.run(restricted.resolved)
    assert play.check(restricted.resolved) == {"sums": 2, "large": 2}


REFUSED: Mapping[tuple[str, str], str] = {
    ("steps", "Read"): "reading the step log",
    ("steps", "Write"): "no right Write on topic .*steps",
    ("steps", "DescribeConfigs"): "describing the topics .*steps",
    ("plans", "Read"): "plans.*Topic authorization failed",
    ("in", "Read"): "in'?.*Topic authorization failed",
    ("in", "DescribeConfigs"): "describing the topics .*in",
    ("sums", "Write"): "no right Write on topic .*sums",
    ("sums", "DescribeConfigs"): "describing the topics .*sums",
    ("large", "Write"): "no right Write on topic .*large",
    ("dead-letter", "Write"): "no right Write on topic .*dead-letter",
}
"""By the end of the topic's name and the operation: what the fault of a run says that needs it. Write and DescribeConfigs on the plan documents
are needed only for a project that has changed."""


@pytest.mark.soak
def test_a_run_without_one_of_the_rights_names_it(play: Playground, secured: SecuredBroker) -> None:
    restricted = Restricted(play, secured)
    play.run(restricted.resolved)
    for (topic, operation), text in REFUSED.items():
        name = next(each for each in restricted.wanted.now if each.endswith(topic))
        right = Right("topic", name, operation)  # type: ignore[arg-type]
        play.send("in", [{"k": "a", "n": 7}, "rubbish"])
        restricted.without(right)
        assert restricted.missing() == {str(right)}
        restricted.refused(text)
        secured.allow([right])
        wait_until(lambda: restricted.missing() == set())
    play.run(restricted.resolved)
    play.check(restricted.resolved)
