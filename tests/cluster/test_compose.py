"""docker/compose.yaml describes the cluster that `stepwell dev cluster` starts as processes. Containers are not built here, so their settings
are compared."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from io_kafka.broker.group import HEAP
from io_kafka.broker.jars import KAFKA_VERSION
from io_kafka.broker.properties import COMMON, NodePorts, quorum, replication
from stepwell.dev_cluster.topology import (
    BROKERS_DEFAULT,
    DAEMON_HEAP_MB,
    SCALA_VERSION,
    WORKER_CORES,
    WORKER_MEMORY_MB,
    WORKERS_DEFAULT,
)
from stepwell.project.settings import load_settings

DOCKER = Path(__file__).parents[2] / "docker"
SPEC = DOCKER / "spark-pipeline.yml"

# What the addresses and folders of a container decide.
OF_THE_PLACE = {"node.id", "listeners", "advertised.listeners", "log.dirs", "controller.quorum.voters", "heap.opts"}


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    return found


def named(services: dict[str, dict[str, Any]], prefix: str) -> dict[str, dict[str, Any]]:
    return {name: service for name, service in services.items() if name.startswith(prefix)}


def kafka_settings(service: dict[str, Any]) -> dict[str, str]:
    """The settings of a broker, from the variables of its container, as the image translates them."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in service["environment"].items()
        if name.startswith("KAFKA_")
    }


def options(command: str) -> dict[str, str]:
    """The options `--name value` of a command."""
    words = shlex.split(command)
    return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--") and word != "--conf"}


def test_the_brokers_have_the_settings_of_the_processes(services: dict[str, dict[str, Any]]) -> None:
    brokers = named(services, "broker-")
    assert len(brokers) == BROKERS_DEFAULT
    for number, (name, broker) in enumerate(sorted(brokers.items()), start=1):
        settings = kafka_settings(broker)
        assert broker["image"] == f"apache/kafka:{KAFKA_VERSION}"
        assert {key: value for key, value in settings.items() if key not in OF_THE_PLACE} == {
            **COMMON,
            **replication(len(brokers)),
        }
        assert settings["node.id"] == str(number)
        assert settings["advertised.listeners"] == f"PLAINTEXT://{name}:9092"
        assert settings["heap.opts"].split() == list(HEAP[len(brokers)])
        assert broker["volumes"] == [f"{name}:{settings['log.dirs']}"]


def test_the_brokers_find_each_other(services: dict[str, dict[str, Any]]) -> None:
    brokers = sorted(named(services, "broker-").items())
    voters = ",".join(
        quorum(name, {number: NodePorts(9092, 9093), 0: NodePorts(0, 0)})["controller.quorum.voters"].split(",")[1]
        for number, (name, _) in enumerate(brokers, start=1)
    )
    assert {kafka_settings(broker)["controller.quorum.voters"] for _, broker in brokers} == {voters}
    assert len({broker["environment"]["CLUSTER_ID"] for _, broker in brokers}) == 1


def test_the_spark_workers_have_the_size_of_the_processes(services: dict[str, dict[str, Any]]) -> None:
    workers = named(services, "spark-worker-")
    assert len(workers) == WORKERS_DEFAULT
    for name, worker in workers.items():
        given = options(worker["command"])
        assert (given["--host"], given["--cores"], given["--memory"]) == (
            name,
            str(WORKER_CORES),
            f"{WORKER_MEMORY_MB}m",
        )
        assert worker["environment"]["SPARK_DAEMON_MEMORY"] == f"{DAEMON_HEAP_MB}m"
    places = [worker["environment"]["STEPWELL_LOCAL_DIR"] for worker in workers.values()]
    volumes = [volume for worker in workers.values() for volume in worker["volumes"]]
    own = [volume for volume in volumes if volume.endswith(f":{places[0]}")]
    assert len(set(own)) == len(workers), "each worker keeps its state in a volume of its own"
    assert f"SPARK_SCALA_VERSION={SCALA_VERSION}" in (DOCKER / "Dockerfile").read_text()


def test_the_service_runs_on_the_cluster(services: dict[str, dict[str, Any]]) -> None:
    """With the settings of its project file, which `query` in the same container has too."""
    conf = {key: str(value) for key, value in yaml.safe_load(SPEC.read_text())["configuration"].items()}
    assert shlex.split(services["service"]["command"]) == ["stepwell", "run"]
    assert conf["stepwell.workers"] == str(WORKERS_DEFAULT)
    assert conf["spark.master"] in services["spark-worker-1"]["command"]
    brokers = ",".join(f"{name}:9092" for name in sorted(named(services, "broker-")))
    assert conf["kafka.bootstrap.servers"] == brokers == shlex.split(services["feed"]["command"])[-1]
    assert conf["spark.driver.host"] == services["service"]["hostname"], "the executors connect to it by this name"
    assert load_settings({**conf, "stepwell.cluster.insecure": "true"}).stepwell.cluster_insecure
    assert f"COPY --chown=1000:1000 docker/{SPEC.name} /project/{SPEC.name}" in (DOCKER / "Dockerfile").read_text()


def test_the_project_file_is_the_one_of_the_example(services: dict[str, dict[str, Any]]) -> None:
    example = yaml.safe_load((DOCKER.parent / "examples" / "flights" / "project" / SPEC.name).read_text())
    here = yaml.safe_load(SPEC.read_text())
    assert example["configuration"].items() <= here["configuration"].items()
    assert {**here, "configuration": None} == {**example, "configuration": None}
    assert services["service"]["volumes"] == [f"storage:/project/{here['storage']}"]


def test_every_container_has_a_health_check_and_waits_for_what_exists(services: dict[str, dict[str, Any]]) -> None:
    assert [name for name, service in services.items() if "healthcheck" not in service] == ["feed"], "it ends by itself"
    for service in services.values():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_started" or "healthcheck" in services[other]


def test_the_volumes_are_declared(services: dict[str, dict[str, Any]]) -> None:
    declared = yaml.safe_load((DOCKER / "compose.yaml").read_text())["volumes"]
    used = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    assert used == declared.keys()
