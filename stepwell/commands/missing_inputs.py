"""Creates the input topics of a new project on the brokers that `stepwell dev` has started."""

from __future__ import annotations

from coordinator.specification import PipelineSpec
from io_kafka.broker.group import BrokerGroup
from io_kafka.broker.local import LocalBroker
from io_kafka.clients.topics import Topics
from io_kafka.errors import UnknownTopic
from stepwell.commands.dev_folder import broker_folders, dev_cluster_folder
from stepwell.dev_cluster.topology import KAFKA_FOLDER


def make_missing_inputs(pipeline: PipelineSpec) -> list[str]:
    """Creates missing input topics on the user's local brokers, and on no other, so that a new project runs without changes. Returns their
    names."""
    if not is_local_broker(pipeline.kafka.bootstrap_servers):
        return []
    topics = Topics(pipeline.kafka)
    made = []
    for name in sorted(set(pipeline.input_topics) - pipeline.table_topics):  # those of tables are made by their load
        try:
            topics.describe([name])
        except UnknownTopic:
            topics.ensure(name, 1)
            made.append(name)
    return made


def is_local_broker(servers: str) -> bool:
    """Whether `stepwell dev` has started the brokers with this address."""
    return servers in _local_servers()


def _local_servers() -> set[str]:
    """The addresses of `dev up` and of `dev cluster up`, as far as they run."""
    brokers = (LocalBroker.find_running(folder) for folder in broker_folders())
    groups = (*brokers, BrokerGroup.of(dev_cluster_folder() / KAFKA_FOLDER))
    return {group.bootstrap_servers for group in groups if group is not None and group.is_running}
