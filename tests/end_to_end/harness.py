"""A project on real Spark, real Kafka and real LMDB, in one test's own folder and under its own topic names.

`@` in a definition stands for the test's prefix. What a run wrote is read back by a plain confluent consumer, which shares no code with
ours, and is compared with Spark's batch answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from coordinator.goal import Goal
from coordinator.pipeline import Pipeline
from coordinator.requests import Requests
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.topics.batch_tables import TableRows
from coordinator.status import StatusBoard
from coordinator.stepping.dividing import Dividing
from engine.resident.launcher import Cluster
from engine.resident.spark_launcher import spark_cluster
from examples.batch import Comparison, TopicMessage, batch_answer, compare, published
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.clients.writer import STEP_HEADER
from io_kafka.offsets import OffsetRange
from io_kafka.step_log.division import Division
from io_kafka.step_log.records import StepRecord, decode
from io_kafka.step_log.state import StepLogState
from protocols.planners import PLANNERS
from stepwell.lowering.driver import lower
from stepwell.planning.batch_tables import BatchTable, rows_reader
from stepwell.planning.pipeline import pipeline_spec, plan_project
from stepwell.planning.plans import ResolvedProject
from stepwell.planning.resolver import resolve
from stepwell.project.loading import load_project
from tests.end_to_end.oracle import Answer, Batch, Ends, Messages, Oracle, Story, Watched
from tests.end_to_end.threads import ThreadLauncher, threads
from tests.settled import settled_log
from tests.small_jobs import SETTINGS

READ_SECONDS_MAX = 30.0
ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS_MAX = 90.0
"""For what takes a second or two on a quiet machine."""
LOOK_SECONDS = 0.02

Value = Mapping[str, Any] | str | bytes | None


class Message(NamedTuple):
    """As a consumer outside of the project sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp: tuple[int, int]
    """As the client has it: the type, 1 for the producer's and 2 for the broker's, and milliseconds."""

    @property
    def as_input(self) -> TopicMessage:
        kind, milliseconds = self.timestamp
        return TopicMessage(self.partition, self.offset, self.key, self.value, milliseconds, kind - 1, self.headers)

    @property
    def content(self) -> tuple[Any, ...]:
        """What two runs must agree on: neither the offset (markers take some too) nor the time."""
        return self.partition, self.key, self.value, self.headers

    @property
    def step(self) -> int:
        return int(dict(self.headers)[STEP_HEADER])


@dataclass(frozen=True)
class Resolved:
    """A project and the pipeline that it is."""

    project: ResolvedProject
    spec: PipelineSpec

    def at_pace(self, **changes: Any) -> Resolved:
        """The same, whose coordinator does what no step waits for at another pace."""
        return replace(self, spec=replace(self.spec, pace=replace(self.spec.pace, **changes)))


class Running:
    """A pipeline in a thread of its own. `fault`: what ended it, if not a stop."""

    def __init__(self, resolved: Resolved, cluster: Cluster, table_rows: TableRows, options: Mapping[str, Any]) -> None:
        self.requests, self.board = Requests(), StatusBoard(resolved.spec.name)
        self.pipeline = Pipeline(
            resolved.spec, cluster, self.requests, self.board, table_rows=table_rows, planners=PLANNERS
        )
        self.fault: BaseException | None = None
        self.options = options
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.pipeline.run(**self.options)
        except BaseException as fault:
            self.fault = fault

    def wait_until(self, reached: Callable[[dict[str, Any]], bool]) -> None:
        """Until the status is so; fails where the run ends first, or never gets there."""
        wait_until(lambda: self.fault is not None or reached(self.board.show()))
        if self.fault is not None:
            raise self.fault


def has_workers(workers: int) -> Callable[[dict[str, Any]], bool]:
    """Whether so many workers own the slots, and no change of that is under way, by a status."""

    def reached(status: dict[str, Any]) -> bool:
        return "change" not in status["layout"] and len(status["layout"]["members"]) == workers

    return reached


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not reached():
        assert time.monotonic() < deadline, f"not reached in {WAIT_SECONDS_MAX} s"
        time.sleep(LOOK_SECONDS)


def _leave_memory() -> None:
    """A service collects all garbage once before its steps. The tests' process is larger, and has hundreds of runs of a moment."""


@dataclass
class Playground:
    """One test's folder and topics on the shared session and broker."""

    spark: SparkSession
    servers: str
    folder: Path
    prefix: str
    tables: dict[str, BatchTable] = field(default_factory=dict)
    """Of all projects, as they were resolved last."""

    # Definitions

    def table_rows(self, handle: str) -> Iterator[pa.RecordBatch]:
        """Also of a project to which a transition leads, as a service has it."""
        return rows_reader(self.tables)(handle)

    def write(self, files: Mapping[str, str], conf: Mapping[str, Any] | None = None) -> Path:
        """Writes a project; returns its file."""
        usual = {"kafka.bootstrap.servers": self.servers, "stepwell.topics.partitions": 2, **SETTINGS}
        configuration = {**usual, **(conf or {})}
        lines = "".join(f"  {key}: '{value}'\n" for key, value in configuration.items())
        spec = self.folder / "spark-pipeline.yml"
        spec.write_text(
            f"name: {self.prefix}pipeline\nstorage: state\nconfiguration:\n{lines}"
            "libraries:\n  - glob:\n      include: transformations/**\n"
        )
        for name, text in files.items():
            path = self.folder / "transformations" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace("@@", "\0").replace("@", self.prefix).replace("\0", "@"))
        return spec

    def resolve(self, files: Mapping[str, str], conf: Mapping[str, Any] | None = None) -> Resolved:
        return self.resolve_written(self.write(files, conf))

    def resolve_written(self, spec_file: Path) -> Resolved:
        """The project of a file that `write` has written."""
        project = resolve(load_project(spec_file), self.spark)
        self.tables.update(project.tables)
        spec = pipeline_spec(project.project, plan_project(project, lower(project)))
        outside = replace(spec.kafka.outside, freeze_memory=_leave_memory)
        return Resolved(project, replace(spec, kafka=replace(spec.kafka, outside=outside)))

    # Kafka

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers})

    @cached_property
    def topics(self) -> Topics:
        return Topics(self.settings)

    @property
    def settings(self) -> KafkaSettings:
        return KafkaSettings.parse({"bootstrap.servers": self.servers})

    def topic(self, name: str, partitions: int = 1) -> None:
        new = NewTopic(self.prefix + name, num_partitions=partitions, replication_factor=-1)  # the broker's default
        self.admin.create_topics([new], operation_timeout=20)[self.prefix + name].result()

    def delete_topic(self, name: str) -> None:
        topic = self.prefix + name
        self.admin.delete_topics([topic], operation_timeout=20)[topic].result()
        # The controller answers before the broker knows. Until then it takes messages of a topic that is made again into the old one.
        wait_until(lambda: topic not in self.admin.list_topics(timeout=READ_SECONDS_MAX).topics)

    def grow(self, name: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(self.prefix + name, partitions)], operation_timeout=20)[
            self.prefix + name
        ].result()
        # A producer whose metadata is older than the partition takes a message for it as sent to nowhere.
        wait_until(lambda: len(self.topics.partitions([self.prefix + name])) == partitions)

    def send(
        self,
        name: str,
        messages: Iterable[Value | tuple[Value, Value]],
        partition: int = 0,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        timestamp: int = 0,
    ) -> None:
        """Values, or pairs of key and value, to one partition, in order. `timestamp`: milliseconds; 0 is now."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 1, "queue.buffering.max.messages": 2_000_000}
        )
        lost: list[KafkaError] = []
        for message in messages:
            key, value = message if isinstance(message, tuple) else (None, message)
            more = {"headers": None if headers is None else list(headers), "timestamp": timestamp}
            producer.produce(
                self.prefix + name,
                value=as_bytes(value),
                key=as_bytes(key),
                partition=partition,
                on_delivery=lambda error, _: lost.append(error) if error is not None else None,
                **more,
            )
        assert producer.flush(READ_SECONDS_MAX) == 0 and not lost, lost[:3]

    def read(self, name: str, *, prefixed: bool = True) -> list[Message]:
        """Every committed message of a topic, by partition and offset."""
        topic = self.prefix + name if prefixed else name
        return self.read_all([topic])[topic]

    def read_all(self, topics: Collection[str]) -> dict[str, list[Message]]:
        """The same of several topics, by one consumer. The names have their prefix."""
        config = {
            "bootstrap.servers": self.servers,
            "group.id": "outsider",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 5,
        }
        found: dict[str, list[Message]] = {topic: [] for topic in topics}
        with closing(Consumer(config)) as consumer:
            open_partitions = {
                (topic, partition)
                for topic in found
                for partition in consumer.list_topics(topic, timeout=READ_SECONDS_MAX).topics[topic].partitions
            }
            consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in open_partitions])
            while open_partitions:
                message = consumer.poll(READ_SECONDS_MAX)
                assert message is not None, f"{open_partitions}: no end in {READ_SECONDS_MAX} s"
                topic, place, error = message.topic(), (message.partition(), message.offset()), message.error()
                if error is None:
                    headers = tuple((name, value) for name, value in message.headers() or ())
                    found[topic].append(Message(*place, message.key(), message.value(), headers, message.timestamp()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard((topic, message.partition()))
                else:
                    raise AssertionError(f"{topic}: {error}")
        return {topic: sorted(those, key=lambda m: (m.partition, m.offset)) for topic, those in found.items()}

    # Runs

    def tasks(self, resolved: Resolved) -> Cluster:
        """Workers as a service has them: each is a task of Spark. They are for a test that is about processes, because a run takes four times as
        long as with workers in threads, which do the same."""
        return spark_cluster(self.spark.sparkContext, resolved.spec.name)

    def run(
        self,
        resolved: Resolved,
        cluster: Cluster | None = None,
        board: StatusBoard | None = None,
        requests: Requests | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Takes what is there, makes a checkpoint; the last status. `cluster`: workers in threads (threads.py), if it is not given."""
        cluster, board = cluster or threads(), board or StatusBoard(resolved.spec.name)
        try:
            pipeline = Pipeline(
                resolved.spec, cluster, requests or Requests(), board, table_rows=self.table_rows, planners=PLANNERS
            )
            pipeline.run(**{"goal": Goal.READ_AVAILABLE, **options})
        finally:
            wait_for_threads(cluster)
        return board.show()

    @contextmanager
    def running(self, resolved: Resolved, cluster: Cluster | None = None, **options: Any) -> Iterator[Running]:
        """A run that goes on until it is asked to stop; it is stopped at the end of the block."""
        cluster = cluster or threads()
        run = Running(resolved, cluster, self.table_rows, options)
        run.thread.start()
        try:
            yield run
        finally:
            run.requests.ask("stop")
            run.thread.join(WAIT_SECONDS_MAX)
            assert not run.thread.is_alive(), "the run does not stop"
            wait_for_threads(cluster)

    def log(self, resolved: Resolved) -> StepLogState:
        return settled_log(self.settings, resolved.spec.log_topic)

    # What must hold

    def oracle(self, resolved: Resolved) -> Oracle:
        """To be opened before the first run."""
        views = [
            Watched(view.name, view.output.topic, view.output.mode)
            for view in resolved.project.views
            if view.output is not None
        ]
        return Oracle(self.servers, resolved.spec.log_topic, views)

    def batch(self, resolved: Resolved) -> Batch:
        """Spark's answer, one evaluation of the whole project a boundary: for a few of them."""

        def answer(inputs: Messages, ends: Ends) -> dict[str, Answer]:
            below: dict[str, list[TopicMessage]] = {}
            for place, messages in inputs.items():
                kept = [
                    TopicMessage(place[1], m.offset, m.key, m.value) for m in messages if m.offset < ends.get(place, 0)
                ]
                below.setdefault(place[0], []).extend(kept)
            return {view: answer_of(frame) for view, frame in batch_answer(resolved.project, below).items()}

        return lambda inputs, boundaries: [answer(inputs, ends) for ends in boundaries]

    def twin(self, resolved: Resolved, story: Story, workers: int) -> dict[str, str]:
        """Runs the pipeline again without a fault, over the divisions of `story`, with state and output topics of its own; the oracle's twin."""
        other = renamed(resolved, "-twin", workers)

        def divide(_: Dividing, step: int, *__: Any) -> Division | None:
            ranges = sorted((*place, *span) for place, span in story.ranges.get(step, {}).items())
            return Division(step, tuple(OffsetRange(*r) for r in ranges)) if ranges else None

        with patch.object(Dividing, "divide", divide):
            self.run(other, threads())
        outputs = zip(resolved.spec.outputs, other.spec.outputs, strict=True)
        return {one.topic: two.topic for one, two in outputs}

    def check(self, resolved: Resolved, views: Sequence[str] | None = None) -> dict[str, int]:
        """Every published view is what Spark's batch answer says; its number of rows by view."""
        sources = {topic for source in resolved.project.sources for topic in source.topics}
        chosen = [view for view in resolved.project.views if view.output and (views is None or view.name in views)]
        there = self.read_all(sources | {view.output.topic for view in chosen if view.output})
        messages = {topic: [m.as_input for m in those] for topic, those in there.items()}
        expected = batch_answer(resolved.project, {topic: messages[topic] for topic in sources})
        found: list[Comparison] = []
        for view in chosen:
            assert view.output is not None
            given = published(self.spark, view, messages[view.output.topic])
            found.append(compare(view.name, given, expected[view.name]))
        assert all(view.equal for view in found), "\n".join(str(view) for view in found if not view.equal)
        return {view.view: view.rows for view in found}

    def check_steps(self, resolved: Resolved) -> int:
        """Every step's messages are there as often as the step log says; the number of steps compared."""
        records = step_records(self, resolved)
        recorded: Counter[tuple[str, int, int]] = Counter()
        for number, record in records.items():
            for part in record.outputs:
                if part.messages:
                    recorded[part.topic, part.partition, number] = part.messages
        there = self.read_all({output.topic for output in resolved.spec.outputs})
        written = Counter((topic, m.partition, m.step) for topic, those in there.items() for m in those)
        assert written == recorded
        return len(records)


def wait_for_threads(cluster: Cluster) -> None:
    """Until no worker in a thread acts any more; Spark's tasks need no waiting."""
    if isinstance(cluster.launcher, ThreadLauncher):
        cluster.launcher.join()


def pids(status: Mapping[str, Any]) -> list[int]:
    """The processes of the workers, in the order of their numbers."""
    return [int(worker["pid"]) for worker in status["workers"]]


def answer_of(frame: DataFrame) -> Answer:
    """A view's rows for the oracle."""
    inexact = frozenset(f.name for f in frame.schema.fields if f.dataType.typeName() in ("double", "float"))
    rows = frame.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"})).collect()
    return Answer([row[0] for row in rows], inexact)


@contextmanager
def service(resolved: Resolved, log: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """`stepwell run` in a process group of its own, of which nothing is left at the end of the block."""
    command = [
        sys.executable,
        "-m",
        "stepwell.cli",
        "run",
        "--spec",
        str(resolved.project.project.spec_file),
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    with log.open("ab") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its JVM and Python workers


def step_records(play: Playground, resolved: Resolved) -> dict[int, StepRecord]:
    """Every step record in the log topic, exactly one a step; the state forgets those below a snapshot, the topic does not."""
    found: dict[int, StepRecord] = {}
    for message in play.read(resolved.spec.log_topic, prefixed=False):
        assert message.value is not None
        if json.loads(message.value)["kind"] == "step":
            record = decode(message.value, resolved.spec.log_topic, message.offset)
            assert isinstance(record, StepRecord)
            assert record.step not in found, f"step {record.step} was recorded twice"
            found[record.step] = record
    assert sorted(found) == list(range(len(found)))
    return found


def as_bytes(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def renamed(resolved: Resolved, suffix: str, workers: int) -> Resolved:
    """The same circuit over the same input, as another pipeline with state and output topics of its own."""
    spec = resolved.spec
    outputs = tuple(replace(o, topic=o.topic + suffix) for o in spec.outputs)
    inputs = tuple(_renamed_table(source, suffix) for source in spec.inputs)
    return Resolved(
        resolved.project,
        replace(
            spec,
            name=spec.name + suffix,
            storage=spec.storage / suffix,
            inputs=inputs,
            outputs=outputs,
            workers=workers,
        ),
    )


def _renamed_table(source: InputTopic, suffix: str) -> InputTopic:
    """Each pipeline has topics of its own for its batch tables."""
    if not source.is_table:
        return source
    return replace(source, table=replace(source.table, topics=tuple(topic + suffix for topic in source.table.topics)))
