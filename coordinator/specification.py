"""The coordinator's description of a pipeline: its circuit, its topics and its limits, as plain data without Spark or project files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from base.limits import DRAIN_ROWS_MAX, SWITCH_ROWS_MAX
from base.options import OnError, Truncate
from coordinator.automatic.load import SAMPLE_SECONDS
from coordinator.checkpoints.truncation import SNAPSHOT_STEPS_MIN, TRUNCATE_STEPS_MIN
from coordinator.starting.layouts import WorkersWanted
from coordinator.topic_names import log_topic_of, plan_topic_of, transactional_id_of
from engine.analysis.marking import Marks
from engine.analysis.release import ImplementationVersions, implementation_versions_of
from engine.model.circuit import Circuit
from engine.model.layout import SHARDS_FIXED, DynamicShards, FixedShards, Policy
from engine.run.source_table import SourceTable
from io_kafka.clients.settings import KafkaSettings
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.encodings import WithRegistry
from io_kafka.formats.spec import SourceFormat
from io_kafka.registry.address import RegistryAddress
from io_kafka.step_log.division import StepLimits
from io_kafka.step_log.layout_records import AutoBounds
from storage.host_folder import StateLocation
from storage.remote.place import StorePlace


@dataclass(frozen=True)
class InputTopic:
    """A source table and how it is read. `starting_offsets` is "earliest", "latest", Spark's JSON, or the text of a Since, see
    starting/topics/positions.py. `truncate`: the policy for truncations; anything but `fail` only for a changelog. `files`: of a batch table, a
    digest of the paths, sizes and times of the files that were there when it was planned; empty if that is not known. It is only
    compared to tell users that files have changed (revisions/loads.py), and no row depends on it.
    `nulls`: of a keyed source, the columns that rows of its table lack although messages may have them (revisions/carrying.py)."""

    table: SourceTable
    starting_offsets: str
    on_error: OnError
    dead_letter_topic: str | None
    truncate: Truncate = "fail"
    files: str = field(default="", compare=False)
    nulls: tuple[str, ...] = ()

    def with_auth(self, auth: str | None) -> InputTopic:
        """Returns this source with the password for its registry, which is a setting."""
        return replace(self, table=self.table.with_auth(auth))

    def with_registry_of(self, other: InputTopic) -> InputTopic:
        """Returns this source with the registry of another one, if both have a registry."""
        form = other.table.format
        if not isinstance(form, SourceFormat) or not isinstance(form.encoding, WithRegistry):
            return self
        mine = self.table.format
        if not isinstance(mine, SourceFormat) or not isinstance(mine.encoding, WithRegistry):
            return self
        encoding = replace(mine.encoding, registry=form.encoding.registry)
        return replace(self, table=replace(self.table, format=replace(mine, encoding=encoding)))

    @property
    def is_table(self) -> bool:
        """Whether it is a batch table, whose topic this pipeline writes itself."""
        return isinstance(self.table.format, TableFormat)

    @property
    def is_keyed(self) -> bool:
        """Whether the pipeline keeps a table of it, with the last row of every key."""
        form = self.table.format
        return isinstance(form, SourceFormat) and form.keyed


@dataclass(frozen=True)
class OutputTopic:
    """The topic of an output handle. If the topic is missing, it is created with `partitions` partitions, and compacted if `compacted`.
    `registry`: the one that has the schemas of its messages, if they are Avro or Protobuf. `columns`: the names of all columns that messages of
    the topic have; empty if they are those of the view (revisions/columns_had.py)."""

    handle: str
    topic: str
    partitions: int
    compacted: bool
    registry: RegistryAddress | None = None
    columns: tuple[str, ...] = ()

    def with_auth(self, auth: str | None) -> OutputTopic:
        """Returns this output with the password for its registry, which is a setting."""
        return self if self.registry is None else replace(self, registry=replace(self.registry, auth=auth))


GROWTH_SECONDS = 10.0
"""The time between two checks for added partitions of input topics. Such a change is rare and never urgent."""


@dataclass(frozen=True)
class Pace:
    """How often the coordinator does work that no step waits for. `snapshot_steps_min`, `truncate_steps_min`: see checkpoints/truncation.py.
    `sample_seconds`: see automatic/load.py."""

    growth_seconds: float = GROWTH_SECONDS
    snapshot_steps_min: int = SNAPSHOT_STEPS_MIN
    truncate_steps_min: int = TRUNCATE_STEPS_MIN
    sample_seconds: float = SAMPLE_SECONDS


@dataclass(frozen=True)
class StoreSettings:
    """The checkpoint store. `lag_s_max`: for how many seconds a complete checkpoint may wait for it; then the steps wait too (`pause`), or go on
    without it (`continue`)."""

    place: StorePlace
    lag_s_max: float
    late: Literal["pause", "continue"]


@dataclass(frozen=True)
class AutoSettings:
    """How Stepwell chooses the number of workers. `bounds`: as the project's settings say; None if they do not. `drain_s`: in how many seconds a
    backlog has to be gone. `lower_after_s`: for how long fewer workers have to have been enough."""

    bounds: AutoBounds | None = None
    drain_s: float = 300.0
    lower_after_s: float = 900.0


@dataclass(frozen=True)
class PipelineSpec:
    """A pipeline as its project says it, with nothing of what a run finds. Intervals are in seconds."""

    name: str
    storage: Path
    """The project's folder on this host."""
    circuit: Circuit
    inputs: tuple[InputTopic, ...]
    outputs: tuple[OutputTopic, ...]
    kafka: KafkaSettings
    limits: StepLimits
    workers: int | None = None
    """The number of workers in the project's settings; see WorkersWanted."""
    workers_now: int | None = None
    """The number of workers that the command names which starts the run; see WorkersWanted."""
    workers_default: int | None = 1
    """The number of workers of a new state, if nobody has said one; see WorkersWanted."""
    shards: int = SHARDS_FIXED
    """The number of shards under the fixed policy, in a new state."""
    inaccuracy: float | None = None
    """The inaccuracy of the dynamic policy, which a new state has then. None: a new state has the fixed policy."""
    policy_now: Policy | None = None
    """The policy of the rescale which `workers_now` asks for. None keeps the one of the state."""
    checkpoint_interval_s: float = 10.0
    clock_resolution_us: int = 1_000_000
    """To so many microseconds the time of a step is rounded down; see StepClock."""
    idle_after_s: float | None = None
    """How long an input is silent before it is idle; None: it is never idle. See IdleInputs."""
    step_header: bool = True
    switch_rows_max: int = SWITCH_ROWS_MAX
    """The bound of the rows that the step of a switch passes on; see SWITCH_ROWS_MAX."""
    drain_rows_max: int = DRAIN_ROWS_MAX
    """The bound of the rows that one step of a drain passes on; see DRAIN_ROWS_MAX. Users cannot set it; tests make it smaller."""
    replication: int = -1
    """The replication factor of topics that are created; -1 is the broker's default."""
    steps_kept: int = 100_000
    register_s: float = 60.0
    """How long all workers may take to register."""
    shrink_after_s: float | None = 60.0
    """How long a start waits for more task slots before it goes on with fewer workers. None means that it never does."""
    silence_s: float = 5.0
    """How long a worker may be silent; see engine/resident/liveness.py."""
    progress_s: float = 30.0
    """How long a worker may make no progress, unless its steps are slow; see engine/resident/liveness.py."""
    pace: Pace = Pace()
    """Users cannot set it; tests make it faster."""
    store: StoreSettings | None = None
    auto: AutoSettings = AutoSettings()
    load_file: Path | None = None
    """Where the load is recorded; None: nowhere."""
    local_dir: Path | None = None
    """The folder in which each host keeps databases. None means `storage`, which is an answer only if the workers run on this host."""
    on_cluster: bool = False
    """Whether the workers run on other hosts."""
    registry_auth: str | None = field(default=None, repr=False)
    """The user and password for schema registries; see RegistryAddress."""
    places: Mapping[str, str] = field(default_factory=dict)
    """The file and the line of each view's definition, by its name; see PlanDocument. They are for users."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of Stepwell, Spark and Python, by name; see PlanDocument. They are for users."""
    marks: Marks = field(default_factory=dict)
    """Which views count which sources from some offsets on; see PlanDocument."""
    fingerprint_of_files: str = ""
    """The fingerprint of the circuit as the files define it, if there are marks; otherwise empty. See PlanDocument."""
    lost_topics: frozenset[str] = frozenset()
    """Topics of a recorded project that are gone. With any, the project stands still until a transition has led to one without them; see
    starting/topics/lost_on_the_way.py. None in a project of the files."""

    @property
    def log_topic(self) -> str:
        return log_topic_of(self.name)

    @property
    def plan_topic(self) -> str:
        return plan_topic_of(self.name)

    @property
    def transactional_id(self) -> str:
        return transactional_id_of(self.name)

    @property
    def made_with(self) -> ImplementationVersions:
        """The implementation versions of what the circuit uses, in this release."""
        return implementation_versions_of(self.circuit)

    @property
    def policy(self) -> Policy:
        """How a new state is divided into shards."""
        return FixedShards(self.shards) if self.inaccuracy is None else DynamicShards(self.inaccuracy)

    @property
    def wanted(self) -> WorkersWanted:
        return WorkersWanted(self.workers_now, self.workers, self.workers_default, self.policy)

    @property
    def input_topics(self) -> tuple[str, ...]:
        """The input topics, each once, in order."""
        return tuple(sorted({topic for source in self.inputs for topic in source.table.topics}))

    @property
    def column_names(self) -> dict[str, tuple[str, ...]]:
        """The names of the columns of each source, by its handle."""
        return {source.table.handle: tuple(source.table.format.schema.names) for source in self.inputs}

    @property
    def table_topics(self) -> frozenset[str]:
        """The input topics of batch tables, which this pipeline writes itself."""
        return frozenset(topic for source in self.inputs if source.is_table for topic in source.table.topics)

    @property
    def on_error(self) -> dict[str, OnError]:
        """What is done with malformed messages, by source handle."""
        return {source.table.handle: source.on_error for source in self.inputs}

    @property
    def truncate(self) -> dict[str, Truncate]:
        """What is done with truncations, by source handle; only of the sources for which that is not `fail`."""
        return {source.table.handle: source.truncate for source in self.inputs if source.truncate != "fail"}

    @property
    def written_topics(self) -> frozenset[str]:
        """The topics for outputs and for malformed messages."""
        return frozenset({*(output.topic for output in self.outputs), *self.dead_letter_topics.values()})

    @property
    def dead_letter_topics(self) -> dict[str, str]:
        """The topics for malformed messages, by source handle; only of the sources that have one."""
        return {s.table.handle: s.dead_letter_topic for s in self.inputs if s.dead_letter_topic is not None}

    @property
    def state_location(self) -> StateLocation:
        """Where hosts keep the databases."""
        return StateLocation(self.name, self.storage, self.local_dir, self.on_cluster)
