"""How long a service needs until it works: after the first `run`, after a worker was killed, and after the whole service was killed.

    python -m bench.starts [--against CHECKOUT] [--rounds 3] [--rate 5000]

Bids arrive all the while at a fixed rate. A time ends with the first step that read a bid which was sent after the kill (or the command): the
moment at which its transaction was sent, which the step log has. With `--against`, the same is done with another checkout, in turns; the last
table then has the median ratio of the pairs. A figure that a version does not have is empty, such as a worker that is no process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench import generate, measure, ours
from bench.generate import PARTITIONS, Shape
from bench.ours import HERE, Checkout, Prepared, RunFailed
from bench.topics import Bench, producer_config, send
from bench.workloads import BUILD, DEFAULT, WORKLOADS, Case
from coordinator.topic_names import log_topic_of
from io_kafka.broker.local import LocalBroker
from io_kafka.errors import KafkaFault
from stepwell.errors import StepwellError
from stepwell.project.loading import STATE_FOLDER
from stepwell.service.client import ControlClient

console = Console(highlight=False, soft_wrap=True)

CASE = Case(WORKLOADS["W2"], DEFAULT, 0, 0)
WARM_SECONDS = 20
"""How long a service works before it is killed: a few checkpoints, and the JVM has compiled what it compiles."""

STEP_SECONDS_MAX = 120
SEND_SECONDS_BETWEEN = 0.02
LOOK_SECONDS = 0.5
"""The log is read afterwards, once the step is there. Looking for it more often would take processor time from what is measured."""


@dataclass(frozen=True)
class Times:
    """Seconds until the first step after the first command, after the kill of a worker, and after the command that follows the kill of all."""

    first_run_s: float
    killed_worker_s: float | None
    killed_service_s: float


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.starts", description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another version's checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=5_000, metavar="ROWS", help="bids per second")
    given = parser.parse_args(arguments)
    checkouts = {} if given.against is None else {"before": ours.checkout_of(given.against)}
    checkouts["after"] = HERE
    folder = BUILD / "starts"
    shutil.rmtree(folder, ignore_errors=True)
    (BUILD / "runs").mkdir(parents=True, exist_ok=True)
    broker = LocalBroker(folder).start(die_with_parent=True)
    try:
        bench = Bench(broker.bootstrap_servers, Shape(), broker.folder / "data")
        rounds: list[dict[str, Times]] = []
        for number in range(given.rounds):
            rounds.append({})
            for name, checkout in checkouts.items():
                with _bids(bench, topic := f"bids-{number}-{name}", given.rate):
                    rounds[-1][name] = _measure(bench, topic, checkout)
                console.print(f"round {number + 1}, {name}: {asdict(rounds[-1][name])}")
        console.print(_table(rounds))
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


@contextlib.contextmanager
def _bids(bench: Bench, topic: str, rate: int) -> Iterator[None]:
    """Sends bids to a new topic while the body of `with` runs."""
    bench.topics.ensure(topic, PARTITIONS)
    over = threading.Event()
    thread = threading.Thread(target=_send, args=(bench, topic, rate, over), name="bids", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _send(bench: Bench, topic: str, rate: int, over: threading.Event) -> None:
    producer = Producer({**producer_config(bench.servers), "linger.ms": 1})
    # The same bids every second, because making them takes processor time.
    some = generate.as_json(next(generate.bids(bench.shape, 0, rate)))
    burst, began, sent = max(1, round(rate * SEND_SECONDS_BETWEEN)), time.monotonic(), 0
    while not over.is_set():
        part = some.slice(sent % len(some), burst)
        send(producer, topic, PARTITIONS, None, part)
        producer.poll(0)
        sent += len(part)
        over.wait(max(0.0, began + sent / rate - time.monotonic()))
    producer.flush(STEP_SECONDS_MAX)


def _measure(bench: Bench, topic: str, checkout: Checkout) -> Times:
    starts = bench.start_offsets(topic, 0)
    prepared = ours.prepare(bench, CASE, starts, topic=topic)
    first = sum(starts.values())
    killed_worker_s = None
    try:
        with ours.started(bench, prepared, [], checkout) as child:
            first_run_s = _seconds_to_a_new_step(bench, prepared, first)
            time.sleep(WARM_SECONDS)
            if (worker := _a_worker_of(prepared)) is not None:
                os.kill(worker, signal.SIGKILL)
                killed_worker_s = _seconds_to_a_new_step(bench, prepared, first)
                time.sleep(WARM_SECONDS)
            _kill_all(child.pid)
        with ours.started(bench, prepared, ["--take-over"], checkout):
            killed_service_s = _seconds_to_a_new_step(bench, prepared, first)
    finally:
        shutil.rmtree(prepared.folder, ignore_errors=True)
    return Times(first_run_s, killed_worker_s, killed_service_s)


def _seconds_to_a_new_step(bench: Bench, prepared: Prepared, first: int) -> float:
    """From now to the end of the first step that reads a message which is sent from now on. `first`: the sum of the start offsets."""
    now = time.time()
    sent = sum(bench.topics.end_offsets([prepared.topic]).values())
    before = _log_end(bench, prepared.name)
    while time.time() - now < STEP_SECONDS_MAX:
        time.sleep(LOOK_SECONDS)
        if _log_end(bench, prepared.name) == before:
            continue
        read = first
        for step in ours.steps_of(bench, prepared.name, prepared.topic):
            read += step.rows
            if read > sent:
                return round(step.end - now, 2)
    raise RunFailed(f"no new step within {STEP_SECONDS_MAX} s: {(prepared.folder / 'run.err').read_text()[-800:]}")


def _log_end(bench: Bench, name: str) -> int:
    try:
        return sum(bench.topics.end_offsets([log_topic_of(name)]).values())
    except KafkaFault:  # a new pipeline has no step log yet
        return 0


def _a_worker_of(prepared: Prepared) -> int | None:
    """The process of a worker. None in a version whose status does not name its workers."""
    with contextlib.suppress(StepwellError):
        for worker in ControlClient(prepared.storage / STATE_FOLDER).status().get("workers", ()):
            return int(worker["pid"])
    return None


def _kill_all(root: int) -> None:
    """SIGKILL to the service and everything below it, at once, as if the machine had lost its power."""
    for process in measure.tree_of(psutil.Process(root)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _table(rounds: Sequence[dict[str, Times]]) -> Table:
    names = list(rounds[0])
    table = Table("seconds, medians", *names, *(["after / before"] if len(names) > 1 else []))
    for figure in Times.__dataclass_fields__:
        values = {name: [getattr(times[name], figure) for times in rounds] for name in names}
        known = {name: statistics.median(of) if None not in of else None for name, of in values.items()}
        ratio = ""
        if len(names) > 1 and None not in known.values():
            ratio = f"{statistics.median(a / b for a, b in zip(values['after'], values['before'], strict=True)):.2f}"
        cells = ["" if value is None else f"{value:.2f}" for value in known.values()]
        table.add_row(figure, *cells, *([ratio] if len(names) > 1 else []))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
