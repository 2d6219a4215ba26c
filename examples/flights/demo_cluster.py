"""`make demo-cluster`: the demo on a cluster of processes: three Kafka brokers, a Spark master and two Spark workers.

    cluster, topics -> reference data -> service starts, its two workers run in Spark's executors -> flights are sent
    -> the broker that leads the step log is killed, and comes back
    -> a host is lost with its disk: its Spark worker is killed, with its executor and Stepwell's worker in it, and its folder is deleted.
       The pipeline goes on with the host that is left and what the checkpoint store has. Then the host comes back, empty
    -> all is read -> stepwell stop -> every view against Spark's batch answer

The exit status is 0 if every view is equal and every step was written once, otherwise 1. All files are in build/demo-cluster, and the table is
in build/demo-cluster.json.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from base.sizes import size_text
from coordinator.storing.manifest import read_manifest
from examples.flights.service import ServiceFailed
from examples.flights.show import Recovery, Show, Stage, Totals, main
from io_kafka.step_log.state import StepLogState
from stepwell.dev_cluster.cluster import DevCluster
from storage.remote.chain import Chain
from storage.remote.objects import open_store

BROKER_KILLED_AT, HOST_LOST_AT = 0.25, 0.6
"""The shares of the input that are read before the two kills."""

FIRST_GATE, SECOND_GATE = 0.35, 0.75
"""The shares of the input that are sent before the two kills. More is sent after each, so that there is something to read."""

LEADER_SECONDS_MAX = 30.0


class ClusterDemo(Show):
    """A service whose workers run on a Spark cluster, over three brokers. Both lose a host."""

    gate_at = FIRST_GATE

    def start_world(self) -> str:
        left = DevCluster.of(self.folder / "cluster")
        if left is not None:
            left.down()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        with self.console.status(
            "starting three Kafka brokers (the first time they are downloaded) and a Spark cluster"
        ):
            self._cluster = DevCluster(self.folder / "cluster", brokers=3, workers=2).up(die_with_parent=True)
        self.console.print(f"Kafka brokers at {self._cluster.kafka.bootstrap_servers}")
        self.console.print(f"Spark master at {self._cluster.spark.master_url}, page {self._cluster.spark.page_url}")
        return self._cluster.kafka.bootstrap_servers

    def end_world(self) -> None:
        self._cluster.down()

    @property
    def service_settings(self) -> Mapping[str, str]:
        return {**self._cluster.settings(), "stepwell.store": (self.folder / "store").as_uri()}

    def happen(self, stage: Stage) -> Totals:
        watch, story = stage.watch, stage.story
        stage.service.start()
        story.until("the service starts", lambda: watch.state.steps > 0)
        recoveries = (self._lose_a_broker(stage), self._lose_a_host(stage))
        story.until("streaming", lambda: watch.messages_read == stage.messages)
        done_at = time.monotonic()
        story.say("stopping at a checkpoint")
        stage.service.stop()
        watch.look()
        assert len(watch.first_step_at) == 1, "the service itself was never restarted"
        return stage.totals(done_at - min(watch.first_step_at.values()), recoveries)

    def _lose_a_broker(self, stage: Stage) -> Recovery:
        kafka = self._cluster.kafka
        self._stream_until(stage, BROKER_KILLED_AT)
        victim = leader_of(kafka.bootstrap_servers, stage.watch.state.topic)
        what = f"broker {victim} killed"
        recovery = self._kill(stage, what, partial(kafka.kill_node, victim), int(SECOND_GATE * stage.messages))
        stage.story.meanwhile("it comes back", partial(kafka.start_node, victim, die_with_parent=True))
        return recovery

    def _lose_a_host(self, stage: Stage) -> Recovery:
        spark, watch = self._cluster.spark, stage.watch
        self._stream_until(stage, HOST_LOST_AT)
        stage.story.until("the first checkpoint is stored", lambda: watch.state.stored is not None)
        victim, there = self._host_of_a_worker(stage)

        def lose() -> None:
            spark.kill_worker(victim)
            shutil.rmtree(spark.state_folder(victim))

        what = f"host {victim} and its disk lost ({size_text(self._stored_bytes(watch.state, there))})"
        recovery = self._kill(stage, what, lose, None)
        stage.story.meanwhile("it comes back, empty", partial(spark.start_worker, victim, die_with_parent=True))
        return recovery

    def _stored_bytes(self, log: StepLogState, workers: Collection[int]) -> int:
        """Of these workers, in the checkpoint store."""
        assert log.stored is not None
        store = open_store((self.folder / "store").as_uri())
        manifest = read_manifest(store, log.stored.manifest, log.stored.digest)
        return sum(pack.bytes for worker in workers for pack in Chain.of_json(manifest.chains[worker]).packs)

    def _stream_until(self, stage: Stage, share: float) -> None:
        """Until so much is read, and steps were made since the last checkpoint, unless there is nothing left to make them of."""
        watch, feed = stage.watch, stage.feed
        stage.story.until(
            "streaming",
            lambda: watch.messages_read > share * stage.messages and (watch.steps_after_checkpoint > 0 or feed.at_gate),
        )

    def _kill(self, stage: Stage, what: str, kill: Callable[[], None], next_gate: int | None) -> Recovery:
        """Kills something, sends more, and waits until the service goes on."""
        watch = stage.watch
        replay, killed_at = watch.steps_after_checkpoint, time.monotonic()
        kill()
        watch.look()
        steps = watch.state.steps
        stage.feed.open_gate(next_gate)
        stage.story.until(f"{what}, recovering", lambda: watch.state.steps > steps)
        return Recovery(what, replay, round(time.monotonic() - killed_at, 1))

    def _host_of_a_worker(self, stage: Stage) -> tuple[int, list[int]]:
        """The Spark worker in whose executor a worker of the pipeline runs, and the workers there. All may be in the same one."""
        workers = {worker["pid"]: int(worker["worker"]) for worker in stage.service.answer("status")["workers"]}
        for number in self._cluster.spark.workers:
            if there := workers.keys() & self._cluster.spark.pids_below(number):
                return number, [workers[pid] for pid in there]
        raise ServiceFailed(f"the pipeline's workers {sorted(workers)} run in none of Spark's executors")


def leader_of(servers: str, topic: str) -> int:
    """The number of the broker that leads the only partition of a topic."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(LEADER_SECONDS_MAX)
    return int(described.partitions[0].leader.id)


if __name__ == "__main__":
    sys.exit(main(ClusterDemo, __doc__, Path("build/demo-cluster")))
