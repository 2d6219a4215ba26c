"""Which ids of schemas counted as unknown in a step: what its record has of them, and what a replay is given.

Workers tell and are told it as `UnknownSchemas`, and the step log has it as `UnknownIds`. The two are equal today, and are two because each is a
part of a format: frames have named tuples, and records have objects whose fields are checked when a log is read. A field of one can change
without the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.specification import PipelineSpec
from engine.model.from_now import handle_of_files
from io_kafka.registry.unknown import UnknownSchemas
from io_kafka.step_log.records import StepRecord, UnknownIds


def unknown_to_record(
    spec: PipelineSpec, unknown: tuple[UnknownSchemas, ...], skipped: Mapping[str, int]
) -> tuple[UnknownIds, ...] | None:
    """What the record of a step has; None if it has nothing of the kind. `unknown`, `skipped`: see StepResult."""
    with_registry = {handle_of_files(each.table.handle) for each in spec.inputs if each.table.has_registry}
    if not unknown and not with_registry & skipped.keys():
        return None
    return tuple(UnknownIds(**each._asdict()) for each in unknown)


def unknown_in_replay(record: StepRecord | None) -> tuple[UnknownSchemas, ...] | None:
    """What counts as unknown in a step with this record. None if the registry says it: in a first run, and in the replay of a step that a
    release from before wrote and that left messages out, because their ids may have been unknown."""
    if record is None or (record.unknown is None and any(record.skipped.values())):
        return None
    return tuple(UnknownSchemas(each.source, each.topic, each.partitions, each.ids) for each in record.unknown or ())
