"""What the settings of topics mean for inputs and outputs of each mode."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql.types import StructType

from base.options import Mode
from io_kafka.clients.topics import TopicFacts
from stepwell.doctor.check import Check
from stepwell.doctor.topic_rules import input_check, output_check
from stepwell.errors import Location
from stepwell.project.tables import OutputSpec, SourceSpec

HERE = Location("a.sql", 1)
DAY_MS = str(24 * 3600 * 1000)
COMPACTED = {"cleanup.policy": "compact", "retention.ms": DAY_MS, "retention.bytes": "1000"}
BOTH_BY_TIME = {"cleanup.policy": "compact,delete", "retention.ms": DAY_MS, "retention.bytes": "-1"}
BOTH_BY_SIZE = {"cleanup.policy": "delete,compact", "retention.ms": "-1", "retention.bytes": "1000"}
BOTH_WITHOUT_LIMIT = {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}
BY_TIME = {"cleanup.policy": "delete", "retention.ms": DAY_MS, "retention.bytes": "-1"}
BY_SIZE = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1000"}
FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def _facts(config: dict[str, str]) -> TopicFacts:
    return TopicFacts("topic", "id", 2, config)


def _input(config: dict[str, str], mode: Mode, key: tuple[str, ...] = (), begins: str = "earliest") -> Check:
    source = SourceSpec("s", ("topic",), mode, key, StructType(), begins, "fail", None, HERE)
    return input_check(_facts(config), source, checkpoint_interval_s=10.0)


def _output(config: dict[str, str], mode: Mode) -> Check:
    output = OutputSpec(handle="v", topic="topic", mode=mode, key=("k",), partitions=None, location=HERE)
    return output_check(_facts(config), output)


@pytest.mark.parametrize(
    ("mode", "key", "level"),
    [("upsert", ("k",), "OK"), ("changelog", ("k",), "OK"), ("changelog", (), "FAIL"), ("append", (), "FAIL")],
)
def test_compaction_is_right_where_the_last_message_of_a_key_is_its_row(
    mode: Mode, key: tuple[str, ...], level: str
) -> None:
    """Debezium's topics are often compacted, and their tables have a key."""
    for config in (COMPACTED, BOTH_WITHOUT_LIMIT):
        assert _input(config, mode, key).level == level


@pytest.mark.parametrize(("mode", "key"), [("upsert", ("k",)), ("changelog", ("k",)), ("changelog", ())])
def test_old_rows_of_a_table_are_missing_where_messages_expire(mode: Mode, key: tuple[str, ...]) -> None:
    for config, limit in ((BY_TIME, f"retention.ms={DAY_MS}"), (BY_SIZE, "retention.bytes=1000")):
        check = _input(config, mode, key)
        assert check.level == "WARN" and f"messages expire ({limit})" in check.found
        assert ("compact" in check.what_to_do) == bool(key)
        assert "rebuild" not in _input(config, mode, key, begins="latest").found
    assert _input(FOREVER, mode, key).level == "OK"


def test_compaction_does_not_keep_what_the_policy_deletes_too() -> None:
    for config, limit in ((BOTH_BY_TIME, "retention.ms"), (BOTH_BY_SIZE, "retention.bytes")):
        for check in (_input(config, "upsert", ("k",)), _output(config, "upsert")):
            assert check.level == "WARN" and f"messages expire ({limit}=" in check.found
    assert _output(BOTH_WITHOUT_LIMIT, "upsert").level == _output(COMPACTED, "upsert").level == "OK"
    assert _output(FOREVER, "upsert").level == "WARN"


def test_input_that_expires_by_size_may_be_lost_before_it_is_in_a_checkpoint() -> None:
    check = _input(BY_SIZE, "append")
    assert check.level == "WARN" and check.found.startswith("retention.bytes is 1000")
    assert _input(BY_TIME, "append").level == _input(FOREVER, "append").level == "OK"
    assert _input({**BY_TIME, "retention.ms": "99999"}, "append").level == "FAIL"
    assert _input({**COMPACTED, "retention.ms": "1"}, "upsert", ("k",)).level == "OK", "nothing expires"


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_a_tombstone_has_to_stay_until_it_is_read(mode: Mode) -> None:
    short = {**COMPACTED, "delete.retention.ms": str(int(DAY_MS) - 1)}
    check = _input(short, mode, ("k",))
    assert check.level == "WARN" and check.found.startswith("delete.retention.ms is 86399999")
    assert f"to {DAY_MS} at least" in check.what_to_do
    assert _input({**COMPACTED, "delete.retention.ms": DAY_MS}, mode, ("k",)).level == "OK"
    assert _input({**FOREVER, "delete.retention.ms": "0"}, mode, ("k",)).level == "OK", (
        "nothing removes tombstones there"
    )
    source = SourceSpec("s", ("topic",), mode, ("k",), StructType(), "earliest", "fail", None, HERE)
    day_s = int(DAY_MS) / 1e3
    check = input_check(_facts({**COMPACTED, "delete.retention.ms": DAY_MS}), source, checkpoint_interval_s=day_s)
    assert check.level == "WARN", "after a crash, what came since the checkpoint is read again"


@pytest.mark.parametrize("mode", ["upsert", "changelog"])
def test_messages_stay_until_no_step_is_replayed_with_them(mode: Mode) -> None:
    """Ten checkpoint intervals of 10 s."""
    check = _input({**COMPACTED, "min.compaction.lag.ms": "99999"}, mode, ("k",))
    assert check.level == "WARN" and check.found.startswith("min.compaction.lag.ms is 99999")
    assert "to 100000 at least" in check.what_to_do
    assert _input({**COMPACTED, "min.compaction.lag.ms": "100000"}, mode, ("k",)).level == "OK"
    assert _input({**FOREVER, "min.compaction.lag.ms": "0"}, mode, ("k",)).level == "OK", "nothing is compacted there"


def test_an_output_of_rows_keeps_each_message_of_a_key() -> None:
    modes: tuple[Mode, ...] = ("append", "changelog")
    for mode in modes:
        assert _output(BY_TIME, mode).level == "OK"
        assert _output(BOTH_BY_TIME, mode).level == "FAIL"
    output = OutputSpec(handle="v", topic="topic", mode="append", key=(), partitions=3, location=HERE)
    assert output_check(_facts(FOREVER), output).found == "2 partitions, and 'partitions' = 3"
    assert output_check(_facts(FOREVER), replace(output, partitions=2)).level == "OK"
