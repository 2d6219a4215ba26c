"""Which batch tables of a changed project are loaded, what a user may call them, and what becomes of the topics of loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from coordinator.revisions.document import PlanDocument
from coordinator.revisions.leaves import leaf_key
from coordinator.revisions.loads import (
    UnknownTable,
    chosen_tables,
    tables_to_load,
    with_loads,
    with_other_files,
    with_recorded_loads,
)
from coordinator.specification import InputTopic
from coordinator.starting.errors import TopicChanged
from coordinator.starting.topics.batch_tables import remove_lost_loads
from coordinator.topic_names import TABLE_PARTITIONS, is_table_topic, load_topic_of, table_topic_of
from coordinator.transition import loading
from coordinator.transition.loading import load_beside_steps
from engine.model.circuit import Circuit
from engine.run.source_table import SourceTable
from io_kafka.clients.topics import TopicFacts
from io_kafka.clients.writer_faults import Fenced
from io_kafka.errors import NotAuthorized
from io_kafka.formats.batches import TableFormat, rows_in
from io_kafka.formats.records import RecordFormat
from io_kafka.offsets import TopicPartition
from tests.coordinator.stepping.test_inputs import Clock, spec
from tests.io_kafka.formats.test_batches import records

COLUMNS = pa.schema({"n": pa.int64()})
DIGEST = "0123456789abcdef"


def table(handle: str, topic: str = "", columns: pa.Schema = COLUMNS) -> InputTopic:
    """As the files have it."""
    return InputTopic(
        SourceTable(handle, (topic or f"topic of {handle}",), TableFormat(handle, columns)), "earliest", "fail", None
    )


def recorded(handle: str, topic: str) -> InputTopic:
    """As a recorded project has it."""
    source = table(handle, topic)
    placed = replace(source.table, partitions=frozenset({TopicPartition(topic, 0)}))
    return replace(source, table=placed, starting_offsets='{"x": {"0": 7}}')


MESSAGES = InputTopic(SourceTable("m", ("m",), RecordFormat("m", COLUMNS)), "latest", "fail", None)


def test_the_files_get_the_loads_of_the_recorded_project() -> None:
    files, known = (
        (table("a"), MESSAGES, table("new")),
        (recorded("a", "load of a"), replace(MESSAGES, starting_offsets="x")),
    )
    made = with_recorded_loads(files, known)
    assert made == (recorded("a", "load of a"), MESSAGES, table("new")), (
        "sources of messages are as the files have them"
    )
    assert leaf_key(made[0]) == leaf_key(known[0])
    assert with_recorded_loads(made, known) == made


def test_what_is_new_is_reloaded_or_has_other_columns_is_loaded() -> None:
    known = tuple(recorded(name, f"load of {name}") for name in ("kept", "again", "wide"))
    wide = table("wide", columns=pa.schema({"n": pa.int64(), "m": pa.string()}))
    files = (table("kept"), table("again"), wide, table("new"), MESSAGES)
    made = with_loads(files, known, ["again"], "7f")
    assert made[0] == known[0] and made[4] == MESSAGES
    for source in made[1:4]:
        topic = f"topic of {source.table.handle}.7f"
        assert source.table.topics == (topic,) and source.starting_offsets == "earliest"
        assert source.table.partitions == {TopicPartition(topic, n) for n in range(TABLE_PARTITIONS)}
    assert made[2].table.format.schema == wide.table.format.schema
    assert [source.table.handle for source in tables_to_load(made, known)] == ["again", "wide", "new"]
    assert tables_to_load(known, known) == ()
    assert len({leaf_key(source) for source in (*made[:4], *known)}) == 6, (
        "the load is a part of what a source is known by"
    )


def test_a_kept_load_is_of_the_files_that_were_loaded() -> None:
    """What the files are now is a note, and is recorded with the next load."""
    files = tuple(replace(table(name), files="now") for name in ("same", "other", "unknown", "again"))
    known = tuple(
        replace(recorded(name, f"load of {name}"), files=then)
        for name, then in (("same", "now"), ("other", "then"), ("unknown", ""), ("again", "then"))
    )
    assert with_other_files(files, known) == {"other", "again"}
    assert with_other_files([table("other")], known) == frozenset(), "it is not known now"
    assert [source.files for source in with_loads(files, known, ["again"], "7f")] == ["now", "then", "", "now"]
    assert [source.files for source in with_recorded_loads(files, known)] == ["now", "then", "", "then"]


@pytest.mark.parametrize(
    ("name", "handles"),
    [
        ("csv file:/data/sales.csv #11111111", ["csv file:/data/sales.csv #11111111"]),
        ("sales.csv", ["csv file:/data/sales.csv #11111111", "csv file:/data/sales.csv #22222222"]),
        ("data/sales.csv", ["csv file:/data/sales.csv #11111111", "csv file:/data/sales.csv #22222222"]),
        ("/data/sales.csv", ["csv file:/data/sales.csv #11111111", "csv file:/data/sales.csv #22222222"]),
        ("csv file:/data/sales.csv", ["csv file:/data/sales.csv #11111111", "csv file:/data/sales.csv #22222222"]),
        ("b/", ["parquet s3a://x/a, s3a://x/b and 3 more #33333333"]),
        ("a", ["parquet s3a://x/a, s3a://x/b and 3 more #33333333"]),
        ("planes", ["table spark_catalog.db.planes #44444444"]),
        ("db.planes", ["table spark_catalog.db.planes #44444444"]),
        ("one/part", ["json file:/one/part #55555555"]),
    ],
)  # fmt: skip
def test_the_first_parts_of_a_name_can_be_left_out(name: str, handles: list[str]) -> None:
    assert chosen_tables([name], TABLES) == tuple(handles)
    assert chosen_tables([name, name], TABLES) == tuple(handles)


TABLES = (
    *(table(f"csv file:/data/sales.csv #{digit * 8}") for digit in "12"),
    table("parquet s3a://x/a, s3a://x/b and 3 more #33333333"),
    table("table spark_catalog.db.planes #44444444"),
    table("json file:/one/part #55555555"),
    table("json file:/other/part #66666666"),
    MESSAGES,
)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("part", "--reload part: several batch tables of the project have this name: json file:/one/part #55555555; json file:/other"),
        ("ales.csv", "--reload ales.csv: no batch table of the project has this name; they are: csv file:/data/sales.csv #11111111; csv"),
        ("lanes", "--reload lanes: no batch table"),
        ("m", "--reload m: no batch table"),
        ("", "--reload : no batch table"),
        ("/", "--reload /: no batch table"),
    ],
)  # fmt: skip
def test_a_name_that_says_nothing_or_too_much_is_refused(name: str, error: str) -> None:
    with pytest.raises(UnknownTable) as raised:
        chosen_tables([name], TABLES)
    assert str(raised.value).startswith(error), str(raised.value)
    with pytest.raises(UnknownTable, match="it reads none"):
        chosen_tables([name], [MESSAGES])


def test_the_topics_of_a_pipelines_loads_are_told_from_all_others() -> None:
    first = table_topic_of("p", DIGEST)
    assert is_table_topic("p", first) and is_table_topic("p", load_topic_of(first, "7f"))
    others = ("stepwell.p.steps", "stepwell.p.table.steps", f"{first}.steps", f"{first}.plans", f"x{first}", "in")
    assert not any(is_table_topic("p", topic) for topic in others)
    assert not is_table_topic("p.table", first) and not is_table_topic("x", first)
    assert not is_table_topic("p", table_topic_of("p.table", DIGEST)), "of a pipeline with a longer name"
    assert not is_table_topic("a.b", table_topic_of("axb", DIGEST))


# What becomes of the topics


@dataclass
class Kafka:
    """Topics, and a writer beside them. `done`: what has happened, in order."""

    there: set[str]
    recorded: Mapping[str, Any] = field(default_factory=dict)
    fault: Exception | None = None
    is_fenced: bool = False
    done: list[str] = field(default_factory=list)

    @property
    def log(self) -> Kafka:
        return self

    @property
    def state(self) -> Any:
        return SimpleNamespace(tables=self.recorded)

    def names(self) -> set[str]:
        self.done.append("names")
        return set(self.there)

    def confirm(self) -> None:
        self.done.append("confirm")
        if self.is_fenced:
            raise Fenced("p", 0, None)

    def delete(self, names: Iterable[str]) -> None:
        if self.fault is not None:
            raise self.fault
        self.done.append("delete")
        self.there -= set(names)


FIRST, SECOND = table_topic_of("p", DIGEST), load_topic_of(table_topic_of("p", DIGEST), "7f")
OTHERS = {"in", "stepwell.p.steps", table_topic_of("p2", DIGEST)}


def test_the_loads_that_no_record_names_are_deleted_after_it_is_sure_that_nobody_has_taken_over() -> None:
    kafka = Kafka({FIRST, SECOND, *OTHERS}, {SECOND: None})
    remove_lost_loads("p", kafka, kafka)  # type: ignore[arg-type]
    assert kafka.there == {SECOND, *OTHERS} and kafka.done == ["names", "confirm", "delete"]
    kafka.done.clear()
    remove_lost_loads("p", kafka, kafka)  # type: ignore[arg-type]
    assert kafka.done == ["names"], "nothing is left to do"


def test_a_run_that_was_fenced_deletes_nothing() -> None:
    kafka = Kafka({FIRST, SECOND}, is_fenced=True)
    with pytest.raises(Fenced):
        remove_lost_loads("p", kafka, kafka)  # type: ignore[arg-type]
    assert kafka.there == {FIRST, SECOND}


def test_a_topic_that_may_not_be_deleted_ends_no_run() -> None:
    kafka = Kafka({FIRST}, fault=NotAuthorized("topic", "deleting it", "no"))
    remove_lost_loads("p", kafka, kafka)  # type: ignore[arg-type]
    assert kafka.there == {FIRST}


# Loads beside the steps


@dataclass
class Broker:
    """The topics of loads. `partitions`: of a topic that is made."""

    partitions: int = TABLE_PARTITIONS
    messages: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)

    def ensure(self, name: str, partitions: int, config: Mapping[str, str], *, replication: int) -> TopicFacts:
        assert name not in self.messages and partitions == TABLE_PARTITIONS and config["retention.ms"] == "-1"
        self.messages[name] = []
        return TopicFacts(name, f"id of {name}", self.partitions, {})

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self.messages.pop(name, None)

    def writer(self, settings: object, topic: str) -> Any:
        ends: dict[int, int] = {}

        def write(messages: Mapping[int, list[bytes]]) -> None:
            for number, values in messages.items():
                self.messages[topic] += [(number, value) for value in values]
                ends[number] = ends.get(number, 0) + len(values)

        return SimpleNamespace(ends=ends, write=write)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(loading, "TableWriter", made.writer)
    return made


def rows(handle: str) -> Iterator[pa.RecordBatch]:
    for numbers in ([1, 2], [3]) if handle != "empty" else ():
        yield pa.record_batch({"n": pa.array(numbers, pa.int32())})
    if handle == "broken":
        raise TopicChanged("broken", "")


def load(broker: Broker, *handles: str) -> Any:
    tables = [table(handle) for handle in handles]
    return load_beside_steps(spec(Clock(), 4), tables, 3, broker, rows)  # type: ignore[arg-type]


def test_the_record_of_a_load_has_all_its_rows(broker: Broker) -> None:
    one, empty = load(broker, "one", "empty")
    assert (one.rows, one.epoch, one.is_whole, one.topic.id) == (3, 3, True, "id of topic of one")
    assert [(r.start, r.end) for r in one.ranges] == [(0, 1), (0, 1), *[(0, 0)] * 6]
    written = [value for _, value in broker.messages["topic of one"]]
    assert sorted(rows_in(TableFormat("one", COLUMNS), records(written))["c0"].to_pylist()) == [1, 2, 3]
    assert empty.rows == 0 and empty.is_whole and not any(r.end for r in empty.ranges)


@pytest.mark.parametrize("handles", [("broken",), ("one", "broken"), ("broken", "one")])
def test_a_load_that_fails_leaves_no_topic(broker: Broker, handles: tuple[str, ...]) -> None:
    with pytest.raises(TopicChanged, match="broken"):
        load(broker, *handles)
    assert not broker.messages


def test_a_topic_that_somebody_else_has_made_is_not_used(broker: Broker) -> None:
    broker.partitions = 1
    with pytest.raises(TopicChanged, match="with 1 partitions by somebody else"):
        load(broker, "one")


def test_a_document_of_a_project_has_the_load_of_a_table() -> None:
    """So the project that a run goes on with is that of the record, whatever its files name."""
    document = PlanDocument(circuit=Circuit(()), numbers=(), inputs=(recorded("a", "load of a"),), outputs=())
    (source,) = with_recorded_loads([table("a")], document.inputs)
    assert source == document.inputs[0]
