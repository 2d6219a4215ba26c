"""State and step logs that earlier releases wrote open in this one, and go on.

`samples/log_format_N.tar.xz` was recorded by the last release that wrote format N of the step log (record.py).
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import SparkSession

from coordinator.revisions.recorded_project import NothingRecorded, RecordedProject
from coordinator.stepping.views_in_error import ViewsInError
from io_kafka.broker.local import LocalBroker
from io_kafka.step_log.form import FORMAT_VERSION
from stepwell.inspection.recorded_revision import read_recorded
from stepwell.planning.revisions import document_of_project
from storage.database import Database
from tests.end_to_end import everything
from tests.end_to_end.harness import Playground, Resolved
from tests.releases.record import BROKER, CONF, FILES, PREFIX, PROJECT, WRONG
from tests.settled import settled_log
from tests.small_jobs import small

*OLDER, LAST = sorted((Path(__file__).parent / "samples").glob("*.tar.xz"))
SAMPLES = [*(pytest.param(path, marks=pytest.mark.soak) for path in OLDER), LAST]
"""The suite has the state that most users come from."""


@pytest.fixture(params=SAMPLES, ids=lambda path: path.name.split(".")[0])
def sample(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[Playground]:
    """The broker of a sample, and its project."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    broker = LocalBroker(tmp_path / BROKER).start(die_with_parent=True)
    try:
        keep_messages(broker.bootstrap_servers)
        yield Playground(small(spark), broker.bootstrap_servers, tmp_path / PROJECT, PREFIX)
    finally:
        Database.close_all()
        broker.stop()


def keep_messages(servers: str) -> None:
    """The messages of a sample are as old as it is, and a broker deletes those that are older than a week."""
    admin = AdminClient({"bootstrap.servers": servers})
    names = [name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")]
    forever = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resources = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[forever]) for name in names]
    for future in admin.incremental_alter_configs(resources).values():
        future.result()


def formats(play: Playground, topic: str) -> list[int]:
    values = (message.value for message in play.read(topic, prefixed=False))
    return [json.loads(value)["format"] for value in values if value is not None]


def recorded_now(resolved: Resolved) -> RecordedProject:
    return read_recorded(resolved.project.project, document_of_project(resolved.project, resolved.spec.circuit))


def test_a_sample_opens_and_goes_on(sample: Playground) -> None:
    """Its last run was killed: steps are replayed from the last checkpoint, and one view is in error."""
    resolved = sample.resolve(FILES, {**CONF, "stepwell.step.rows.max": 500})  # fewer steps after the recorded ones
    before = settled_log(sample.settings, resolved.spec.log_topic)
    assert before.checkpoints and before.checkpoints[-1].step < before.steps, "no step is left to be replayed"
    assert before.nodes_in_error and before.pending
    assert before.snapshots, "the log was never made short"
    former = formats(sample, resolved.spec.log_topic)
    if set(former) == {2}:  # its log has no revision
        with pytest.raises(NothingRecorded, match="made by a former version of Stepwell"):
            recorded_now(resolved)
    else:
        assert before.revision is not None and recorded_now(resolved).number == before.revision.number
    with pytest.raises(ViewsInError, match="view divided"):
        sample.run(resolved)
    sample.check_steps(resolved)
    now = formats(sample, resolved.spec.log_topic)
    assert now[: len(former)] == former and set(now[len(former) :]) == {FORMAT_VERSION}
    after = settled_log(sample.settings, resolved.spec.log_topic)
    assert after.revision is not None and after.revision.number == 1 and after.circuit is None
    assert recorded_now(resolved).number == 1
    everything.send(sample, 4)
    sample.send("customers", [(WRONG, None)])
    sample.run(resolved)
    rows = sample.check(resolved)
    assert all(rows.values()), "a view is empty, and was compared with nothing"
    assert settled_log(sample.settings, resolved.spec.log_topic).revision == after.revision
