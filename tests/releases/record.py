"""Records a sample of this release: a broker's folder and a project with state, as they are after a crash.

    python -m tests.releases.record tests/releases/samples/log_format_N.tar.xz

A sample is made once, by the release whose name it has, and never again. `test_releases.py` opens it with the present code.
It holds what a release may not be able to read one day: records of the step log, among them steps after the last
checkpoint, a pending division, error rows and a snapshot; databases of three workers; and `circuit.json`.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from coordinator.stepping.views_in_error import ViewsInError
from io_kafka.broker.local import LocalBroker
from stepwell.spark.session import make_session
from tests.end_to_end import everything
from tests.end_to_end.harness import Playground, service

PREFIX = "sample."
PROJECT, BROKER, LOG = "project", "broker", "record.log"
CONF = {"stepwell.workers": 3, "stepwell.step.rows.max": 30, "stepwell.checkpoint.interval": "1h"}

ONE_IN_ERROR = """
CREATE MATERIALIZED VIEW divided TBLPROPERTIES ('topic' = '@divided', 'mode' = 'changelog') AS
  SELECT customer, 100 div level AS part FROM customers;
"""
WRONG = {"customer": "nil"}
"""A customer of level 0, over whom `divided` has no answer."""

FILES = {**everything.FILES, "divided.sql": ONE_IN_ERROR}


def record(play: Playground) -> None:
    """The last run is killed after it has written some steps that no checkpoint has."""
    everything.make_topics(play)
    resolved = play.resolve(FILES, CONF)
    everything.send(play, 1)
    play.send("customers", [(WRONG, {**WRONG, "name": "Nil", "level": 0})])
    with suppress(ViewsInError):
        play.run(resolved.at_pace(snapshot_steps_min=1))
    everything.send(play, 2)
    with service(resolved, play.folder / LOG, STEPWELL_CRASH="output.committed@4=kill") as process:
        process.wait()
    everything.send(play, 3)


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = LocalBroker(Path(folder, BROKER)).start(die_with_parent=True)
        project = Path(folder, PROJECT)
        project.mkdir()
        session = make_session("stepwell-sample", {"spark.sql.shuffle.partitions": "2"})
        try:
            record(Playground(session, broker.bootstrap_servers, project, PREFIX))
        finally:
            session.stop()
            broker.stop()
        with tarfile.open(target, "w:xz") as archive:
            archive.add(folder, "", filter=_of_sample)


def _of_sample(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without logs and process ids."""
    return None if member.name.endswith((".log", ".pid", ".lock")) and "00000" not in member.name else member


if __name__ == "__main__":
    main(Path(sys.argv[1]))
