"""A service with secrets of every kind, and a search for them in all that it shows, keeps and hands on."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from coordinator.topic_names import log_topic_of, plan_topic_of
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from stepwell.service.endpoint import read_endpoint
from tests.conftest import Broker
from tests.stepwell.command_line import CommandLine, Service
from tests.stepwell.folder import SPEC, write
from tests.stepwell.test_cli import send

HUSH = "hush-hush"
"""In every secret."""

IN_PROJECT, OF_JAAS, OF_SPARK, OF_STORE = (
    f"{what} {HUSH}" for what in ("in-project", "of-jaas", "of-spark", "of-store")
)
OF_FILE, OF_VARIABLE, ON_LINE, OF_REGISTRY = (
    f"{HUSH} {what}" for what in ("of-file", "of-variable", "on-line", "of-registry")
)


@pytest.fixture
def shop(tmp_path: Path, broker: Broker, topic_prefix: str) -> CommandLine:
    """The starter project, with secrets in its file, in files, in variables and on the command line."""
    made = CommandLine(tmp_path, broker.bootstrap_servers, tmp_path / "cache").done("init", topic_prefix.strip("-"))
    line = CommandLine(Path(made["folder"]), broker.bootstrap_servers, tmp_path / "cache")
    for name, text in (("kafka", OF_FILE), ("spark", OF_SPARK)):
        (tmp_path / name).write_text(text + "\n")
    spec = line.folder / "spark-pipeline.yml"
    jaas = f'PlainLoginModule required username="me" password="{OF_JAAS}";'
    configuration = {
        "kafka.sasl.jaas.config": jaas,
        "kafka.sasl.oauthbearer.client.secret": "${env:MY_CLIENT_SECRET}",
        "spark.authenticate": "true",
        "spark.authenticate.secret": f"${{file:{tmp_path / 'spark'}}}",
        "spark.hadoop.fs.s3a.secret.key": "${env:AWS_OF_MINE}",
        "my.api.token": IN_PROJECT,
        "my.address": "https://me:${env:MY_CLIENT_SECRET}@host",
        "stepwell.checkpoint.interval": "1h",
    }
    text = spec.read_text().split("configuration:\n")[0] + "configuration:\n"
    spec.write_text(text + "".join(f"  {key}: {json.dumps(value)}\n" for key, value in configuration.items()))
    line.environment |= {
        "STEPWELL_KAFKA_SSL_KEYSTORE_PASSWORD_FILE": str(tmp_path / "kafka"),
        "STEPWELL_REGISTRY_AUTH": f"me:{OF_REGISTRY}",
        "MY_CLIENT_SECRET": OF_VARIABLE,
        "AWS_OF_MINE": OF_STORE,
    }
    send(line, 100)
    return line


def test_a_secret_is_nowhere_but_where_it_was_given(shop: CommandLine, tmp_path: Path) -> None:
    service = shop.start("run", "--log-format", "json", "--verbose", "--conf", f"kafka.ssl.key.password={ON_LINE}")
    try:
        service.wait_until(lambda status: bool(status["rows"] == 120))
        _is_not_with_its_processes(service)
        _is_not_in_its_answers(shop)
        _is_not_in_the_bundle(
            shop, tmp_path / "running.tar.gz", {"status.json", "layout.json", "step_log.jsonl", "plan.txt"}
        )
        assert shop.here("stop").code == 0
        assert service.wait() == 0, service.said
        _says_only_json(service)
    finally:
        service.end()
    _is_not_in_topics(shop)
    _is_not_in_the_storage_folder(shop)
    _is_not_in_the_bundle(shop, tmp_path / "ended.tar.gz", {"last_run.json", "service.log", "step_log.jsonl"})
    _is_not_in_an_error(shop)
    log = StepLogReader(_kafka(shop), log_topic_of(shop.folder.name)).read()
    assert log.has_ended, "another host would wait for a sign of it"


def _is_not_with_its_processes(service: Service) -> None:
    own = psutil.Process(service.process.pid)
    assert ON_LINE in " ".join(own.cmdline()) and OF_VARIABLE in own.environ().values(), "nothing would be found"
    names = set()
    for process in service.family():
        try:
            names.add(process.name())
            command, environment = process.cmdline(), process.environ()
        except psutil.NoSuchProcess:  # a script of Spark's that has just ended
            continue
        assert HUSH not in " ".join(command), process
        # The workers need what the checkpoint store needs.
        found = {name for name, value in environment.items() if HUSH in value}
        assert found <= {"AWS_OF_MINE"}, (process, found)
    assert "java" in names and len(names) > 1


def _is_not_in_its_answers(shop: CommandLine) -> None:
    endpoint = read_endpoint(shop.folder / "storage" / "stepwell")
    assert endpoint is not None
    headers = {"Authorization": f"Bearer {endpoint.token}"}
    for path in ("/status", "/metrics", "/layout", "/revision", "/alive"):
        answer = httpx.get(endpoint.url + path, headers=headers, trust_env=False)
        assert answer.status_code == 200
        assert HUSH not in answer.text and endpoint.token not in answer.text, path


def _says_only_json(service: Service) -> None:
    said = service.said
    events = [json.loads(line) for line in said.splitlines()]
    assert HUSH not in said and len(events) > 3
    assert any("kafka.ssl.key.password is a secret" in event["event"] for event in events)
    assert events[-1]["event"].startswith("stopped before step")


def _kafka(shop: CommandLine) -> KafkaSettings:
    return KafkaSettings.parse({"bootstrap.servers": shop.environment["STEPWELL_KAFKA_BOOTSTRAP_SERVERS"]})


def _messages(shop: CommandLine, topic: str) -> Iterator[bytes]:
    consumer = Consumer({**_kafka(shop).consumer_config(), "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    while (message := consumer.poll(30.0)) is not None and message.error() is None:
        yield (message.key() or b"") + (message.value() or b"")
    consumer.close()


def _is_not_in_topics(shop: CommandLine) -> None:
    for topic in (log_topic_of(shop.folder.name), plan_topic_of(shop.folder.name)):
        messages = list(_messages(shop, topic))
        assert messages and HUSH.encode() not in b"".join(messages), topic


def _is_not_in_the_storage_folder(shop: CommandLine) -> None:
    files = [path for path in (shop.folder / "storage").rglob("*") if path.is_file()]
    assert {"service.log", "spark.log", "last_run.json", "circuit.json", "data.mdb"} <= {path.name for path in files}
    for path in files:
        assert HUSH.encode() not in path.read_bytes(), path


def _is_not_in_the_bundle(shop: CommandLine, place: Path, wanted: set[str]) -> None:
    made = shop.asked("bundle", "--to", str(place))
    assert wanted <= set(made["parts"]), made["missing"]
    files = _unpacked(place)
    assert set(files) == set(made["parts"])
    for name, content in files.items():
        assert HUSH.encode() not in content, name
    shown = json.loads(files["settings.json"])["settings"]
    assert shown["my.api.token"] == shown["spark.authenticate.secret"] == "***"
    assert shown["my.address"] == "https://me:***@host" and shown["spark.authenticate"] == "true"


def _unpacked(place: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    with tarfile.open(place) as archive:
        for each in archive.getmembers():
            file = archive.extractfile(each)
            assert file is not None and each.mode == 0o600
            files[each.name.partition("/")[2]] = file.read()
    return files


def _is_not_in_an_error(shop: CommandLine) -> None:
    """The project file has a list where a password should be."""
    wrong = shop.folder / "wrong.yml"
    wrong.write_text(f"name: x\nstorage: x\nlibraries: []\nconfiguration:\n  kafka.sasl.password: ['{HUSH}']\n")
    for more in ((), ("--json",)):
        ended = shop.here("status", "--spec", str(wrong), *more)
        assert ended.code == 3 and "kafka.sasl.password" in ended.err and HUSH not in ended.err + ended.out


def test_a_bundle_needs_neither_broker_nor_service_nor_a_project_file_that_can_be_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.sql": "nonsense"}, f"{SPEC}configuration:\n  kafka.sasl.password: ${{env:NOT_THERE}}\n")
    line = CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")
    made = _bundled(line)
    assert {"README.txt", "settings.json", "sizes.json", "state.json", "versions.json"} == set(made["parts"])
    reasons: dict[str, Any] = made["missing"]
    assert "no service runs" in reasons["status.json"] and "127.0.0.1:1" in reasons["step_log.jsonl"]
    readme = _unpacked(Path(made["file"]))["README.txt"].decode()
    assert all(f"missing: {name}:" in readme for name in reasons)
    (tmp_path / "spark-pipeline.yml").write_text("name: [")
    made = _bundled(line)
    assert set(made["parts"]) == {"README.txt", "versions.json"} and "not YAML" in made["missing"]["the project"]
    ended = line.here("bundle", "--to", str(tmp_path / "no folder" / "b.tar.gz"))
    assert ended.code == 3 and "cannot be written: No such file or directory" in ended.err


def _bundled(line: CommandLine) -> Any:
    ended = line.here("bundle", "--json", "--to", str(line.folder / "bundle.tar.gz"))
    assert ended.code == 0, ended
    return ended.json
