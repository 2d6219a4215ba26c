"""The whole cluster for trying things: Kafka brokers and a Spark standalone cluster, in one folder.

Guarantees: `up` returns when all brokers answer and Spark's master knows all workers. If it raises, what it has started stays, and `down` ends
it. Everything listens on loopback only.

    folder/kafka   the brokers (io_kafka/broker/group.py)
    folder/spark   master and workers (spark_daemons.py)
"""

from __future__ import annotations

from pathlib import Path

from io_kafka.broker.group import BrokerGroup
from stepwell.dev_cluster.spark_daemons import DOWN_COMMAND, LocalSpark, LocalSparkFault
from stepwell.dev_cluster.topology import BROKERS_DEFAULT, KAFKA_FOLDER, SPARK_FOLDER, WORKERS_DEFAULT


class DevCluster:
    """The cluster of one folder."""

    def __init__(self, folder: Path, brokers: int = BROKERS_DEFAULT, workers: int = WORKERS_DEFAULT) -> None:
        self.folder = Path(folder).absolute()
        self.kafka = BrokerGroup(self.folder / KAFKA_FOLDER, brokers)
        self.spark = LocalSpark(self.folder / SPARK_FOLDER, workers)

    @classmethod
    def of(cls, folder: Path) -> DevCluster | None:
        """The cluster that was made in `folder`, whether it runs or not; None if there is none."""
        kafka, spark = BrokerGroup.of(Path(folder) / KAFKA_FOLDER), LocalSpark.of(Path(folder) / SPARK_FOLDER)
        if kafka is None:
            return None
        return cls(folder, kafka.size, WORKERS_DEFAULT if spark is None else len(spark.workers))

    @property
    def is_running(self) -> bool:
        """Whether a process of the cluster runs."""
        return self.kafka.is_running or self.spark.is_running

    @property
    def is_complete(self) -> bool:
        """Whether all processes of the cluster run."""
        pids = (*self.kafka.pids.values(), self.spark.master_pid, *self.spark.worker_pids.values())
        return None not in pids

    def up(self, *, die_with_parent: bool = False) -> DevCluster:
        """Starts the processes that do not run. Returns self. Raises LocalBrokerFault, JarsUnavailable and LocalSparkFault."""
        made = BrokerGroup.of(self.folder / KAFKA_FOLDER)
        if made is not None and made.size != self.kafka.size:
            raise LocalSparkFault(
                f"the cluster in {self.folder} was made with --brokers {made.size}, and its topics cannot move to {self.kafka.size}",
                f"Leave --brokers out, name another --folder, or stop it ({DOWN_COMMAND}) and remove the folder.",
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        if None in self.kafka.pids.values():
            self.kafka.start(die_with_parent=die_with_parent)
        self.spark.start(die_with_parent=die_with_parent)
        return self

    def down(self) -> None:
        """Ends all processes. Topics and the folders of the workers stay."""
        self.spark.stop()
        self.kafka.stop()

    def settings(self) -> dict[str, str]:
        """The settings with which a project runs on the cluster."""
        return {
            "kafka.bootstrap.servers": self.kafka.bootstrap_servers,
            "spark.master": self.spark.master_url,
            "stepwell.workers": str(len(self.spark.workers)),
        }
