"""The files in deploy/ and docker/: settings have the names of the code, and the parts of a file fit each other. docs/deploy.md says what was
tried beyond that: no cluster and no daemon of containers runs here."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from base.fault import ExitCode
from coordinator.status import StatusBoard
from stepwell.project.loading import Project, load_project
from stepwell.service.probes import Probes
from tests.dist.build import ROOT

DEPLOY, DOCKER = ROOT / "deploy", ROOT / "docker"
UNIT = DEPLOY / "systemd" / "stepwell@.service"
LIVE, READY = (route.path for route in Probes(StatusBoard("t"), 1.0).routes)
MANIFESTS = ("local.yaml", "spark.yaml")

Parts = dict[tuple[str, str], dict[str, Any]]


def parts_of(manifest: str) -> Parts:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / manifest).read_text())
    return {(part["kind"], part["metadata"]["name"]): part for part in documents}


def pod_of(parts: Parts) -> dict[str, Any]:
    (spec,) = (part["spec"]["template"]["spec"] for (kind, _), part in parts.items() if kind == "StatefulSet")
    return dict(spec)


def mounted(parts: Parts, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project as Kubernetes mounts it: each file is a link into a folder with a date. Its secret is there too."""
    secret = folder / "password"
    secret.write_text("hush-hush\n")
    real = folder / "project" / "..2026_11_28"
    real.mkdir(parents=True)
    (folder / "project" / "..data").symlink_to(real.name)
    for name, text in parts["ConfigMap", "orders-project"]["data"].items():
        (real / name).write_text(text.replace("/run/secrets/kafka/password", str(secret)))
        (folder / "project" / name).symlink_to(f"..data/{name}")
    monkeypatch.chdir(folder / "project")
    return load_project()


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_has_a_project_whose_settings_are_known(
    manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = mounted(parts_of(manifest), tmp_path, monkeypatch)
    assert [path.name for path in project.definition_files()] == ["sales.sql"]
    assert project.settings.kafka["sasl.password"] == "hush-hush"
    assert project.on_cluster == (manifest == "spark.yaml")


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_pod_has_what_its_project_needs(manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(manifest)
    project, pod = mounted(parts, tmp_path, monkeypatch), pod_of(parts)
    (container,) = pod["containers"]
    places = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert {str(project.storage), "/project", "/run/secrets/kafka", "/tmp"} == places.keys()
    (stateful,) = (part["spec"] for (kind, _), part in parts.items() if kind == "StatefulSet")
    claims = [claim["metadata"]["name"] for claim in stateful.get("volumeClaimTemplates", ())]
    assert set(places.values()) == {volume["name"] for volume in pod["volumes"]} | set(claims)
    assert (claims == ["state"]) is not project.on_cluster, "in local mode the state outlives the pod"
    assert container["args"] == ["stepwell", "run"] and stateful["replicas"] == 1
    assert pod["terminationGracePeriodSeconds"] > 60
    assert pod["securityContext"]["runAsUser"] == int(
        re.findall(r"^USER (\d+)$", (DOCKER / "Dockerfile").read_text(), re.M)[0]
    )


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_probes_ask_the_listener(manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(manifest)
    address = mounted(parts, tmp_path, monkeypatch).settings.stepwell.metrics_address
    (container,) = pod_of(parts)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    asked = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    paths = {name: probe["path"] for name, probe in asked.items()}
    assert paths == {"startup": LIVE, "liveness": LIVE, "readiness": READY}
    assert {f"0.0.0.0:{ports[probe['port']]}" for probe in asked.values()} == {str(address)}


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_the_parts_of_a_manifest_name_each_other(manifest: str) -> None:
    parts, pod = parts_of(manifest), pod_of(parts_of(manifest))
    stateful, service = parts["StatefulSet", "orders"], parts["Service", "orders"]
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert stateful["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    assert stateful["spec"]["serviceName"] == "orders" and service["spec"]["clusterIP"] == "None"
    secrets = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert {("Secret", name) for name in secrets} <= parts.keys()
    assert {
        ("ConfigMap", volume["configMap"]["name"]) for volume in pod["volumes"] if "configMap" in volume
    } <= parts.keys()
    if "serviceAccountName" in pod:
        assert ("ServiceAccount", pod["serviceAccountName"]) in parts
        (subject,) = parts["RoleBinding", "orders-driver"]["subjects"]
        assert subject["name"] == pod["serviceAccountName"]


def test_executors_find_the_driver_and_have_slots_for_all_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = parts_of("spark.yaml")
    settings = mounted(parts, tmp_path, monkeypatch).settings
    spark, ours = settings.spark, settings.stepwell
    assert spark["spark.driver.host"] == f"orders.{spark['spark.kubernetes.namespace']}.svc"
    namespaced = [part for (kind, _), part in parts.items() if kind != "Namespace"]
    assert {part["metadata"]["namespace"] for part in namespaced} == {spark["spark.kubernetes.namespace"]}
    assert next(iter(parts)) == ("Namespace", spark["spark.kubernetes.namespace"]), (
        "what is in it cannot be made before it"
    )
    assert spark["spark.kubernetes.driver.pod.name"] == "orders-0"
    account = spark["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert ("ServiceAccount", account) in parts
    assert int(spark["spark.executor.instances"]) * int(spark["spark.executor.cores"]) == (ours.workers or 0) + 1
    assert spark["spark.kubernetes.executor.volumes.emptyDir.state.mount.path"] == str(ours.local_dir)
    assert ours.store, "the disks of executors go with them"
    (container,) = pod_of(parts)["containers"]
    assert spark["spark.kubernetes.container.image"] == container["image"]


def test_an_executor_is_started_with_what_spark_gives() -> None:
    spec = importlib.util.spec_from_file_location("executor", DOCKER / "executor.py")
    assert spec is not None and spec.loader is not None
    executor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(executor)
    given = {name: name.lower() for name in executor.ARGUMENTS.values()}
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number}" for number in (0, 10, 9)}
    words = executor.command({**given, **options, "SPARK_EXECUTOR_MEMORY": "1g", "JAVA_HOME": "/jre"})
    assert words[:6] == ["/jre/bin/java", "-Dn=0", "-Dn=9", "-Dn=10", "-Xms1g", "-Xmx1g"]
    assert words[6] == "-cp" and list(Path(words[7]).parent.glob("spark-kubernetes_*.jar")), "PySpark has the backend"
    assert words[words.index("--podName") + 1] == "spark_executor_pod_name" and words[8] == executor.BACKEND


def test_the_unit_ends_a_service_at_a_checkpoint_and_starts_it_only_if_that_helps() -> None:
    unit = RawConfigParser(strict=False, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    assert service["ExecStart"].endswith("/stepwell run")
    assert service["KillMode"] == "mixed", "a signal to all processes would end the workers before the checkpoint"
    codes = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert codes == {ExitCode.USAGE, ExitCode.PROJECT, ExitCode.DATA, ExitCode.HELD}
    # A run without Kafka ends after a minute. With a limit of starts, an outage of some minutes would end the service for good.
    assert unit["Unit"]["StartLimitIntervalSec"] == "0" and "StartLimitBurst" not in unit["Unit"]
    assert "MemoryDenyWriteExecute" not in service, "the JVM compiles while it runs"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="without systemd")
def test_systemd_knows_every_line_of_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/stepwell/bin/stepwell", sys.executable))
    found = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


LINTER = shutil.which("hadolint", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(LINTER is None, reason="without hadolint")
def test_the_linter_of_images_has_nothing_to_say() -> None:
    assert LINTER is not None
    found = subprocess.run([LINTER, "Dockerfile"], cwd=DOCKER, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")
