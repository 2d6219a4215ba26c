"""A Spark standalone cluster on this machine: a master and workers, each a child process with its own folder.

Guarantees: `start` returns when the master lists every worker as alive, and raises otherwise. A cluster that is started again in its folder
has the same address. Any process finds it by the pid files (`LocalSpark.of`). Each worker can be killed with all that it has started, as the
loss of a host would do, and started again alone.

Each worker has a loopback address of its own, and its own folders: what Spark keeps there (`scratch`, `work`), and what Stepwell keeps there
(`state`, which is STEPWELL_LOCAL_DIR of all tasks on that host).

    folder/
      cluster.json            the number of workers, the master's ports
      master/master.log, master/master.pid
      worker-1/worker.log, worker-1/worker.pid, worker-1/work, worker-1/scratch, worker-1/state

The classes of master and worker are in PySpark's jars, so nothing has to be downloaded.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import httpx
import psutil

from base.fault import ExitCode
from base.user_folders import user_name
from base.whole_file import write_whole
from io_kafka.broker.folder_process import POLL_SECONDS, FolderProcess, start_lock
from io_kafka.broker.jars import java_command
from io_kafka.broker.ports import PORT_TRIES_MAX, PORTS, free_port
from stepwell.dev_cluster.topology import (
    DAEMON_HEAP_MB,
    MASTER_HOST,
    SCALA_VERSION,
    WORKER_CORES,
    WORKER_MEMORY_MB,
    WORKERS_DEFAULT,
    memory_mb,
    worker_host,
)
from stepwell.errors import StepwellError

START_SECONDS_MAX = 120
"""A master is up after 3 s and a worker after 2 more on an idle machine, and many times that on a busy one."""

ANSWER_SECONDS_MAX = 5.0
"""The time for the master's page."""

DOWN_COMMAND = "stepwell dev cluster down"

_OPTIONS = (
    # Without retries a port that is in use is an error. With them, the master would listen at the next port, where nobody looks for it.
    "-Dspark.port.maxRetries=0",
    # It would take jobs from anybody on this machine, and its port would be the same for every cluster.
    "-Dspark.master.rest.enabled=false",
)

_ADDRESS_IN_USE = "Address already in use"


class LocalSparkFault(StepwellError):
    """The local Spark cluster cannot be started or found."""

    exit_code = ExitCode.MACHINE


@dataclass(frozen=True)
class _Kept:
    """What the first start has decided."""

    workers: int
    master_port: int
    page_port: int


class LocalSpark:
    """The cluster of one folder."""

    def __init__(self, folder: Path, workers: int = WORKERS_DEFAULT) -> None:
        self.folder = Path(folder).absolute()
        self.workers = range(1, workers + 1)
        self._master = FolderProcess(self.folder / "master", "master")
        self._processes = {number: FolderProcess(self.worker_folder(number), "worker") for number in self.workers}

    @classmethod
    def of(cls, folder: Path) -> LocalSpark | None:
        """The cluster that was made in `folder`, whether it runs or not; None if there is none."""
        kept = _read_kept(Path(folder).absolute())
        return None if kept is None else cls(folder, kept.workers)

    @property
    def master_url(self) -> str:
        """The value of `spark.master`. Raises LocalSparkFault before the first start."""
        return f"spark://{MASTER_HOST}:{self._kept_or_raise().master_port}"

    @property
    def page_url(self) -> str:
        """The master's page for users; `json/` below it is for programs."""
        return f"http://{MASTER_HOST}:{self._kept_or_raise().page_port}/"

    @property
    def master_pid(self) -> int | None:
        return self._master.pid

    @property
    def worker_pids(self) -> dict[int, int | None]:
        """The process of each worker; None if it does not run."""
        return {number: process.pid for number, process in self._processes.items()}

    @property
    def is_running(self) -> bool:
        """Whether a process of the cluster runs."""
        return self.master_pid is not None or any(pid is not None for pid in self.worker_pids.values())

    def pids_below(self, number: int) -> set[int]:
        """The processes that one worker has started: executors, and the Python processes of their tasks."""
        return {process.pid for process in self._processes[number].descendants()}

    def worker_folder(self, number: int) -> Path:
        return self.folder / f"worker-{number}"

    def state_folder(self, number: int) -> Path:
        """STEPWELL_LOCAL_DIR of the tasks on worker `number`."""
        return self.worker_folder(number) / "state"

    def alive_workers(self) -> dict[str, int]:
        """host -> cores of every worker that the master lists as alive. Raises LocalSparkFault if the master does not answer."""
        try:
            answer = httpx.get(f"{self.page_url}json/", timeout=ANSWER_SECONDS_MAX, trust_env=False)
            answer.raise_for_status()
            listed = answer.json()["workers"]
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise LocalSparkFault(
                f"Spark's master does not answer at {self.page_url}json/: {error}",
                f"Look at {self._master.log}, or start the cluster: stepwell dev cluster up.",
            ) from error
        return {str(worker["host"]): int(worker["cores"]) for worker in listed if worker["state"] == "ALIVE"}

    def start(self, *, die_with_parent: bool = False) -> LocalSpark:
        """Starts the processes that do not run, and waits until the master knows all workers. Returns self. Raises LocalSparkFault.

        `die_with_parent`: the processes are killed when this process ends, however it ends."""
        java = java_command()
        self.folder.mkdir(parents=True, exist_ok=True)
        with start_lock(self.folder) as is_ours:
            if not is_ours:
                raise LocalSparkFault(
                    f"another process is starting the Spark cluster of {self.folder}", "Try again when it is done."
                )
            self._check_size()
            self._check_machine()
            if self._master.find_process() is None:
                self._start_master(java, die_with_parent=die_with_parent)
            missing = [number for number, pid in self.worker_pids.items() if pid is None]
            self._start_workers(java, missing, die_with_parent=die_with_parent)
        return self

    def start_worker(self, number: int, *, die_with_parent: bool = False) -> None:
        """Starts one worker of a running cluster, and waits until the master knows it."""
        self._start_workers(java_command(), [number], die_with_parent=die_with_parent)

    def kill_worker(self, number: int) -> None:
        """Sends SIGKILL to one worker, its executors and their Python processes. The loss of a host does the same."""
        self._processes[number].kill_tree()

    def stop(self) -> None:
        """Ends all processes, the executors included. Does nothing to a process that does not run."""
        for process in self._processes.values():
            started = process.descendants()
            process.end(signal.SIGTERM)
            for each in started:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        self._master.end(signal.SIGTERM)

    # The processes

    def _start_master(self, java: str, *, die_with_parent: bool) -> None:
        for tried in range(1, PORT_TRIES_MAX + 1):
            is_kept = _read_kept(self.folder) is not None
            kept = self._choose_ports()
            self._master.folder.mkdir(exist_ok=True)
            arguments = ["--host", MASTER_HOST, "--port", str(kept.master_port), "--webui-port", str(kept.page_port)]
            command = [*_jvm(java), "org.apache.spark.deploy.master.Master", *arguments]
            self._master.spawn(command, _environment(MASTER_HOST), die_with_parent=die_with_parent)
            if self._wait_until(self._answers, self._master, "Spark's master"):
                return
            last = self._master.tail()
            self._master.reap()
            if is_kept or _ADDRESS_IN_USE not in last or tried == PORT_TRIES_MAX:
                raise LocalSparkFault(
                    f"Spark's master ended while starting. {last}",
                    f"If a port is in use, end what uses it, or remove {self.folder} to choose others."
                    if _ADDRESS_IN_USE in last
                    else "",
                )
            _cluster_file(self.folder).unlink()

    def _start_workers(self, java: str, numbers: list[int], *, die_with_parent: bool) -> None:
        for number in numbers:
            self._require_forgotten(number)
            self._spawn_worker(java, number, die_with_parent=die_with_parent)
        for number in numbers:
            self._wait_for_worker(number)

    def _wait_for_worker(self, number: int) -> None:
        process, host = self._processes[number], worker_host(number)
        if not self._wait_until(lambda: host in self.alive_workers(), process, f"the Spark worker {host}"):
            last = process.tail()
            process.reap()
            raise LocalSparkFault(f"the Spark worker {host} ended while starting. {last}")

    def _spawn_worker(self, java: str, number: int, *, die_with_parent: bool) -> None:
        place, host = self.worker_folder(number), worker_host(number)
        folders = {name: place / name for name in ("work", "scratch", "state")}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        arguments = [
            "--host", host,
            "--port", "0", "--webui-port", "0",  # any free port: nobody has to know them
            "--cores", str(WORKER_CORES), "--memory", f"{WORKER_MEMORY_MB}m",
            "--work-dir", str(folders["work"]),
            self.master_url,
        ]  # fmt: skip
        environment = {
            **_environment(host),
            "SPARK_LOCAL_DIRS": str(folders["scratch"]),
            "STEPWELL_LOCAL_DIR": str(folders["state"]),
        }
        command = [*_jvm(java), "org.apache.spark.deploy.worker.Worker", *arguments]
        self._processes[number].spawn(command, environment, die_with_parent=die_with_parent)

    def _require_forgotten(self, number: int) -> None:
        """Waits until the master has noticed the end of an earlier worker of that number. Otherwise the new one would seem to be known before
        it is."""
        host, deadline = worker_host(number), time.monotonic() + START_SECONDS_MAX
        while host in self.alive_workers():
            if time.monotonic() > deadline:
                raise LocalSparkFault(f"Spark's master at {self.page_url} still lists a worker on {host}")
            time.sleep(POLL_SECONDS)

    def _wait_until(self, event: Callable[[], bool], process: FolderProcess, what: str) -> bool:
        """Returns True when the event has come, and False if the process has ended. Raises LocalSparkFault at the deadline."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if process.has_ended():
                return False
            if event():
                return True
            time.sleep(POLL_SECONDS)
        last = process.tail()
        process.kill_tree()
        raise LocalSparkFault(f"{what} was not up within {START_SECONDS_MAX} s. {last}")

    def _answers(self) -> bool:
        try:
            self.alive_workers()
        except LocalSparkFault:
            return False
        return True

    # The folder and the machine

    def _kept_or_raise(self) -> _Kept:
        kept = _read_kept(self.folder)
        if kept is None:
            raise LocalSparkFault(
                f"no Spark cluster was ever started in {self.folder}", "Start it: stepwell dev cluster up."
            )
        return kept

    def _choose_ports(self) -> _Kept:
        """What an earlier start has decided, or this one decides and records."""
        kept = _read_kept(self.folder)
        if kept is None:
            ports: list[int] = []
            for _ in range(2):
                port = free_port(MASTER_HOST, ports)
                if port is None:
                    raise LocalSparkFault(f"found no free port in {PORTS.start}..{PORTS.stop} on {MASTER_HOST}")
                ports.append(port)
            kept = _Kept(len(self.workers), *ports)
            _keep(self.folder, kept)
        return kept

    def _check_size(self) -> None:
        """Records the number of workers of this start. Raises LocalSparkFault if the cluster runs with another number."""
        kept, wanted = _read_kept(self.folder), len(self.workers)
        if kept is None or kept.workers == wanted:
            return
        if LocalSpark(self.folder, kept.workers).is_running:
            raise LocalSparkFault(
                f"the Spark cluster of {self.folder} runs with {kept.workers} workers, not with {wanted}",
                f"Stop it first: {DOWN_COMMAND}.",
            )
        _keep(self.folder, replace(kept, workers=wanted))

    def _check_machine(self) -> None:
        for number in self.workers:
            _require_address(worker_host(number))
        _require_user()
        missing = [number for number, pid in self.worker_pids.items() if pid is None]
        needed, free = memory_mb(len(missing)), psutil.virtual_memory().available >> 20
        if free < needed:
            raise LocalSparkFault(
                f"{len(missing)} Spark workers need about {needed} MB of memory, and this machine has {free} MB free",
                "End other programs, or start fewer: stepwell dev cluster up --workers 1.",
            )


def _cluster_file(folder: Path) -> Path:
    return folder / "cluster.json"


def _read_kept(folder: Path) -> _Kept | None:
    try:
        return _Kept(**json.loads(_cluster_file(folder).read_text()))
    except FileNotFoundError:
        return None


def _keep(folder: Path, kept: _Kept) -> None:
    write_whole(_cluster_file(folder), json.dumps(asdict(kept)))


def _spark_home() -> Path:
    """PySpark's folder. It is found without importing PySpark, which takes half a second."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None, "pyspark is a dependency of the package"
    return Path(found.origin).parent


def _jvm(java: str) -> list[str]:
    return [java, "-cp", f"{_spark_home() / 'jars'}/*", f"-Xmx{DAEMON_HEAP_MB}m", *_OPTIONS]


def _environment(host: str) -> dict[str, str]:
    """Returns the environment of a daemon, and so of the executors that it starts. Settings of Stepwell in this terminal are meant for its
    commands."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "STEPWELL_"))}
    return {
        **inherited,
        "SPARK_HOME": str(_spark_home()),
        "SPARK_SCALA_VERSION": SCALA_VERSION,
        "SPARK_LOCAL_IP": host,
        "SPARK_PUBLIC_DNS": host,
    }


def _require_user() -> None:
    """Raises LocalSparkFault if Hadoop's login, which Spark's daemons begin with, would find no user."""
    if user_name() is None:
        raise LocalSparkFault(
            f"this machine knows no user {os.getuid()}, and Spark's own master and workers do not start without one",
            "Run it as another user, or add a line for this one to /etc/passwd. `stepwell run` in local mode needs neither.",
        )


def _require_address(host: str) -> None:
    """Raises LocalSparkFault if this machine does not have the address. Linux has all of 127.0.0.0/8, and macOS only 127.0.0.1."""
    with socket.socket() as attempt:
        try:
            attempt.bind((host, 0))
        except OSError as error:
            raise LocalSparkFault(
                f"this machine has no address {host}, which a Spark worker needs: {error}",
                f"On macOS add it: sudo ifconfig lo0 alias {host} up.",
            ) from error
