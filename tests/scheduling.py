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
        "cluster/test_pipeline.py",
        "stepwell/lowering/test_against_spark.py",
        "releases/test_releases.py",
        "end_to_end/test_fences.py",
        "end_to_end/test_placement.py",
        "end_to_end/test_views_in_error.py",
        "io_kafka/test_writer.py",
        "end_to_end/test_revisions.py",
        "end_to_end/test_transition_faults.py",
        "io_kafka/test_reader.py",
        "fuzz/test_fuzz.py",
        "end_to_end/test_layouts.py",
        "end_to_end/test_transitions.py",
        "cluster/test_spark_daemons.py",
        "cluster/test_brokers.py",
        "engine/test_filling.py",
        "engine/test_cut.py",
        "end_to_end/test_crash_points.py",
        "coordinator/test_refresh.py",
        "end_to_end/test_debezium.py",
        "end_to_end/test_own_output.py",
        "end_to_end/test_lost_state.py",
        "end_to_end/test_drain.py",
        "end_to_end/test_formats.py",
        "end_to_end/test_batch_tables.py",
        "end_to_end/test_bad_input.py",
        "end_to_end/test_divisions.py",
        "end_to_end/test_spark_guide.py",
        "end_to_end/test_event_time.py",
        "end_to_end/test_hosts.py",
        "end_to_end/test_full_disk.py",
        "end_to_end/test_changed_sources.py",
        "end_to_end/test_checkpoints.py",
        "end_to_end/test_kill.py",
        "engine/test_descriptors.py",
        "engine/test_top_k.py",
        "io_kafka/test_broker.py",
        "stepwell/lowering/test_inherited_order.py",
        "stepwell/lowering/test_auto_cdc.py",
        "simulator/test_scenarios.py",
        "storage/test_crash.py",
        "storage/remote/test_s3_faults.py",
        "end_to_end/test_store.py",
        "engine/resident/test_preload.py",
        "simulator/test_simulator.py",
        "base/text/test_corpus.py",
        "engine/test_moves.py",
        "engine/test_fed.py",
        "fuzz/test_evolving.py",
        "stepwell/lowering/test_aggregate_functions.py",
        "storage/test_database.py",
        "storage/test_faults.py",
        "sabotage/test_list.py",
        "cluster/test_dev_command.py",
        "engine/resident/test_crew.py",
        "engine/test_event_time.py",
        "bench/test_sql_suites.py",
        "stepwell/lowering/test_top_k.py",
        "io_kafka/formats/test_usual.py",
        "engine/test_sources.py",
        "engine/test_operators.py",
        "stepwell/test_apply.py",
        "stepwell/test_jvm.py",
        "stepwell/test_plans.py",
        "stepwell/test_session.py",
        "stepwell/test_planned.py",
        "io_kafka/formats/test_connect.py",
        "engine/test_errors_of_operators.py",
        "stepwell/test_batch_tables.py",
        "coordinator/test_core.py",
        "io_kafka/formats/test_decode.py",
        "stepwell/lowering/test_python_values.py",
        "stepwell/lowering/test_windows.py",
        "engine/test_aggregate_spark.py",
        "protocols/test_planners.py",
        "test_demo.py",
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
