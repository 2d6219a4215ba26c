"""The settings of Kafka's brokers that Stepwell starts for trying things: of one broker alone, and of three.

Every node is broker and controller. With three nodes each topic has three replicas, of which two must have a message before it counts as
written. So one broker can be lost at any moment, and the others go on without losing anything.

`docker/compose.yaml` has the same settings for containers; tests/cluster/test_compose.py compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GROUP_SIZES = (1, 3)
"""How many nodes a group may have. Two nodes would have no majority when one is lost."""

COMMON: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a SIGKILL the controller lets the broker in again only when the session of the dead one is over; the default is 9 s.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Messages stay, whatever their timestamps say: with the default of seven days, those of an example of last year would go within minutes.
    "log.retention.ms": "-1",
    # The cleaner's buffer is taken from the heap at once; the default of 128 MB would be a large part of it.
    "log.cleaner.dedupe.buffer.size": "16777216",
}
"""What every node has, with small numbers where the default is meant for a large cluster."""


@dataclass(frozen=True)
class NodePorts:
    """The ports of a node of a local cluster. `broker`: where clients connect. `controller`: where the nodes agree on metadata."""

    broker: int
    controller: int


@dataclass(frozen=True)
class Secured:
    """What a broker has beside its plain listener. `listeners`: the name of each one more, with its protocol (SSL, SASL_SSL or SASL_PLAINTEXT)
    and its port. `settings`: how they authenticate, and what the authorizer allows. Brokers and their controllers go on to use the plain one."""

    listeners: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


PLAIN = Secured()


def replication(nodes: int) -> dict[str, str]:
    """How many replicas topics have, and how many of them must have a message, in a group of so many nodes."""
    assert nodes in GROUP_SIZES
    replicas, in_sync = str(nodes), str(nodes // 2 + 1)
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def quorum(host: str, ports: Mapping[int, NodePorts]) -> dict[str, str]:
    """How the controllers of a group find each other. `ports`: of every node, by its number."""
    if len(ports) == 1:
        return {"controller.quorum.bootstrap.servers": f"{host}:{ports[1].controller}"}
    voters = (f"{number}@{host}:{of.controller}" for number, of in sorted(ports.items()))
    return {"controller.quorum.voters": ",".join(voters)}


def server_properties(
    number: int, host: str, ports: Mapping[int, NodePorts], data: Path, secured: Secured = PLAIN
) -> dict[str, str]:
    """All settings of the node `number`. `data`: the folder of its log."""
    own = ports[number]
    listeners = f"PLAINTEXT://{host}:{own.broker},CONTROLLER://{host}:{own.controller}"
    listeners += "".join(f",{name}://{host}:{port}" for name, (_, port) in secured.listeners.items())
    protocols = COMMON["listener.security.protocol.map"]
    protocols += "".join(f",{name}:{protocol}" for name, (protocol, _) in secured.listeners.items())
    return {
        "node.id": str(number),
        "listeners": listeners,
        "advertised.listeners": listeners,
        "log.dirs": str(data),
        **quorum(host, ports),
        **replication(len(ports)),
        **COMMON,
        "listener.security.protocol.map": protocols,
        **secured.settings,
    }


def as_text(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())
