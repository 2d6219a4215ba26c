"""What the step log says of the databases, for the binding of workers (binding.py)."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.specification import PipelineSpec
from coordinator.starting.errors import StateLost
from coordinator.starting.workers.found_databases import ExpectedDatabases, Standing, judge
from coordinator.starting.workers.usable_versions import owners_by_version, restorable
from io_kafka.step_log.lost import written_topics
from io_kafka.step_log.state import StepLogState
from storage.identity import FoundDatabase


def expected_databases(
    spec: PipelineSpec, state: StepLogState, log_id: str, distrusted: frozenset[int] = frozenset()
) -> ExpectedDatabases:
    """What the step log says of the databases. `distrusted`: see ExpectedDatabases."""
    stored = None if spec.store is None else restorable(state)
    owners = owners_by_version(state)
    if stored is not None:
        owners.setdefault(stored.version, stored.placed.owners)
    hosts = state.rescale_hosts
    return ExpectedDatabases(
        pipeline=spec.name,
        log_id=log_id,
        generation=state.generation,
        owners=owners,
        is_fresh=not state.checkpoints and state.intent is None and state.first == 0,
        complete=max(state.checkpoints, default=None),
        pending=state.intent,
        accepts_older=not spec.state_location.on_cluster,
        restorable=None if stored is None else stored.version,
        distrusted=distrusted,
        avoided=None if hosts is None else hosts.avoided,
    )


def refuse_other_log(
    spec: PipelineSpec, expected: ExpectedDatabases, host: str, folder: str, databases: Iterable[FoundDatabase]
) -> None:
    """Raises StateLost if a database of this pipeline was created under another step log, and this log has no checkpoints. Then the old log was
    lost."""
    for found in databases:
        if found.worker in expected.numbers and judge(found, expected) is Standing.OTHER_LOG:
            raise StateLost(
                f"the database in {folder}/{found.worker:04d} (host {host}) belongs to another step log than the topic {spec.log_topic}, "
                "which was deleted and created again, or is in another Kafka.",
                "See first whether `kafka.bootstrap.servers` names the Kafka of this pipeline. If it does, restore that topic from a "
                f"replica. Without one, delete {written_topics(spec.written_topics)}, and rebuild with "
                "`stepwell run --full-refresh`.",
            )
