"""The Spark session of a pipeline: classic, in UTC, and without output; local, unless the project names a master.

Each worker is a job of one task that lives as long as the run, so local mode has more task slots than cores: a worker that replaces another
one, or that a rescale adds, must find a slot. `local[*]` means all cores too, so it gets the same number; `local[N]` has N slots
and no more. Unix sockets replace TCP, and Stepwell's own daemon imports the heavy modules before it forks a task's process.
The UI, the progress bar and the WARN lines are off.
The session starts in 3 to 20 s. A process makes one session.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from base.cpu_quota import cpu_quota
from base.limits import WORKERS_MAX
from base.spark_master import ALL_CORES, MASTER_KEY
from base.user_folders import user_name
from engine.resident.preload import DAEMON_MODULE
from stepwell.spark import class_archive
from stepwell.spark.fixed import FIXED_SQL
from stepwell.spark.unknown_user import java_options_without_home, log_in, settings_without_home

DAEMON_KEY = "spark.python.daemon.module"
PYTHON_PATH_KEY = "spark.executorEnv.PYTHONPATH"
WAREHOUSE_KEY = "spark.sql.warehouse.dir"

WORKER_SLOTS = WORKERS_MAX
"""Task slots of local mode beyond the cores: as many as a pipeline may have workers. A slot that nobody uses costs nothing."""

FAST_START = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""The driver's JVM plans queries and starts tasks, and the data is in Python processes. So it does without the optimising compiler, which took
half of the CPU time of a start and gave nothing back. Without it a JVM has room for 48 MB of compiled code, and drops what it has compiled when
that is full, to compile it again. So it gets as much address space as it would have with the optimising compiler."""

SMALL_HEAP = "-XX:+UseSerialGC -Xms64m"
"""The plain collector, with a heap that begins small, keeps 50 to 80 MB less than the default one, and its threads take no time from the
workers."""

OPTION_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
"""The variables from which a JVM takes options."""

LOOPBACK = "127.0.0.1"

_ROOMS_FOLDER = Path(__file__).resolve().parents[2]
_LOG4J_FILES = {
    "text": Path(__file__).with_name("log4j2.properties"),
    "json": Path(__file__).with_name("log4j2-json.properties"),
}

_FIXED = {
    **FIXED_SQL,
    "spark.sql.unsupportedOperationCheck": "false",
    # A worker's task never ends, so it would always look slow.
    "spark.speculation": "false",
    # The pickle of a function in Python stands in its plan. Spark would put a larger one into a broadcast variable.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    # A worker may be idle for as long as its input is.
    "spark.python.worker.killOnIdleTimeout": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
}


def connection_lost(error: BaseException) -> bool:
    """Whether `error`, or one of its causes, says that the JVM did not answer. In this case the error is not that of a definition.

    Py4J turns a broken connection into a Py4JError without a cause. An exception of the JVM is a Py4JJavaError, and a call that does not
    exist has a trace."""
    waiting: list[BaseException | None] = [error]
    met: set[int] = set()  # the chain of causes may have a cycle
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in met:
            continue
        if isinstance(found, ConnectionError | EOFError | Py4JNetworkError):
            return True
        if type(found) is Py4JError and "Trace:" not in str(found):
            return True
        met.add(id(found))
        waiting += [found.__cause__, found.__context__]
    return False


def cores() -> int:
    """The number of cores that this process may use. In a container it can be lower than the machine's: by the cores that it is given, or by a
    quota of their time, of which a part of a core counts as one."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return found if quota is None else max(1, min(found, math.ceil(quota)))


def make_session(
    name: str,
    settings: Mapping[str, str] | None = None,
    daemon_module: str | None = DAEMON_MODULE,
    java_options: str | None = None,
) -> SparkSession:
    """The process's session: see `configuration` for the arguments."""
    return session_of(make_context(configuration(name, settings, daemon_module, java_options)))


def configuration(
    name: str,
    settings: Mapping[str, str] | None = None,
    daemon_module: str | None = DAEMON_MODULE,
    java_options: str | None = None,
    *,
    log_format: str = "text",
) -> dict[str, str]:
    """What Spark is started with: a project's `spark.*` settings and ours. With `daemon_module` None, Spark's own daemon is used. With
    `java_options` None, the JVM starts as fast as it can. `log_format`: text or json, of what Spark logs."""
    chosen = {"spark.app.name": name, **_DEFAULTS, **(settings or {}), **_FIXED}
    if (of_all_cores := re.fullmatch(r"local\[\*(,\s*\d+)?\]", chosen.get(MASTER_KEY, ALL_CORES))) is not None:
        # The parallelism would be the number of slots.
        chosen[MASTER_KEY] = f"local[{cores() + WORKER_SLOTS}{of_all_cores[1] or ''}]"
        chosen.setdefault("spark.default.parallelism", str(cores()))
    for key, value in {**_conf_of_place(chosen[MASTER_KEY]), **settings_without_home()}.items():
        chosen.setdefault(key, value)
    # This is the folder that Spark uses too. Its own default is a URI, and Spark makes a folder of that name, with %20 for a space.
    chosen.setdefault(WAREHOUSE_KEY, str(Path.cwd() / "spark-warehouse"))
    if daemon_module is not None:
        chosen.setdefault(DAEMON_KEY, daemon_module)
    # Python workers must find Stepwell's packages also if they run from a checkout.
    chosen.setdefault(PYTHON_PATH_KEY, os.pathsep.join(_python_path()))
    options = chosen.get("spark.driver.extraJavaOptions", "")
    if "log4j2.configurationFile" not in options:
        options = f"-Dlog4j2.configurationFile={_LOG4J_FILES[log_format].as_uri()} {options}"
    options = f"{java_options_without_home()} {options}"
    ours = (
        f"{class_archive.java_options()} {FAST_START} {_small_heap(options)}" if java_options is None else java_options
    )
    # If an option occurs twice, the JVM uses the last one, which is the project's.
    chosen["spark.driver.extraJavaOptions"] = f"{ours} {options}".strip()
    return chosen


def _small_heap(options: str) -> str:
    """SMALL_HEAP, or nothing if the user has chosen a collector: a JVM that gets two does not start."""
    chosen = " ".join([options, *(os.environ.get(name, "") for name in OPTION_VARIABLES)])
    return "" if re.search(r"-XX:[+]Use\w+GC\b", chosen) else SMALL_HEAP


def make_context(chosen: Mapping[str, str]) -> SparkContext:
    """The process's SparkContext, with this configuration."""
    # The tasks need this environment, but Spark would use whatever `python3` is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAll(list(chosen.items()))
    if user_name() is None:
        SparkContext._ensure_initialized(conf=conf)  # launches the JVM, and nothing has asked for its user yet
        log_in(SparkContext._jvm)
    return SparkContext.getOrCreate(conf)


def session_of(context: SparkContext) -> SparkSession:
    """The session of the process's context. It takes about as long to make as the context."""
    found = SparkSession.builder.getOrCreate()
    assert found.sparkContext is context, "a process has one SparkContext"
    return found


def _conf_of_place(master: str) -> dict[str, str]:
    """What follows from where the tasks run."""
    if _is_on_loopback(master):
        # Executors connect to the driver at this address. Spark would choose the machine's address in its network, over which Stepwell's
        # workers would not be allowed to connect without encryption.
        return {"spark.driver.host": LOOPBACK}
    return {}


def _is_on_loopback(master: str) -> bool:
    """Whether all masters of a standalone cluster (`spark://HOST:PORT,HOST:PORT`) are on this machine's loopback addresses."""
    if not master.startswith("spark://"):
        return False
    hosts = [address.rsplit(":", 1)[0] for address in master.removeprefix("spark://").split(",")]
    return all(host in ("localhost", "[::1]") or host.startswith("127.") for host in hosts)


def _python_path() -> list[str]:
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return list(dict.fromkeys([str(_ROOMS_FOLDER), *filter(None, inherited)]))
