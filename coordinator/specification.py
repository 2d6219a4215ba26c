"""What a pipeline is, for the coordinator: the circuit, the topics at its edges, and the limits. No Spark, no project file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from base.options import OnError
from coordinator.truncation import SNAPSHOT_STEPS_MIN, TRUNCATE_STEPS_MIN
from engine.model.circuit import Circuit
from engine.rows.hashing import SHARDS_DEFAULT
from engine.run.sources import SourceTable
from io_kafka.clients.settings import KafkaSettings
from io_kafka.step_log.division import Limits


def log_topic_of(pipeline: str) -> str:
    """The step log's topic: it can be found by the pipeline's name alone."""
    return f"stepwell.{pipeline}.steps"


@dataclass(frozen=True)
class InputTopic:
    """A source table and how it is read. `starting_offsets`: earliest, latest, or Spark's JSON."""

    table: SourceTable
    starting_offsets: str
    on_error: OnError
    dead_letter_topic: str | None


@dataclass(frozen=True)
class OutputTopic:
    """An output handle's topic. `partitions`: with how many it is created if it is missing."""

    handle: str
    topic: str
    partitions: int
    compacted: bool


GROWTH_SECONDS = 10.0
"""Between two looks for partitions that were added to an input topic: rare, and never urgent."""


@dataclass(frozen=True)
class Pace:
    """How often the coordinator does what no step waits for. `snapshot_steps_min` and `truncate_steps_min`: see truncation.py."""

    growth_seconds: float = GROWTH_SECONDS
    snapshot_steps_min: int = SNAPSHOT_STEPS_MIN
    truncate_steps_min: int = TRUNCATE_STEPS_MIN


@dataclass(frozen=True)
class PipelineSpec:
    """`storage`: the folder of the databases. Intervals are in seconds. `driver_rows_max`: see engine/run/step_runner.py.
    `pace` is no setting of
    users: tests make it faster."""

    name: str
    storage: Path
    circuit: Circuit
    inputs: tuple[InputTopic, ...]
    outputs: tuple[OutputTopic, ...]
    kafka: KafkaSettings
    limits: Limits
    workers: int = 1
    shards: int = SHARDS_DEFAULT
    checkpoint_interval_s: float = 10.0
    step_header: bool = True
    replication: int = -1
    steps_kept: int = 100_000
    driver_rows_max: int = 0
    pace: Pace = Pace()

    @property
    def log_topic(self) -> str:
        return log_topic_of(self.name)

    @property
    def transactional_id(self) -> str:
        return f"stepwell.{self.name}"

    @property
    def input_topics(self) -> tuple[str, ...]:
        """Each once, in order."""
        return tuple(sorted({source.table.topic for source in self.inputs}))

    @property
    def on_error(self) -> dict[str, OnError]:
        """By source handle: what is done with malformed messages."""
        return {source.table.handle: source.on_error for source in self.inputs}

    @property
    def dead_letter_topics(self) -> dict[str, str]:
        """By source handle."""
        return {s.table.handle: s.dead_letter_topic for s in self.inputs if s.dead_letter_topic is not None}

    def database_folder(self, worker: int) -> Path:
        return self.storage / "workers" / f"{worker:04d}"
