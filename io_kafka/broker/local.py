"""A real Kafka broker on this machine, as a child process that keeps all its files in one folder.

Guarantees: `LocalBroker(folder).start()` returns when the broker answers, and raises otherwise. A broker that is started
again in the same folder has the same address and the same topics, also after a SIGKILL. Any process finds the broker of a
folder by its pid file (`LocalBroker.running`) and can stop it. A pid that the system has reused for another process is
never mistaken for the broker.

The broker is real because an emulation proves nothing about transactions.

    folder/
      server.properties   written at every start
      ports.json          the two ports, chosen once
      data/, formatted    the log; `formatted` exists when formatting is complete, and holds the cluster's id
      broker.log          the broker's output
      broker.pid          pid and creation time of the process, while it runs
"""

from __future__ import annotations

import fcntl
import json
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from io_kafka.broker.jars import java_command, kafka_jars
from io_kafka.clients.settings import cluster_of
from io_kafka.errors import BrokerUnreachable, LocalBrokerFault

HOST = "127.0.0.1"

# A start takes 2.3 s on an idle machine, and many times that on a busy one.
START_SECONDS_MAX = 120

# A clean stop takes 1 to 2 s. After a SIGKILL the broker recovers from its log.
STOP_SECONDS_MAX = 30

# Below the range from which systems choose the ports of outgoing connections, which could occupy the broker's port while
# the broker is down.
PORTS = range(20_000, 32_000)

# Another process can occupy a port between the check and the broker's bind. Three times in a row has another cause.
PORT_TRIES_MAX = 3

POLL_SECONDS = 0.05

LOG_TAIL_LINES = 12

# All settings that a single broker needs, with small numbers where the default is meant for a cluster.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers={host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
# After a SIGKILL the controller lets the broker in again only when the session of the dead one is over; the default is
# 9 s.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
# The cleaner's buffer is taken from the heap at once; the default of 128 MB would be a quarter of it.
log.cleaner.dedupe.buffer.size=16777216
"""

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

_HEAP = ("-Xms128m", "-Xmx512m")


@dataclass(frozen=True)
class _Ports:
    broker: int
    controller: int


class LocalBroker:
    """The broker of one folder. With `port=None` the first start chooses a free port, and later starts keep it."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = Path(folder).absolute()
        self._port = port
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @classmethod
    def running(cls, folder: Path) -> LocalBroker | None:
        """The broker that runs in `folder`, whichever process started it, or None."""
        broker = cls(folder)
        return broker if broker._process() is not None else None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port`. Raises LocalBrokerFault before the first start."""
        ports = self._kept_ports()
        if ports is None:
            raise LocalBrokerFault(f"no broker was ever started in {self.folder}. Start it with `stepwell dev up`.")
        return f"{HOST}:{ports.broker}"

    @property
    def pid(self) -> int | None:
        """The id of the broker's process; None if it does not run."""
        process = self._process()
        return None if process is None else process.pid

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    def start(self, *, die_with_parent: bool = False) -> LocalBroker:
        """Formats the folder if it is new, starts the broker and waits until it answers. Returns self.

        `die_with_parent`: the broker is killed when this process ends, however it ends.
        """
        jars, java = kafka_jars(), java_command()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            running = self._process()
            if running is not None:
                raise LocalBrokerFault(
                    f"a broker runs in {self.folder} already (pid {running.pid}, {self.bootstrap_servers}). "
                    "Use it, or stop it with `stepwell dev down`."
                )
            command = [java, "-cp", f"{jars}/*", f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"]
            for tried in range(1, PORT_TRIES_MAX + 1):
                settled = self._settle_ports()
                self._write_files()
                self._format(command)
                self._spawn([*command, *_HEAP, "kafka.Kafka", str(self._properties)])
                if self._wait_until_up():
                    break
                last = self._tail()
                self._reap()
                if settled or "Address already in use" not in last or tried == PORT_TRIES_MAX:
                    raise LocalBrokerFault(f"the local broker ended while starting. {last}")
                self._forget_ports()
            if die_with_parent:
                self._watch()
        return self

    def stop(self) -> None:
        """Sends SIGTERM, and SIGKILL after STOP_SECONDS_MAX. Does nothing if the broker does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL, which is like a crash."""
        self._end(signal.SIGKILL)

    # The process

    def _spawn(self, command: list[str]) -> None:
        """Starts the process in a session of its own, so that Ctrl-C in this terminal does not reach it."""
        with self.log.open("wb") as log:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
            )
        self._child = child
        self._pid_file.write_text(json.dumps({"pid": child.pid, "born": psutil.Process(child.pid).create_time()}))

    def _process(self) -> psutil.Process | None:
        try:
            kept = json.loads(self._pid_file.read_text())
            process = psutil.Process(kept["pid"])
            same = process.create_time() == kept["born"] and process.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return process if same else None

    def _wait_until_up(self) -> bool:
        """Returns True when the broker answers, and False if the process has ended. Raises if it runs and does not answer in time."""
        assert self._child is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        reason = "its port is closed"
        while time.monotonic() < deadline:
            if self._child.poll() is not None:
                return False
            if _listening(self.bootstrap_servers):
                try:
                    if cluster_of(self.bootstrap_servers, timeout_s=5) == self._formatted.read_text():
                        return True
                    reason = "another broker has its port"
                except BrokerUnreachable as fault:
                    reason = str(fault)
            time.sleep(POLL_SECONDS)
        last = self._tail()
        self._end(signal.SIGKILL)
        raise LocalBrokerFault(f"the local broker did not answer within {START_SECONDS_MAX} s: {reason}. {last}")

    def _watch(self) -> None:
        """Starts a shell that kills the broker when a pipe closes which only this process holds, even if this process is killed."""
        assert self._child is not None
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; kill -9 "$1"', "sh", str(self._child.pid)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def _end(self, sign: signal.Signals) -> None:
        process = self._process()
        if process is not None:
            try:
                process.send_signal(sign)
                if not _ended(process):
                    process.kill()
                    _ended(process)
            except psutil.NoSuchProcess:
                pass
        self._reap()

    def _reap(self) -> None:
        """Ends the watcher, then waits for the child. In the other order the watcher could kill another process with the child's pid."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        if self._child is not None:
            self._child.wait(STOP_SECONDS_MAX)
            self._child = None
        self._pid_file.unlink(missing_ok=True)

    # The folder

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _formatted(self) -> Path:
        """The file with the cluster's id, which distinguishes this broker from another one at the same port."""
        return self.folder / "formatted"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "broker.pid"

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LocalBrokerFault(
                    f"another process is starting the broker of {self.folder}. Try again when it is done."
                ) from None
            yield

    def _kept_ports(self) -> _Ports | None:
        try:
            kept = json.loads((self.folder / "ports.json").read_text())
        except FileNotFoundError:
            return None
        return _Ports(**kept)

    def _settle_ports(self) -> bool:
        """Records the ports of this start. Returns whether they are given, by the user or by an earlier start."""
        kept = self._kept_ports()
        controller = kept.controller if kept else _free_port()
        broker = self._port or (kept.broker if kept else _free_port(controller))
        _write(self.folder / "ports.json", json.dumps(asdict(_Ports(broker, controller))))
        return kept is not None or self._port is not None

    def _forget_ports(self) -> None:
        """Removes the ports and the mark of formatting, because formatting records the controller's address. No data is stored yet."""
        (self.folder / "ports.json").unlink()
        self._formatted.unlink()

    def _write_files(self) -> None:
        ports = self._kept_ports()
        assert ports is not None
        _write(
            self._properties,
            _PROPERTIES.format(host=HOST, port=ports.broker, controller=ports.controller, data=self.folder / "data"),
        )
        _write(self.folder / "log4j2.properties", _LOGGING)

    def _format(self, command: list[str]) -> None:
        """Formats the folder, once. Formatting that was interrupted is discarded and done again."""
        if self._formatted.exists():
            return
        cluster_id = _cluster_id()
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        arguments = ["format", "--standalone", "-t", cluster_id, "-c", str(self._properties)]
        ran = subprocess.run(
            [*command, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=START_SECONDS_MAX, check=False,
        )  # fmt: skip
        if ran.returncode != 0:
            raise LocalBrokerFault(
                f"the folder {self.folder} could not be formatted for the local broker: {ran.stdout.strip()[-800:]}"
            )
        _write(self._formatted, cluster_id)

    def _tail(self) -> str:
        """The last lines of the broker's log, without stack traces."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if not line.startswith("\t")]
        return f"The end of {self.log}:\n" + "\n".join(lines[-LOG_TAIL_LINES:])


def _ended(process: psutil.Process) -> bool:
    """Waits for the end of the process, and returns whether it has ended. A zombie counts as ended, because only its parent can reap it."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            process.wait(POLL_SECONDS)
            return True
        except psutil.TimeoutExpired:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
    return False


def _write(path: Path, text: str) -> None:
    """Writes the file atomically."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.rename(path)


def _cluster_id() -> str:
    """A random UUID as Kafka writes it. It does not begin with a dash, because the command line would read that as an option."""
    while (text := urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _free_port(other_than: int | None = None) -> int:
    for port in random.sample(PORTS, 100):
        with socket.socket() as attempt:
            try:
                attempt.bind((HOST, port))
            except OSError:
                continue
        if port != other_than:
            return port
    raise LocalBrokerFault(
        f"found no free port in {PORTS.start}..{PORTS.stop} on {HOST}. Name one: `stepwell dev up --port N`."
    )


def _listening(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
