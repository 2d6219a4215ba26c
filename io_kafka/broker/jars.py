"""Fetches the jars of Kafka's broker. `kafka_jars()` returns a folder that holds all of them, or raises JarsUnavailable.

Guarantee: the folder is complete or absent. The download goes to a folder beside it, is checked, and gets its name by one
rename. A lock lets one process fetch while the others wait.

The jars are fetched with Ivy's command line, which is part of pyspark, so that a machine needs only Python and Java. They
come from Maven Central, unless the user has Ivy settings: the file that STEPWELL_IVY_SETTINGS names, or
~/.ivy2/ivysettings.xml.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from base.user_folders import CACHE_VARIABLE, cache_root, home
from io_kafka.errors import JarsUnavailable

KAFKA_VERSION = "4.1.1"

LOG4J_VERSION = "2.24.3"
"""Kafka's POM leaves out the binding of its log, without which a broker that fails to start logs nothing. The version is
that of its log4j-core."""

SETTINGS_VARIABLE = "STEPWELL_IVY_SETTINGS"

JAVA_VERSION_MIN = 17
"""The broker of this version needs Java 17, though Kafka's client classes run on 11."""

FETCH_SECONDS_MAX = 600
"""45 jars of 43 MB took 40 s on a slow connection; after ten times that the connection hangs."""

FETCH_TRIES_MAX = 2
"""Ivy caches what it has fetched, so a second try after a broken connection fetches only the rest."""

REQUIRED_MODULES = (
    f"kafka_2.13-{KAFKA_VERSION}",
    *(
        f"{module}-{KAFKA_VERSION}"
        for module in (
            "kafka-clients", "kafka-server", "kafka-server-common", "kafka-metadata", "kafka-raft", "kafka-storage",
            "kafka-group-coordinator", "kafka-transaction-coordinator", "kafka-share-coordinator",
            "kafka-coordinator-common", "kafka-tools-api",
        )
    ),
    "scala-library-", "jackson-databind-", "jopt-simple-", "slf4j-api-", f"log4j-core-{LOG4J_VERSION}",
    f"log4j-slf4j-impl-{LOG4J_VERSION}",
    "metrics-core-", "caffeine-", "commons-validator-", "zstd-jni-", "lz4-java-", "snappy-java-",
)  # fmt: skip
"""A resolve without the runtime scope succeeds, but lacks some of these, and then the broker ends for a missing class."""

_IVY_MODULE = f"""<ivy-module version="2.0">
  <info organisation="stepwell" module="local-broker"/>
  <configurations><conf name="runtime"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA_VERSION}" conf="runtime->runtime(*),master(*)"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{LOG4J_VERSION}"
                conf="runtime->runtime(*),master(*)"/>
  </dependencies>
</ivy-module>
"""

_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""

_OWN_BROKER = "Or use a broker of your own: set `kafka.bootstrap.servers` to its address"


def java_command() -> str:
    """The path of a Java that can run the broker: JAVA_HOME's, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise JarsUnavailable(f"no Java in {where}. Install Java {JAVA_VERSION_MIN} or later. {_OWN_BROKER}.")
    if _major(found := java_version(java)) < JAVA_VERSION_MIN:
        raise JarsUnavailable(
            f"{java} is not Java {JAVA_VERSION_MIN} or later (it says: {found or 'nothing'}). Install one, "
            f"or point JAVA_HOME to it. {_OWN_BROKER}."
        )
    return java


def java_version(java: str) -> str:
    """The first line of what this Java says of its version, such as `openjdk version "17.0.15" 2025-04-15`; empty if it says nothing. Options
    that a variable of the environment brings are said before it."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError as fault:
        return str(fault)
    lines = [line for line in said.strip().splitlines() if not line.startswith(("Picked up", "NOTE: Picked up"))]
    return lines[0] if lines else ""


def _major(version: str) -> int:
    """0 if the text names no version."""
    found = re.search(r'version "(\d+)', version)
    return int(found[1]) if found is not None else 0


def cache_folder() -> Path:
    """The folder of the jars, which may not exist yet."""
    return cache_root() / "stepwell" / f"kafka-{KAFKA_VERSION}"


def kafka_jars() -> Path:
    """A folder with every jar of the broker. The jars are fetched if they are missing. Raises JarsUnavailable."""
    folder = cache_folder()
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise JarsUnavailable(
            f"the folder {folder.parent} for the jars of the local broker cannot be made: {fault.strerror}. Name one that can be written with "
            f"{CACHE_VARIABLE}. {_OWN_BROKER}."
        ) from None
    with _lock(folder.with_name(folder.name + ".lock")):
        if not folder.is_dir():
            _fetch(folder)
    return folder


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> None:
    """Downloads the jars to a folder beside `folder`, checks them, and renames the folder. The caller holds the lock."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=folder.name + ".part-") as scratch_name:
        scratch = Path(scratch_name)
        command = ivy_command(scratch, _IVY_MODULE)
        for tried in range(1, FETCH_TRIES_MAX + 1):
            code, output = _run(command)
            if code == 0:
                break
            if tried == FETCH_TRIES_MAX:
                raise _unavailable(command, f"Ivy ended with status {code}", output)
        jars = scratch / "jars"
        missing = missing_modules(jars)
        if missing:
            raise _unavailable(command, f"it succeeded without {', '.join(missing)}", output)
        jars.rename(folder)


def missing_modules(jars: Path) -> list[str]:
    """The REQUIRED_MODULES that have no file in `jars`."""
    names = [jar.name for jar in jars.glob("*.jar")]
    return [module for module in REQUIRED_MODULES if not any(name.startswith(module) for name in names)]


def ivy_command(scratch: Path, ivy_module: str) -> list[str]:
    """The command that puts the jars of a module and of its dependencies into `scratch/jars`. `ivy_module` is Ivy's XML."""
    module, settings = scratch / "ivy.xml", scratch / "ivysettings.xml"
    module.write_text(ivy_module)
    settings.write_text(_IVY_SETTINGS)
    return [
        java_command(), "-cp", str(_ivy_jar()), "org.apache.ivy.Main",
        "-settings", str(_user_settings() or settings),
        "-ivy", str(module),
        "-confs", "runtime",
        "-types", "jar", "bundle",
        "-cache", str(scratch / "cache"),
        "-retrieve", str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]"),
    ]  # fmt: skip


def _user_settings() -> Path | None:
    named = os.environ.get(SETTINGS_VARIABLE)
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise JarsUnavailable(f"{SETTINGS_VARIABLE}={named} is not a file. Correct it, or unset it. {_OWN_BROKER}.")
        return path
    place = home()
    usual = None if place is None else place / ".ivy2" / "ivysettings.xml"
    return usual if usual is not None and usual.is_file() else None


def _ivy_jar() -> Path:
    """The jar of Ivy, which must be alone on the class path. Ivy would use Apache's HTTP client if it were there, and need its logging."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pyspark is a dependency of the package"
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarsUnavailable(
            f"pyspark's jars folder beside {spec.origin} has no ivy-*.jar. Install pyspark 4.3 from PyPI."
        )
    return found[-1]


def _run(command: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=FETCH_SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired as late:
        said = late.stdout
        raise _unavailable(
            command,
            f"it had not ended after {FETCH_SECONDS_MAX} s",
            said.decode(errors="replace") if isinstance(said, bytes) else said or "",
        ) from None
    return done.returncode, done.stdout


def _unavailable(command: list[str], reason: str, output: str) -> JarsUnavailable:
    telling = [
        line.strip() for line in output.splitlines() if re.search(r"WARN|ERROR|Exception|not found|FAILED", line)
    ]
    source = str(_user_settings() or "Maven Central")
    return JarsUnavailable(
        f"Kafka {KAFKA_VERSION} for the local broker could not be fetched from {source}: {reason}. "
        f"Ivy said: {' | '.join(telling[:8]) or output.strip()[-300:] or 'nothing'}. "
        f"Check the network, or name a mirror of Maven Central in an Ivy settings file through "
        f"{SETTINGS_VARIABLE}. {_OWN_BROKER}."
    )
