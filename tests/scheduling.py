"""Which worker of pytest-xdist runs which file of tests.

Each worker has its own Spark session, which it starts for the first test that needs one. A session costs 8 s of processor time, and as much
again until its JVM has compiled what tests use. So only SPARK_WORKERS_MAX workers ever start one, and take the files that need it; the others
take the files that do not, many of which wait for processes and disks, and end when there are no more of these. Long files come first: a long
one at the end would leave the other workers without work. All workers share one broker, which is started if a file needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parent.parent

SPARK_WORKERS_MAX = 3
"""Such a worker has a process of Python and a JVM that take turns, so three of them keep two cores busy."""

SPARK, BROKER, CLUSTER = "spark", "broker", "cluster"
NEEDS_OF = {
    "spark: SparkSession": {SPARK},
    "oracle: Oracle": {SPARK},
    "play: Playground": {SPARK, BROKER},
    "broker: Broker": {BROKER},
    "settings: KafkaSettings": {BROKER},
    "cluster: DevCluster": {CLUSTER},
}
"""By a parameter of a test or fixture. A file of which this says too little is run by a worker that has to start more."""

LONG = tuple(
    f"tests/{file}"
    for file in (
        "stepwell/test_cli.py",
        "end_to_end/test_views_in_error.py",
        "releases/test_releases.py",
        "end_to_end/test_store.py",
        "io_kafka/test_writer.py",
        "end_to_end/test_fences.py",
        "end_to_end/test_reading_again.py",
        "end_to_end/test_copy.py",
        "end_to_end/test_placement.py",
        "engine/test_cut.py",
        "io_kafka/test_reader.py",
        "engine/test_filling.py",
        "end_to_end/test_revisions.py",
        "end_to_end/test_upgrades.py",
        "end_to_end/test_hosts.py",
        "stepwell/test_query_service.py",
        "end_to_end/test_transitions.py",
        "end_to_end/test_crash_points.py",
        "engine/test_descriptors.py",
        "simulator/test_scenarios.py",
        "stepwell/test_kept_definitions.py",
        "stepwell/lowering/test_against_spark.py",
        "sabotage/test_list.py",
        "end_to_end/test_full_disk.py",
        "end_to_end/test_transition_faults.py",
        "end_to_end/test_debezium.py",
        "end_to_end/test_lost_state.py",
        "end_to_end/test_checkpoints.py",
        "engine/test_top_k.py",
        "end_to_end/test_divisions.py",
        "storage/test_crash.py",
        "end_to_end/test_kill.py",
        "fuzz/test_fuzz.py",
        "engine/test_errors_of_operators.py",
        "end_to_end/test_bad_input.py",
        "end_to_end/test_hand_over.py",
        "io_kafka/formats/test_native_json.py",
        "end_to_end/test_changed_sources.py",
        "engine/test_fed.py",
        "engine/resident/test_crew.py",
        "cluster/test_spark_daemons.py",
        "stepwell/test_secured.py",
        "simulator/test_shrinking.py",
        "engine/test_event_time.py",
        "stepwell/test_secrets.py",
        "coordinator/starting/test_refresh.py",
        "storage/remote/test_s3_faults.py",
        "end_to_end/test_event_time.py",
        "protocols/test_planners.py",
        "stepwell/lowering/test_aggregate_functions.py",
        "end_to_end/test_loading_tables.py",
        "stepwell/lowering/test_clock.py",
        "stepwell/test_planned.py",
        "simulator/test_simulator.py",
        "storage/test_faults.py",
        "stepwell/test_apply.py",
        "coordinator/automatic/test_machine.py",
        "io_kafka/test_revision_rules.py",
        "end_to_end/test_oracle.py",
        "end_to_end/test_next_views.py",
        "stepwell/test_session.py",
        "fuzz/test_evolving.py",
        "stepwell/lowering/test_auto_cdc.py",
        "simulator/test_replacing.py",
        "end_to_end/test_formats.py",
        "end_to_end/test_layouts.py",
        "engine/test_operators.py",
        "stepwell/test_query.py",
        "end_to_end/test_automatic.py",
        "engine/test_aggregate.py",
        "end_to_end/test_changed_topics.py",
        "simulator/test_kafka_twin.py",
        "io_kafka/formats/test_connect.py",
        "storage/remote/test_model.py",
        "coordinator/test_core.py",
        "end_to_end/test_rights.py",
        "io_kafka/formats/test_decode.py",
        "end_to_end/test_gradual.py",
        "engine/test_moves.py",
        "base/test_pandas_later.py",
        "test_positional_arguments.py",
        "stepwell/lowering/test_inherited_order.py",
        "engine/test_outer_join.py",
        "stepwell/test_jvm.py",
        "engine/test_trace.py",
        "engine/test_rows_without_message.py",
        "stepwell/test_choices.py",
        "engine/test_extremes.py",
        "engine/test_stages.py",
        "end_to_end/test_plan_command.py",
        "stepwell/test_layout_commands.py",
    )
)
"""Files that take more than 10 s, about the longest first. What is missing here is only begun later."""


@cache
def needs(file: str) -> frozenset[str]:
    text = (ROOT / file).read_text()
    found = [need for parameter, need in NEEDS_OF.items() if re.search(rf"\b{parameter}\b", text)]
    return frozenset().union(*found)


@dataclass
class Worker:
    """What a worker has started, or is meant to start first."""

    has: set[str] = field(default_factory=set)

    def best(self, files: list[str]) -> str | None:
        """The file that uses most of what it has, and the first of these; None if all need what it has not. `files` are in order. The cluster
        ends when a file comes that does not need it, so the files that need it follow each other."""

        def cost(file: str) -> tuple[bool, int]:
            return CLUSTER not in needs(file) & self.has, -len(needs(file) & self.has)

        return min((file for file in files if needs(file) <= self.has), key=cost, default=None)


class Scheduler(LoadFileScheduling):
    """A file runs in one worker. The first workers have Spark, and the first of all the cluster.

    `begin_broker` is called if a file needs one."""

    def __init__(self, config: pytest.Config, log: Any, begin_broker: Callable[[], None] | None) -> None:
        super().__init__(config, log)
        self.begin_broker = begin_broker

    def schedule(self) -> None:
        if self.collection is None:
            has = [{SPARK, CLUSTER}] + [{SPARK}] * (SPARK_WORKERS_MAX - 1)
            self.workers = {
                node: Worker({BROKER} | (has[n] if n < len(has) else set())) for n, node in enumerate(self.nodes)
            }
            collected = next(iter(self.registered_collections.values()))
            if self.begin_broker is not None and any(BROKER in needs(self._split_scope(test)) for test in collected):
                self.begin_broker()
        super().schedule()

    def _assign_work_unit(self, node: WorkerController) -> None:
        worker = self.workers.setdefault(
            node, Worker({BROKER, SPARK, CLUSTER})
        )  # a worker in place of one that crashed
        chosen = worker.best(sorted(self.workqueue, key=_rank))
        if chosen is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


def _rank(file: str) -> int:
    """sorted() is stable: the others stay in the order of the collection, from the ground up."""
    return LONG.index(file) if file in LONG else len(LONG)
