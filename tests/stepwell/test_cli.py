"""A project's whole life, through the command line, on a real broker: made, looked at, run, asked, killed, recovered, stopped."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka import Producer

from base.fault import ExitCode
from stepwell.planning.pipeline import WORKERS_DEFAULT_MAX
from stepwell.service.client import ControlClient, RevisionRefused
from stepwell.service.endpoint import read_endpoint
from stepwell.spark.session import cores
from tests.conftest import Broker
from tests.stepwell.command_line import CommandLine, Service
from tests.stepwell.metric_samples import samples_in

WORKERS = min(cores(), WORKERS_DEFAULT_MAX)

HALF = 1 << 15

SEEN = "SELECT sum(orders) AS orders FROM sales_by_country"


@pytest.fixture
def shop(tmp_path: Path, broker: Broker, topic_prefix: str) -> CommandLine:
    """The starter project, made by `init`, with input."""
    name = topic_prefix.strip("-")
    made = CommandLine(tmp_path, broker.bootstrap_servers, tmp_path / "cache").done("init", name)
    line = CommandLine(Path(made["folder"]), broker.bootstrap_servers, tmp_path / "cache")
    line.environment["STEPWELL_STORE"] = f"file://{line.folder}/checkpoints"
    send(line, 300)
    return line


def send(line: CommandLine, orders: int) -> None:
    servers = line.environment["STEPWELL_KAFKA_BOOTSTRAP_SERVERS"]
    subprocess.run([sys.executable, "send.py", str(orders), servers], cwd=line.folder, check=True, capture_output=True)


@contextmanager
def running(line: CommandLine, *arguments: str) -> Iterator[Service]:
    """A service that makes no checkpoint unless it is asked to."""
    service = line.start("run", "--conf", "stepwell.checkpoint.interval=1h", *arguments)
    try:
        yield service
    finally:
        service.end()


def test_a_life(shop: CommandLine) -> None:
    """A command starts a process of its own where it starts Spark, and otherwise runs in the process of the test. Each start of Spark costs 7 s
    of processor time, so `dry-run` is left to test_dry_run.py, and `stop` to the service of tests/cluster/test_pipeline.py."""
    assert shop.here("status").code == 8
    with running(shop) as service:
        status = service.wait_until(lambda status: bool(status["rows"] == 320))
        _shows_its_workers(shop, service, status)
        _pauses_and_resumes(shop)
        _answers_whoever_may_ask(shop)
        _refuses_a_second_run(shop, service)
        _tells_its_steps(shop)
        _plans_its_files_while_it_runs(shop)
        _answers_queries_as_of_a_checkpoint(shop, service)
        _gets_another_worker(shop)
        _keeps_backups(shop, service)
        _is_killed(shop, service)
    _goes_back_and_forward(shop)
    _recovers_from_the_kill(shop)
    _has_its_layout_changed_without_a_service(shop)
    with running(shop, "--workers", "2") as service:
        service.wait_until(lambda status: bool(status["rows"] == 70))
        assert [member["slots"] for member in shop.asked("layout", "show")["members"]] == [HALF, HALF]
        _stops_with_its_cause(shop, service)
    assert read_endpoint(shop.folder / "storage" / "stepwell") is None


def _shows_its_workers(shop: CommandLine, service: Service, status: dict[str, Any]) -> None:
    """One for each core, each in a process of its own."""
    workers, told = status["workers"], shop.here("status").out
    assert len({worker["pid"] for worker in workers}) == len(workers) == WORKERS
    assert {worker["pid"] for worker in workers} <= {process.pid for process in service.family()}
    assert {worker["host"] for worker in workers} == {socket.gethostname()}
    assert all(str(worker["pid"]) in told for worker in workers)


def _pauses_and_resumes(shop: CommandLine) -> None:
    assert shop.asked("pause")["phase"] == "paused"
    assert shop.asked("status")["phase"] == "paused"
    assert shop.asked("resume")["phase"] != "paused"


def _answers_whoever_may_ask(shop: CommandLine) -> None:
    folder = shop.folder / "storage" / "stepwell"
    assert stat.S_IMODE((folder / "endpoint.json").stat().st_mode) == 0o600
    endpoint = read_endpoint(folder)
    assert endpoint is not None
    for headers in ({}, {"Authorization": "Bearer guessed"}):
        assert httpx.post(endpoint.url + "/stop", headers=headers, trust_env=False).status_code == 401
    right = {"Authorization": f"Bearer {endpoint.token}"}
    told = httpx.get(endpoint.url + "/metrics", headers=right, trust_env=False).text
    read = [value for name, value in samples_in(told).items() if name.startswith("read_messages_total")]
    assert sum(read) == 320
    assert "stepwell_latency_seconds_count" in told and 'stepwell_view_rows_total{kind="view"' in told
    assert {"service", "jvm", "worker"} <= set(re.findall(r'role="(\w+)"', told))
    _shows_its_page(shop)
    assert httpx.get(endpoint.url + "/readyz", trust_env=False).json() == {"ready": True, "why": []}
    assert shop.asked("status")["phase"] == "run"


def _shows_its_page(shop: CommandLine) -> None:
    """Every panel has what only a running pipeline knows."""
    with httpx.Client(trust_env=False, follow_redirects=True) as browser:
        opened = browser.get(shop.asked("page", "--no-open")["url"])
        assert opened.status_code == 200
        found = browser.get(str(opened.url) + "/data").json()["sections"]
        rows = browser.get(str(opened.url) + "/rows", params={"view": "sales_by_country"})
        assert rows.status_code == 200 and "in no order, before step" in rows.text
    assert "<strong" in found["summary"] and "Nothing is wrong" in found["problems"]
    assert "sales_by_country" in found["graph"] and "rows/s" in found["graph"]
    assert "view sales_by_country" in found["views"] and "p99" in found["steps"]
    assert found["lag"].count("<tr>") > 1 and "version" in found["state"]
    assert found["workers"].count(socket.gethostname()) == WORKERS and "is in force" in found["change"]


def _refuses_a_second_run(shop: CommandLine, service: Service) -> None:
    second = shop("run", "--json")
    assert second.code == 7
    assert f"process {service.process.pid}" in second.json["error"]
    assert shop.asked("status")["pid"] == service.process.pid


def _tells_its_steps(shop: CommandLine) -> None:
    listed = shop.asked("steps")
    assert sum(step["messages_read"] for step in listed["steps"]) == 320
    topic = f"{shop.folder.name}.orders"
    place = shop.asked("steps", "--offset", f"{topic}/0:299")
    step = shop.asked("steps", str(place["step"]))
    assert step["state"] == "committed"
    assert [r["end"] for r in step["inputs"] if r["topic"] == topic] == [300]
    assert sum(part["messages"] for part in step["outputs"]) > 0
    assert shop.asked("steps", "--offset", f"{topic}/0:300")["state"] == "not yet"
    assert shop.asked("steps", str(listed["last"] + 1))["state"] == "not yet"
    assert shop.here("steps", "--offset", f"{topic}/7:0").code == 3


def _plans_its_files_while_it_runs(shop: CommandLine) -> None:
    """A file that cannot be planned is refused by the service itself, with its place, and the run goes on."""
    shown = shop.asked("revision", "show")
    assert shown["is_running"] and shown["revision"] == 1 and len(shown["plan"]) == 64 and shown["transition"] is None
    wrong = shop.folder / "transformations" / "wrong.sql"
    wrong.write_text("CREATE MATERIALIZED VIEW wrong AS SELECT nothing FROM sales_by_country;\n")
    client = ControlClient(shop.folder / "storage" / "stepwell")
    with pytest.raises(RevisionRefused, match=r"transformations/wrong\.sql:1: wrong: .*nothing") as refused:
        client.ask_revision("apply")
    assert refused.value.exit_code == ExitCode.PROJECT
    wrong.unlink()
    assert shop.asked("status")["phase"] == "run"


def _answers_queries_as_of_a_checkpoint(shop: CommandLine, service: Service) -> None:
    """By a process of its own, which stays."""
    made = shop.asked("checkpoint")
    answer = shop.done("query", SEEN)
    found = ((process, process.as_dict(["cmdline"])["cmdline"]) for process in service.family())  # none of a zombie
    (asked,) = (process for process, command in found if "stepwell.commands.query_process" in (command or ()))
    assert shop.asked("query", SEEN) == answer and asked.is_running()
    assert answer["rows"] == [{"orders": 300}]
    assert (answer["step"], answer["checkpoint"]) == (made["checkpoint_step"] - 1, made["checkpoint_version"])


def _gets_another_worker(shop: CommandLine) -> None:
    grown = shop.asked("layout", "change", "--workers", str(WORKERS + 1))
    assert [member["worker"] for member in grown["members"]] == [*range(WORKERS + 1)] and grown["outcome"] == "changed"
    members = shop.asked("layout", "show")["members"]
    assert all(member["host"] and member["pid"] and member["bytes"] > 0 for member in members)
    assert shop.here("layout", "change", "--workers", str(WORKERS + 1)).code == 0
    assert shop.here("layout", "pause").code == 6


def _keeps_backups(shop: CommandLine, service: Service) -> None:
    """The service makes a checkpoint for each, also while it is paused."""
    first = shop.asked("backup", "create", "first")
    assert first["step"] == shop.asked("status")["store"]["step"] == shop.asked("status")["step"] + 1
    send(shop, 20)
    service.wait_until(lambda status: bool(status["rows"] == 360 and status["store"]["step"] < status["step"] + 1))
    shop.asked("pause")
    told = shop.here("backup", "create", "later")
    assert told.code == 0 and re.fullmatch(r"backup later: version \d+, before step \d+, [\d.]+ kB\n", told.out), told
    shop.asked("resume")
    shop.asked("backup", "create", "later.still")
    assert shop.asked("backup", "delete", "later.still") == {"deleted": "later.still"}
    assert [(b["name"], b["problem"]) for b in shop.asked("backup", "list")] == [("first", ""), ("later", "")]
    for arguments, code, words in (
        (("backup", "create", "first"), ExitCode.STATE, "There is a backup first already."),
        (("backup", "create", "../first"), ExitCode.STATE, "'../first' is no name of a backup."),
        (("backup", "delete", "none"), ExitCode.STATE, "There is no backup none. `stepwell backup list`"),
        (
            ("restore", "--backup", "none", "--dry-run"),
            ExitCode.STATE,
            "There is no backup none. `stepwell backup list`",
        ),
        (("restore", "--backup", "first"), ExitCode.HELD, f"process {service.process.pid}"),
    ):
        refused = shop.here(*arguments)
        assert refused.code == code and words in refused.err, refused
    assert shop.asked("restore", "--backup", "first", "--dry-run")["steps_to_replay"] > 0


def _goes_back_and_forward(shop: CommandLine) -> None:
    """To a version that the log does not know any more."""
    assert shop.asked("backup", "create", "by.itself")["step"] == shop.asked("backup", "list")[1]["step"]
    back = shop.done("restore", "--backup", "first")
    forward = shop.done("restore", "--backup", "later")
    assert back["steps_to_replay"] > forward["steps_to_replay"] > 0
    shutil.rmtree(shop.folder / "storage" / "stepwell" / "workers")


def _is_killed(shop: CommandLine, service: Service) -> None:
    send(shop, 200)
    service.wait_until(lambda status: bool(status["rows"] == 580))  # in Kafka, and in no checkpoint
    family = service.family()
    service.process.kill()
    service.wait()
    assert psutil.wait_procs(family, timeout=60)[1] == [], "what the service started outlives it"
    assert shop.here("status").code == 8


def _recovers_from_the_kill(shop: CommandLine) -> None:
    checks = {check["name"]: check["level"] for check in shop.done("doctor")["checks"]}
    assert checks["service"] == checks["state"] == "WARN" and "FAIL" not in checks.values(), checks
    assert checks["store"] == "OK"
    with running(shop) as service:
        status = service.wait_until(lambda status: status["phase"] == "run")
        assert status["steps_replayed"] > 0
        service.signal_group(signal.SIGINT)
        assert service.wait() == 0, service.said
        assert "Traceback" not in service.said, service.said


def _has_its_layout_changed_without_a_service(shop: CommandLine) -> None:
    send(shop, 50)
    shrunk = shop.done("layout", "change", "--workers", "1")
    assert len(shrunk["members"]) == 1 and not shrunk["is_running"]
    assert shop.asked("layout", "show")["members"] == shrunk["members"]
    first = f"{shop.folder.name}.orders/0:520"
    assert shop.asked("steps", "--offset", first)["state"] == "not yet", "the change has read new input"


@pytest.mark.long
def test_a_pipeline_is_copied(shop: CommandLine) -> None:
    """The same definitions under another name, with which its topics begin."""
    assert shop("run", "--available-now").code == 0
    folder, name = shop.folder.with_name("staging"), shop.folder.name
    folder.mkdir()
    for part in ("transformations", "spark-pipeline.yml"):
        (shutil.copytree if part == "transformations" else shutil.copy)(shop.folder / part, folder / part)
    files = [folder / "spark-pipeline.yml", *(folder / "transformations").glob("*.sql")]
    for file in files:
        text = file.read_text().replace(f"name: {name}", f"name: {name}-staging")
        file.write_text(re.sub(rf"('topic' = '){name}\.", rf"\1{name}-staging.", text))
    line = CommandLine(folder, shop.environment["STEPWELL_KAFKA_BOOTSTRAP_SERVERS"], folder / "cache")
    line.environment["STEPWELL_STORE"] = shop.environment["STEPWELL_STORE"]
    told = line("restore", "--from", name, "--dry-run")
    assert told.code == 0 and f"{name}-staging would begin with version" in told.out, told
    assert "new topic: all rows, after the switch" in told.out, told
    assert line.done("restore", "--from", name)["step"] > 0
    ended = line("run", "--apply", "--available-now")
    assert ended.code == 0, ended
    assert line.done("query", SEEN)["rows"] == [{"orders": 300}]
    again = line.here("restore", "--from", name)
    assert again.code == ExitCode.STATE and f"which was copied from {name} at step" in again.err, again


def _stops_with_its_cause(shop: CommandLine, service: Service) -> None:
    producer = Producer({"bootstrap.servers": shop.environment["STEPWELL_KAFKA_BOOTSTRAP_SERVERS"]})
    producer.produce(f"{shop.folder.name}.orders", b"no json")
    producer.flush()
    assert service.wait() == 4, service.said
    assert "WARNING" not in service.said and "Traceback" not in service.said, service.said
    asked = shop.here("status", "--json")
    assert asked.code == 8 and f"{shop.folder.name}.orders" in asked.json["error"]
    assert f"{shop.folder.name}.orders" in service.said


def test_init_takes_no_name_twice_and_no_strange_one(tmp_path: Path) -> None:
    line = CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")
    assert line.here("init", "a/b").code == 3
    assert "stepwell dev up" in line.here("init", "shop").out
    assert line.here("init", "other", "--example", "order").err.splitlines()[1] == "  Did you mean orders?"
    again: Any = line.here("init", "shop", "--json")
    assert again.code == 3 and "is there already" in again.json["error"]


def test_commands_without_a_project_or_a_broker_say_so(tmp_path: Path) -> None:
    line = CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")
    for command in (("run",), ("status",), ("query", "SELECT 1"), ("steps",), ("dry-run",)):
        ended = line(*command) if command == ("run",) else line.here(*command)  # `run` sets up logs for a whole process
        assert ended.code == 3 and "stepwell init" in ended.err, (command, ended)
    assert line.here("steps", "1", "--offset", "a/0:1").code == 2
    assert line.here("steps", "--offset", "a").code == 2
    assert line.here("dev", "down").out == "no local broker runs\n"
