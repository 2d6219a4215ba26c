"""How Spark's JVM is launched: in a process group of its own, with its output in a file, and without a secret where others can read it.

PySpark's launcher puts every setting on the command line of the JVM, which any user of the machine can read, and hands the whole environment
on. Both are changed here. Spark gets a setting that is secret a moment later, over the connection by which Python drives the JVM: PySpark sends
all settings there, and those of the command line are needed only by what runs before it (memory, class path, packages).
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from pyspark import SparkConf, java_gateway
from pyspark.core import context as spark_context

from base.secrets import mask_value

ASCII_LOCALES = ("C", "POSIX")
UTF8_LOCALE = "C.UTF-8"


def without_secrets(environment: Mapping[str, str], hidden: Collection[str]) -> dict[str, str]:
    """The environment without these variables."""
    return {name: value for name, value in environment.items() if name not in hidden}


def for_java(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Java reads and writes names of files as UTF-8. In the locales C and POSIX it takes them for ASCII, and does not
    start in a folder whose name is not. Python prevents that for itself, and passes it on unless LC_ALL forbids it."""
    return {**environment, "LC_ALL": UTF8_LOCALE} if environment.get("LC_ALL") in ASCII_LOCALES else dict(environment)


def may_be_seen(key: str, value: str) -> bool:
    """Whether a setting of Spark may stand on a command line. Options of Java have to."""
    return is_for_java(key) or mask_value(key, value) == value


def is_for_java(key: str) -> bool:
    """Whether the setting has options for the command line of a JVM."""
    return key.endswith("JavaOptions")


@contextmanager
def launched_with(output: IO[bytes], hidden: Collection[str]) -> Iterator[None]:
    """A JVM that PySpark launches while the body runs writes to `output`, and does not inherit the variables `hidden`. PySpark's launcher has
    arguments for the first, but its session does not pass them on; it has none for the second."""
    launch, popen = spark_context.launch_gateway, java_gateway.Popen

    def launch_apart(conf: Any = None, popen_kwargs: Any = None) -> Any:
        apart = {"stdout": output, "stderr": output, "start_new_session": True}
        return launch(conf and _visible_conf(conf), {**apart, **(popen_kwargs or {})})

    def popen_without(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        environment = for_java(without_secrets(options["env"], hidden))
        started: subprocess.Popen[bytes] = popen(command, **{**options, "env": environment})
        return started

    spark_context.launch_gateway, java_gateway.Popen = launch_apart, popen_without
    try:
        yield
    finally:
        spark_context.launch_gateway, java_gateway.Popen = launch, popen


def _visible_conf(conf: SparkConf) -> SparkConf:
    """What stands on the command line."""
    return SparkConf(loadDefaults=False).setAll(
        [(key, value) for key, value in conf.getAll() if may_be_seen(key, value)]
    )
