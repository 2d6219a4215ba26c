"""A group of Kafka brokers on this machine, each a child process with its own folder: one broker, or three.

Guarantees: `start` returns when all nodes answer and know each other, and raises otherwise. Nodes that are started again have the same
addresses and the same topics, also after a SIGKILL. Any process finds the group of a folder by the pid files (`BrokerGroup.running`). With
three nodes, each can be killed and started alone, and no message that was acknowledged is lost.

    folder/1, folder/2, folder/3   the nodes of a group of three (node.py)
    folder                         the only node of a group of one
"""

from __future__ import annotations

import signal
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from io_kafka.broker.folder_process import POLL_SECONDS, start_lock
from io_kafka.broker.jars import java_command, kafka_jars
from io_kafka.broker.node import HOST, START_SECONDS_MAX, BrokerNode
from io_kafka.broker.ports import PORT_TRIES_MAX, PORTS, free_port
from io_kafka.broker.properties import GROUP_SIZES, PLAIN, NodePorts, Secured, server_properties
from io_kafka.errors import LocalBrokerFault

HEAP = {1: ("-Xms128m", "-Xmx512m"), 3: ("-Xms64m", "-Xmx256m")}
"""By the number of nodes: three brokers share the machine with what is tried on them."""


class BrokerGroup:
    """The nodes of one folder. `port`: of the first broker, where the folder is new; None chooses a free one, and later starts keep it.
    `secured`: what a broker alone has beside its plain listener."""

    stop_command = "stepwell dev cluster down"

    def __init__(self, folder: Path, size: int = 3, port: int | None = None, secured: Secured = PLAIN) -> None:
        assert size in GROUP_SIZES and (size == 1 or secured == PLAIN)
        self._secured = secured
        self.folder = Path(folder).absolute()
        self._port = port
        folders = [self.folder] if size == 1 else [self.folder / str(number) for number in range(1, size + 1)]
        self.nodes = {number: BrokerNode(node_folder, number) for number, node_folder in enumerate(folders, start=1)}

    @classmethod
    def of(cls, folder: Path) -> BrokerGroup | None:
        """The group that was made in `folder`, whether it runs or not; None if there is none."""
        for size in GROUP_SIZES:
            group = BrokerGroup(folder, size)
            if group.nodes[1].ports is not None:
                return group
        return None

    @property
    def size(self) -> int:
        return len(self.nodes)

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of each node. Raises LocalBrokerFault before the first start."""
        return ",".join(node.address for node in self.nodes.values())

    @property
    def pids(self) -> dict[int, int | None]:
        """The process of each node; None if it does not run."""
        return {number: node.process.pid for number, node in self.nodes.items()}

    @property
    def is_running(self) -> bool:
        """Whether a node runs."""
        return any(pid is not None for pid in self.pids.values())

    def start(self, *, die_with_parent: bool = False) -> Self:
        """Starts the nodes that do not run, and waits until all answer. Returns self.

        `die_with_parent`: the nodes are killed when this process ends, however it ends.
        """
        java = self._java()
        self.folder.mkdir(parents=True, exist_ok=True)
        with start_lock(self.folder) as is_ours:
            if not is_ours:
                raise LocalBrokerFault(
                    f"another process is starting the broker of {self.folder}. Try again when it is done."
                )
            waiting = [node for node in self.nodes.values() if node.process.find_process() is None]
            if not waiting:
                raise LocalBrokerFault(
                    f"a broker runs in {self.folder} already (pid {self.nodes[1].process.pid}, {self.bootstrap_servers}). "
                    f"Use it, or stop it with `{self.stop_command}`."
                )
            self._start(java, waiting, die_with_parent=die_with_parent)
        return self

    def start_node(self, number: int, *, die_with_parent: bool = False) -> None:
        """Starts one node of a group that was started before, and waits until it answers."""
        java = self._java()
        self._start(java, [self.nodes[number]], die_with_parent=die_with_parent)

    def kill_node(self, number: int) -> None:
        """Sends SIGKILL to one node, which is like a crash."""
        self.nodes[number].process.end(signal.SIGKILL)

    def stop(self) -> None:
        """Sends SIGTERM to all nodes, and SIGKILL after STOP_SECONDS_MAX. Does nothing to a node that does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL to all nodes."""
        self._end(signal.SIGKILL)

    def _start(self, java: Sequence[str], nodes: Sequence[BrokerNode], *, die_with_parent: bool) -> None:
        for tried in range(1, PORT_TRIES_MAX + 1):
            settled = self._choose_ports()
            self._prepare(java)
            for node in nodes:
                node.spawn(java, die_with_parent=die_with_parent)
            ended = self._wait_until_up(nodes)
            if ended is None:
                return
            last = ended.process.tail()
            for node in nodes:
                node.process.end(signal.SIGKILL)
            if settled or "Address already in use" not in last or tried == PORT_TRIES_MAX:
                raise LocalBrokerFault(f"the local broker ended while starting. {last}")
            for node in self.nodes.values():
                node.forget_ports()

    def _java(self) -> list[str]:
        return [java_command(), "-cp", f"{kafka_jars()}/*", *HEAP[self.size]]

    def _choose_ports(self) -> bool:
        """Records the ports of this start. Returns whether they are given, by the user or by an earlier start."""
        given = self._port is not None or self.nodes[1].ports is not None
        for node in self.nodes.values():
            node.folder.mkdir(exist_ok=True)
            kept = node.ports
            broker = (self._port if node.number == 1 else None) or (kept.broker if kept else self._new_port())
            controller = kept.controller if kept else self._new_port(broker)
            node.ports = NodePorts(broker, controller)
        return given

    def _new_port(self, *taken: int) -> int:
        for node in self.nodes.values():
            if (ports := node.ports) is not None:
                taken += (ports.broker, ports.controller)
        port = free_port(HOST, taken)
        if port is None:
            raise LocalBrokerFault(
                f"found no free port in {PORTS.start}..{PORTS.stop} on {HOST}. Name one: `stepwell dev up --port N`."
            )
        return port

    def _prepare(self, java: Sequence[str]) -> None:
        """Writes the files of all nodes, and formats the folders that are new."""
        ports = {number: node.ports for number, node in self.nodes.items()}
        known = {number: each for number, each in ports.items() if each is not None}
        assert known.keys() == ports.keys()
        cluster_id = next((node.cluster_id for node in self.nodes.values() if node.cluster_id), None) or _cluster_id()
        # A node alone forms its quorum itself. Three nodes find theirs in the settings.
        options = ("--standalone",) if self.size == 1 else ()
        for number, node in self.nodes.items():
            node.write_files(server_properties(number, HOST, known, node.data, self._secured))
            node.format(java, cluster_id, *options)

    def _wait_until_up(self, nodes: Sequence[BrokerNode]) -> BrokerNode | None:
        """Returns None when all these nodes answer, and a node if its process has ended. Raises if one runs and does not answer in time."""
        deadline = time.monotonic() + START_SECONDS_MAX
        known = frozenset(node.number for node in nodes)
        waiting, reason = list(nodes), ""
        while time.monotonic() < deadline:
            for node in nodes:
                if node.process.has_ended():
                    return node
            reason = waiting[0].why_not_up(known) or ""
            if not reason:
                waiting.pop(0)
            if not waiting:
                return None
            time.sleep(POLL_SECONDS)
        last = waiting[0].process.tail()
        for node in nodes:
            node.process.end(signal.SIGKILL)
        raise LocalBrokerFault(f"the local broker did not answer within {START_SECONDS_MAX} s: {reason}. {last}")

    def _end(self, sign: signal.Signals) -> None:
        """A broker that stops hands its partitions over, for which it needs the controllers. So the nodes get the signal together."""
        running = [process for node in self.nodes.values() if (process := node.process.find_process()) is not None]
        for process in running:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(sign)
        for node in self.nodes.values():
            node.process.end(sign)


def _cluster_id() -> str:
    """A random UUID as Kafka writes it. It does not begin with a dash, because the command line would read that as an option."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text
