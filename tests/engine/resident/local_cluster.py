"""Workers in threads of the test's process, over real sockets and real databases, and input from memory in place of Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from base.term import Term
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import plan_stages
from engine.model.aggregates import Aggregate, AggregateCall
from engine.model.circuit import Circuit, Output, View
from engine.model.placement import Placement
from engine.model.rows import Source
from engine.operators.facts import DivisionFacts, RunFacts
from engine.resident.crew import Crew, CrewLimits, WorkerOutput
from engine.resident.entry import Assignment, live
from engine.resident.launcher import Cluster
from engine.resident.liveness import LivenessLimits
from engine.resident.sockets import SocketTransport
from engine.run.exchange import from_buffer
from engine.run.source_table import SourceTable
from engine.run.step_input import StepInput
from engine.run.task_setup import TaskSetup
from io_kafka.clients.raw import RawBatch, raw_batch
from io_kafka.clients.settings import KafkaSettings
from io_kafka.formats.spec import SourceFormat
from io_kafka.messages import Messages
from io_kafka.offsets import OffsetRange
from storage.database import Database
from storage.host_folder import StateLocation
from storage.identity import FIRST_BIRTH, Identity
from tests.engine.contexts import placement_of
from tests.engine.zsets import TYPES

LOOPBACK = "127.0.0.1"
JOIN_SECONDS_MAX = 30.0

CIRCUIT = Circuit(
    (
        Source((), TYPES, "words"),
        Output((0,), (), "seen", "append", ("id", "word")),
        Aggregate((0,), (TYPES[1], pa.int64()), (1,), (AggregateCall("count", None, False, pa.int64()),)),
        View((2,), (TYPES[1], pa.int64()), "counts", ("word", "n"), False),
        Output((3,), (), "counts", "upsert", ("word", "n"), (0,)),
    )
)
OUTPUT_OF = {1: "seen", 4: "counts"}


class Log:
    """The messages of one topic, by partition. A reader that is given the ranges of a step takes them from here."""

    def __init__(self, partitions: int) -> None:
        self.partitions: list[list[bytes]] = [[] for _ in range(partitions)]

    def add(self, partition: int, *values: bytes) -> None:
        self.partitions[partition] += values

    def read(
        self, ranges: Sequence[OffsetRange], *, ahead: bool = False, bytes_max: int | None = None
    ) -> list[RawBatch]:
        return [self._batch(span) for span in ranges]

    def close(self) -> None:
        """Nothing is held open."""

    def _batch(self, span: OffsetRange) -> RawBatch:
        values = self.partitions[span.partition][span.start : span.end]
        keys = pa.nulls(len(values), pa.binary())
        offsets = pa.array(range(span.start, span.end), pa.int64())
        return raw_batch(span, Messages.plain(keys, pa.array(values, pa.binary()), offsets))


@dataclass
class ThreadJob:
    """`end`: what `end_process` was called with, or the exception that ended the thread."""

    thread: threading.Thread = field(init=False)
    end: str | None = None

    @property
    def failure(self) -> Exception | None:
        return None if self.end is None else RuntimeError(self.end)

    def cancel(self) -> None:
        """A thread ends when its connection does."""


class ThreadLauncher:
    """Starts workers in threads. `late`: how many of the first ones never come. `lives[n]` may replace the life of the n-th."""

    slots: int | None = None

    def __init__(self, make_reader: Callable[[], object], late: int = 0) -> None:
        self.make_reader, self.late = make_reader, late
        self.jobs: list[ThreadJob] = []

    def slots_now(self) -> int | None:
        return self.slots

    def start(self, assignment: Assignment) -> ThreadJob:
        return self._start(assignment, is_late=len(self.jobs) < self.late)

    def _start(self, assignment: Assignment, *, is_late: bool = False) -> ThreadJob:
        job = ThreadJob()
        self.jobs.append(job)
        job.thread = threading.Thread(target=self._live, args=(assignment, job), daemon=True)
        if not is_late:
            job.thread.start()
        return job

    def join(self) -> None:
        for job in self.jobs:
            if job.thread.ident is not None:
                job.thread.join(JOIN_SECONDS_MAX)
                assert not job.thread.is_alive(), "a worker does not end"

    def transport(self) -> SocketTransport:
        """Of the next worker."""
        return SocketTransport(LOOPBACK)

    def _live(self, assignment: Assignment, job: ThreadJob) -> None:
        def end(reason: str) -> None:
            job.end = job.end or reason

        transport = self.transport()
        try:
            folder = assignment.setup.state_location.on_host(None)
            live(
                assignment,
                transport,
                make_reader=lambda settings: self.make_reader(),  # type: ignore[arg-type, return-value]
                end_process=end,
                folder=folder,
                start_companion=lambda: self._start(replace(assignment, is_companion=True)),
            )
        except Exception as error:
            job.end = repr(error)
        finally:
            transport.close()


def setup_of(folder: Path, workers: int) -> TaskSetup:
    """A run of CIRCUIT, with databases that are made if they are missing."""
    schema = pa.schema([pa.field("id", TYPES[0]), pa.field("word", TYPES[1])])
    setup = TaskSetup(
        plan=plan_stages(CIRCUIT),
        kafka=KafkaSettings.parse({"bootstrap.servers": "nowhere:1"}),
        tables={"words": SourceTable("words", ("words",), SourceFormat("words", schema, "append", ()))},
        state_location=StateLocation("p", folder, None, False),
        facts=RunFacts(tuple(range(len(CIRCUIT.nodes))), append_only_inputs(CIRCUIT), {"seen": 2, "counts": 2}, {}),
        revision=1,
    )
    for worker in range(workers):
        if not folder_of(setup, worker).exists():
            Database.create(folder_of(setup, worker), identity_of(worker), 0, placement_of(workers).owned[worker])
    return setup


def identity_of(worker: int) -> Identity:
    return Identity("p", worker, f"uuid{worker}")


def folder_of(setup: TaskSetup, worker: int) -> Path:
    host = setup.state_location.on_host(None)
    assert host is not None
    return host.of_worker(worker)


def cluster(launcher: ThreadLauncher) -> Cluster:
    return Cluster(launcher, partial(SocketTransport, LOOPBACK))


def crew(setup: TaskSetup, launcher: ThreadLauncher, attempt: int = 0, **limits: float) -> Crew:
    seconds = {"register_s": 20.0, "silence_s": 60.0, "progress_s": 60.0, **limits}
    lives = LivenessLimits(seconds["silence_s"], seconds["progress_s"])
    return Crew(
        setup,
        len(setup.state_location.here.names()),
        Term(0, attempt),
        launcher=launcher,
        transport=SocketTransport(LOOPBACK),
        limits=CrewLimits(seconds["register_s"], lives),
    )


def opened(made: Crew) -> Crew:
    """The same, at the latest version that all databases have. The tasks become workers in the order in which they register."""
    made.launch()
    made.recruiting.wait_for_candidates()
    workers = dict(enumerate(candidate.serial for candidate in made.recruiting.candidates))
    made.bind(workers, {worker: (FIRST_BIRTH, identity_of(worker).database) for worker in workers})
    fenced = made.fence()
    version = max(set.intersection(*(set(found.versions) for found in fenced.values())))
    made.join(Placement.initial(made.open(version, fenced), {}))
    return made


def impatient(made: Crew, *, silence_s: float = 60.0, progress_s: float = 60.0) -> None:
    """From now on the crew gives workers up after these times. Before, a busy disk may keep a worker longer than that."""
    made._roster._liveness.limits = LivenessLimits(silence_s, progress_s)


def step_of(step: int, spans: Mapping[int, tuple[int, int]], bytes_max: int | None = None) -> StepInput:
    ranges = tuple(OffsetRange("words", partition, *span) for partition, span in sorted(spans.items()))
    return StepInput(facts=DivisionFacts(number=step), ranges=ranges, on_error={"words": "fail"}, bytes_max=bytes_max)


def messages_of(outputs: Sequence[WorkerOutput]) -> dict[str, list[tuple[object, ...]]]:
    """(partition, key, value) of every output handle, sorted."""
    found: dict[str, list[tuple[object, ...]]] = {handle: [] for handle in OUTPUT_OF.values()}
    for output in outputs:
        for node, buffer in zip(output.done.output, output.buffers, strict=False):
            rows = from_buffer(buffer).to_pylist()
            found[OUTPUT_OF[node]] += [(row["partition"], row["key"], row["value"]) for row in rows]
    return {handle: sorted(rows, key=repr) for handle, rows in found.items()}
