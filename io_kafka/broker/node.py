"""One node of a local Kafka: a process that is broker and controller, and its folder.

folder/
  server.properties   written at every start
  ports.json          the two ports, chosen once
  data/, formatted    the log; `formatted` exists when formatting is complete, and holds the cluster's id
  broker.log, broker.pid
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from base.whole_file import write_whole
from io_kafka.broker.folder_process import FolderProcess
from io_kafka.broker.ports import is_listening
from io_kafka.broker.properties import NodePorts, as_text
from io_kafka.clients.settings import brokers_of
from io_kafka.errors import BrokerUnreachable, LocalBrokerFault

HOST = "127.0.0.1"

START_SECONDS_MAX = 120
"""A start takes 2.3 s on an idle machine, and many times that on a busy one."""

ANSWER_SECONDS_MAX = 5
"""The time for one answer of a node that has just opened its port."""

_LOGGING = """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
"""


class BrokerNode:
    """The node `number` of a group, in `folder`."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self.process = FolderProcess(folder, "broker")

    @property
    def ports(self) -> NodePorts | None:
        """The ports that were chosen at the first start; None before it."""
        try:
            return NodePorts(**json.loads((self.folder / "ports.json").read_text()))
        except FileNotFoundError:
            return None

    @ports.setter
    def ports(self, ports: NodePorts) -> None:
        write_whole(self.folder / "ports.json", json.dumps(asdict(ports)))

    @property
    def address(self) -> str:
        """`host:port` of the broker. Raises LocalBrokerFault before the first start."""
        ports = self.ports
        if ports is None:
            raise LocalBrokerFault(f"no broker was ever started in {self.folder}. Start it with `stepwell dev up`.")
        return f"{HOST}:{ports.broker}"

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, which distinguishes this broker from another one at the same port; None until the folder is formatted."""
        return self._formatted.read_text() if self._formatted.exists() else None

    def forget_ports(self) -> None:
        """Removes the ports and the mark of formatting, because formatting records the controllers' addresses. No data is stored yet."""
        (self.folder / "ports.json").unlink()
        self._formatted.unlink(missing_ok=True)

    def write_files(self, properties: Mapping[str, str]) -> None:
        write_whole(self._properties, as_text(properties))
        write_whole(self._logging, _LOGGING)

    def format(self, java: Sequence[str], cluster_id: str, *options: str) -> None:
        """Formats the folder, once. Formatting that was interrupted is discarded and done again."""
        if self.cluster_id is not None:
            return
        shutil.rmtree(self.data, ignore_errors=True)
        arguments = ["format", *options, "-t", cluster_id, "-c", str(self._properties)]
        ran = subprocess.run(
            [*java, self._log_option, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=START_SECONDS_MAX, check=False,
        )  # fmt: skip
        if ran.returncode != 0:
            raise LocalBrokerFault(
                f"the folder {self.folder} could not be formatted for the local broker: {ran.stdout.strip()[-800:]}"
            )
        write_whole(self._formatted, cluster_id)

    def spawn(self, java: Sequence[str], *, die_with_parent: bool) -> None:
        """Starts the process. `answers` says when it is up."""
        command = [*java, self._log_option, "kafka.Kafka", str(self._properties)]
        self.process.spawn(command, die_with_parent=die_with_parent)

    def why_not_up(self, known: frozenset[int]) -> str | None:
        """Why the node cannot be used yet; None if it answers as a broker of its cluster and knows the nodes `known`."""
        if not is_listening(self.address):
            return "its port is closed"
        try:
            cluster_id, brokers = brokers_of(self.address, timeout_s=ANSWER_SECONDS_MAX)
        except BrokerUnreachable as fault:
            return str(fault)
        if cluster_id != self.cluster_id:
            return "another broker has its port"
        return None if known <= brokers else f"it does not know broker {min(known - brokers)} yet"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.folder / "log4j2.properties"

    @property
    def _log_option(self) -> str:
        return f"-Dlog4j2.configurationFile={self._logging}"

    @property
    def _formatted(self) -> Path:
        return self.folder / "formatted"
