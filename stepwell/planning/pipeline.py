"""A resolved project and its circuit -> the description that the coordinator runs."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import pyarrow as pa

from base.spark_master import MASTER_KEY, is_local, local_slots
from coordinator.automatic.load_file import LOAD_FILE
from coordinator.specification import AutoSettings, InputTopic, OutputTopic, PipelineSpec, StoreSettings
from engine.model.circuit import Circuit
from engine.model.layout import Policy
from engine.run.source_table import SourceTable, extras_of_all
from io_kafka.clients.settings import KafkaSettings
from io_kafka.formats.batches import TableFormat
from io_kafka.formats.records import RecordFormat
from io_kafka.formats.spec import SourceFormat
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.division import StepLimits
from io_kafka.step_log.layout_records import AutoBounds
from stepwell.catalyst.types import arrow_schema
from stepwell.project.loading import Project
from stepwell.project.settings import Settings
from stepwell.project.stepwell_settings import StepwellSettings
from stepwell.project.tables import OutputSpec, SourceSpec
from stepwell.spark.session import cores
from storage.remote.place import StorePlace

if TYPE_CHECKING:
    from stepwell.planning.plans import ResolvedProject  # loads the analyser, which a kept plan does not need

WORKERS_DEFAULT_MAX = 8
"""With more workers, a machine's one writer to Kafka is busy before the workers are."""


@dataclass(frozen=True)
class PlannedProject:
    """What planning adds to a project's settings. It contains no object of Spark's. `places`, `versions`: see PlanDocument."""

    circuit: Circuit
    inputs: tuple[InputTopic, ...]
    outputs: tuple[OutputTopic, ...]
    places: Mapping[str, str]
    versions: Mapping[str, str]

    def is_same(self, other: PlannedProject) -> bool:
        same_topics = (self.inputs, self.outputs) == (other.inputs, other.outputs)
        return same_topics and self.circuit.fingerprint == other.circuit.fingerprint


NOTHING_PLANNED = PlannedProject(Circuit(()), (), (), {}, {})
"""The planned project of a run for which the recorded project counts alone."""


def plan_project(resolved: ResolvedProject, circuit: Circuit) -> PlannedProject:
    partitions = resolved.project.settings.stepwell.topics_partitions
    return PlannedProject(
        circuit=circuit,
        inputs=tuple(_input(source) for source in resolved.sources),
        outputs=tuple(_output(view.output, partitions) for view in resolved.views if view.output is not None),
        places={view.name: str(view.location) for view in resolved.views},
        versions={"stepwell": version("stepwell"), "spark": version("pyspark"), "python": platform.python_version()},
    )


def pipeline_spec(
    project: Project, plan: PlannedProject, *, workers_now: int | None = None, policy_now: Policy | None = None
) -> PipelineSpec:
    """Everything that the coordinator needs. `workers_now`, `policy_now`: what the command says, beside the settings."""
    settings = project.settings.stepwell
    return PipelineSpec(
        name=project.name,
        storage=project.state_folder,
        circuit=plan.circuit,
        inputs=tuple(source.with_auth(settings.registry_auth) for source in plan.inputs),
        outputs=tuple(output.with_auth(settings.registry_auth) for output in plan.outputs),
        kafka=replace(
            KafkaSettings.parse(project.settings.kafka), extras=extras_of_all(source.table for source in plan.inputs)
        ),
        limits=StepLimits(settings.step_rows_max, settings.step_bytes_max),
        workers=settings.workers,
        workers_now=workers_now,
        workers_default=workers_default(project.settings),
        shards=settings.shards,
        inaccuracy=settings.sharding_inaccuracy if settings.sharding == "dynamic" else None,
        policy_now=policy_now,
        checkpoint_interval_s=settings.checkpoint_interval,
        clock_resolution_us=round(1e6 * settings.clock_resolution),
        idle_after_s=settings.watermark_idle_after,
        step_header=settings.message_step_header,
        replication=settings.topics_replication_factor,
        steps_kept=settings.steps_kept,
        switch_rows_max=settings.switch_rows_max,
        register_s=settings.worker_register,
        shrink_after_s=settings.cluster_shrink_after,
        silence_s=settings.worker_silence,
        progress_s=settings.worker_progress,
        store=_store(settings),
        auto=_auto(settings),
        load_file=project.state_folder / LOAD_FILE,
        local_dir=settings.local_dir,
        on_cluster=project.on_cluster,
        registry_auth=settings.registry_auth,
        places=plan.places,
        versions=plan.versions,
    )


def _store(settings: StepwellSettings) -> StoreSettings | None:
    """The checkpoint store; None if the project has none."""
    if settings.store is None:
        return None
    return StoreSettings(StorePlace(settings.store), settings.store_lag_max, settings.store_late)


def _auto(settings: StepwellSettings) -> AutoSettings:
    least, most = settings.workers_min, settings.workers_max
    bounds = None if least is None or most is None else AutoBounds(min=least, max=most)
    return AutoSettings(bounds, settings.workers_drain, settings.workers_lower_after)


def workers_default(settings: Settings) -> int | None:
    """A worker for each core in local mode. `local[N]` keeps one task slot free, if it has more than one: each worker occupies a slot as long as
    the run lasts, and a worker that replaces a lost one, or that a rescale adds, needs another. On a cluster the driver's cores
    say nothing. If Stepwell is to choose the number from then on, it begins within its bounds, and on a cluster with the least."""
    master, least, most = settings.spark.get(MASTER_KEY), settings.stepwell.workers_min, settings.stepwell.workers_max
    if master is not None and not is_local(master):
        return least
    slots = None if master is None else local_slots(master)
    workers = min(cores(), WORKERS_DEFAULT_MAX, *([] if slots is None else [max(1, slots - 1)]))
    return workers if least is None or most is None else min(max(workers, least), most)


def _input(source: SourceSpec) -> InputTopic:
    table = source_table(source)
    read = InputTopic(table, source.starting_offsets, source.on_error, source.dead_letter_topic, source.truncate)
    return replace(read, files=source.files)


def source_table(source: SourceSpec) -> SourceTable:
    """The source as workers read it."""
    schema = arrow_schema(source.schema)
    if source.format == "record":
        partitions = None if source.partitions is None else frozenset(TopicPartition(*p) for p in source.partitions)
        form = RecordFormat(source.handle, schema)
        return SourceTable(source.handle, source.topics, form, partitions, source.pattern)
    if source.format == "table":
        columns = pa.schema([column.with_nullable(True) for column in schema])
        return SourceTable(source.handle, source.topics, TableFormat(source.handle, columns))
    messages = SourceFormat(
        source.handle,
        schema,
        mode=source.mode,
        key=source.key,
        metadata=source.metadata,
        encoding=source.encoding,
        key_format=source.key_format,
        limits=source.limits,
        patterns=source.patterns,
        unavailable=source.unavailable,
    )
    return SourceTable(source.handle, source.topics, messages)


def _output(output: OutputSpec, partitions: int) -> OutputTopic:
    return OutputTopic(
        output.handle, output.topic, output.partitions or partitions, output.mode == "upsert", output.written.registry
    )
