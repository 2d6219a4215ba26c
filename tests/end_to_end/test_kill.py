"""The service, killed with SIGKILL at chosen points and started again, with the oracle watching.

A watcher follows the step log as it is written, and kills the process at the moment a record of the chosen kind appears: the driver dies,
Spark's JVM and the workers live on for a moment as zombies, as they do in real life.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.end_to_end import everything, sums
from tests.end_to_end.harness import WAIT_SECONDS_MAX, Playground, Resolved, service


def kill_at(play: Playground, resolved: Resolved, process: subprocess.Popen[bytes], kind: str, nth: int) -> None:
    """Kills at the nth record of this kind that this run, the last to claim, has written."""
    config = {"bootstrap.servers": play.servers, "group.id": "watcher", "enable.auto.commit": False,
              "isolation.level": "read_committed", "fetch.wait.max.ms": 2}  # fmt: skip
    deadline, seen, mine = time.monotonic() + WAIT_SECONDS_MAX, 0, False
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(resolved.spec.log_topic, 0, OFFSET_BEGINNING)])
        while seen < nth:
            assert process.poll() is None, f"the service ended by itself: {process.returncode}"
            assert time.monotonic() < deadline, f"{seen} of {nth} records of kind {kind} in {WAIT_SECONDS_MAX} s"
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            record = json.loads(message.value())
            if record["kind"] == "claim":
                mine = record["pid"] == process.pid
                seen = 0
            elif mine:
                seen += record["kind"] == kind
    process.kill()
    process.wait()


@pytest.mark.long
def test_killed_in_the_middle_of_steps_and_of_a_checkpoint(play: Playground, tmp_path: Path) -> None:
    play.topic("in", 2)
    conf = {"stepwell.step.rows.max": 10, "stepwell.workers": 2, "stepwell.checkpoint.interval": "300ms"}
    resolved = play.resolve(sums.files(), conf)
    log, kills = tmp_path / "service.log", [("checkpoint_intent", 1), ("step", 7)]
    with play.oracle(resolved) as oracle:
        for kind, nth in kills:
            for partition in (0, 1):
                play.send("in", sums.rows(partition, 150), partition)
            with service(resolved, log) as process:
                kill_at(play, resolved, process, kind, nth)
        status = play.run(resolved)
        assert status["epoch"] == len(kills)
        story = oracle.verify(sums.batch(play))
    assert len(story.steps) == status["step"] + 1
    oracle.verify_twin(play.twin(resolved, story, workers=3))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_with_every_operator(play: Playground, tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    everything.make_topics(play)
    conf = {"stepwell.step.rows.max": 20, "stepwell.workers": 3, "stepwell.checkpoint.interval": "700ms"}
    resolved = play.resolve(everything.FILES, conf)
    with play.oracle(resolved) as oracle:
        for kill in range(3):
            everything.send(play, 10 * seed + kill, orders=90)
            with service(resolved, tmp_path / "service.log") as process:
                kind = r.choice(["step", "division", "checkpoint_intent", "checkpoint_complete"])
                kill_at(play, resolved, process, kind, r.randint(1, 8) if kind in ("step", "division") else 1)
        status = play.run(resolved)
        story = oracle.verify(play.batch(resolved), sample=3, seed=seed)
    assert len(story.steps) == status["step"] + 1
    oracle.verify_twin(play.twin(resolved, story, workers=2))
