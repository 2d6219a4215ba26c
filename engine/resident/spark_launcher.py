"""Starts each worker as a Spark job of one task, which lives as long as the worker.

A job belongs to a thread of the driver, which waits for it. Cancelling its job group interrupts the task and makes Spark end its Python process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from base.logger import Logger
from base.spark_master import is_local, local_slots
from engine.resident.addresses import is_loopback, without_brackets
from engine.resident.entry import Assignment, pack, resident_task
from engine.resident.launcher import Cluster
from engine.resident.sockets import SocketTransport
from engine.resident.start_faults import InsecureCluster
from engine.resident.tls import RunCertificate

_log = Logger("engine.resident.spark_launcher")

LOOPBACK = "127.0.0.1"

ENCRYPTED = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
"""Each of these settings encrypts the connections between Spark's processes."""

FAULT_CHARACTERS_MAX = 500
"""How many characters of a fault a log line has. Spark's faults have the stack traces of the JVM."""


ASK_SECONDS_MAX = 3.0
"""The time for an answer that takes the JVM a millisecond."""


class JobEnded(Exception):
    """A worker's job has ended without an error."""


class SparkJob:
    """Spark's job of one worker, as SparkLauncher starts it."""

    def __init__(self, context: Any, assignment: Assignment, group: str) -> None:
        self._context, self._group = context, group
        self._failure: Exception | None = None
        self._is_cancelled = False
        self._thread = threading.Thread(target=self._run, args=(assignment,), name=group, daemon=True)
        self._thread.start()

    @property
    def failure(self) -> Exception | None:
        return self._failure

    def cancel(self) -> None:
        """Cancels the job. It does so from a thread of its own, because a JVM that has ended or hangs does not answer."""
        self._is_cancelled = True
        threading.Thread(target=self._cancel, name=f"cancel {self._group}", daemon=True).start()

    def _run(self, assignment: Assignment) -> None:
        try:
            self._context.setJobGroup(self._group, "Stepwell worker", interruptOnCancel=True)
            job = self._context.parallelize([0], 1).mapPartitions(partial(resident_task, pack(assignment)))
            if not self._is_cancelled:
                job.collect()
            self._failure = JobEnded("the job has ended")
        except Exception as fault:
            self._failure = fault

    def _cancel(self) -> None:
        try:
            self._context.cancelJobGroup(self._group)
        except Exception as fault:
            self._failure = self._failure or fault


class SparkLauncher:
    """Starts workers on a SparkContext. `name` makes the names of its job groups unique. `certificate`: the run's, if its connections are
    encrypted."""

    def __init__(self, context: Any, name: str, certificate: RunCertificate | None = None) -> None:
        self._context, self._name, self._certificate = context, name, certificate
        self._started = 0

    @property
    def slots(self) -> int | None:
        """In local mode the number in `local[N]`; None on a cluster, where executors come and go. (`local[*]` does not get here: see
        stepwell/spark/session.py.)"""
        return local_slots(str(self._context.master))

    def slots_now(self) -> int | None:
        """The task slots of all executors that Spark has now. None if it does not answer within ASK_SECONDS_MAX: its JVM may be stopped."""
        answers: list[int] = []

        def ask() -> None:
            try:
                scala = self._context._jsc.sc()
                answers.append(
                    int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
                )
            except Exception as fault:  # the JVM has ended, or a version of Spark has no such method
                _log.info("Spark does not say how many task slots it has", fault=str(fault)[:FAULT_CHARACTERS_MAX])

        asking = threading.Thread(target=ask, name="task slots", daemon=True)
        asking.start()
        asking.join(ASK_SECONDS_MAX)
        return answers[0] if answers else None

    def start(self, assignment: Assignment) -> SparkJob:
        self._started += 1
        assignment = replace(assignment, certificate=self._certificate)
        return SparkJob(self._context, assignment, f"stepwell {self._name} {assignment.term} {self._started}")


def warm_up(context: Any) -> None:
    """Starts the process from which Spark forks workers, in a thread beside whatever follows. It imports what workers need, which takes as long
    as the first plans. A failure is only logged, because the first worker meets it again."""

    def run() -> None:
        try:
            context.parallelize([0], 1).mapPartitions(_nothing).collect()
        except Exception as fault:
            _log.info("the warm-up of Spark's Python workers failed", fault=str(fault)[:FAULT_CHARACTERS_MAX])

    threading.Thread(target=run, name="warm-up", daemon=True).start()


def _nothing(items: Iterable[int]) -> Iterable[int]:
    return items


def spark_cluster(context: Any, name: str, *, insecure: bool = False) -> Cluster:
    """The executors of a SparkContext. In local mode everything stays on loopback. Connections between hosts are encrypted with a certificate of
    the run, which Spark hands out; so Spark's own channel has to be secured. Raises InsecureCluster if it is not, unless `insecure` says that
    nothing needs to be."""
    conf = context.getConf()
    host = LOOPBACK if is_local(str(context.master)) else without_brackets(str(conf.get("spark.driver.host")))
    certificate = None
    if not is_loopback(host) and not insecure:
        if missing := missing_of_secured(conf.get):
            raise InsecureCluster(str(context.master), host, missing)
        from engine.resident.certificates import make_certificate

        certificate = make_certificate(name, datetime.now(UTC))
    return Cluster(SparkLauncher(context, name, certificate), partial(SocketTransport, host, certificate))


def missing_of_secured(setting: Callable[[str, str], str | None]) -> str:
    """Which of Spark's settings are missing for a channel on which a key can be handed out; empty if none is."""
    if setting("spark.authenticate", "false") != "true":
        return "spark.authenticate=true"
    if all(setting(name, "false") != "true" for name in ENCRYPTED):
        return " or ".join(f"{name}=true" for name in ENCRYPTED)
    return ""
