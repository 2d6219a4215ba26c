"""The local broker: one folder, one address, found by any process, and no half fetched jars."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from io_kafka.broker import jars as broker_jars
from io_kafka.broker.jars import REQUIRED_MODULES, kafka_jars, missing_modules
from io_kafka.broker.local import LocalBroker
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics
from io_kafka.errors import JarsUnavailable, LocalBrokerFault


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalBroker]:
    broker = LocalBroker(tmp_path / "broker")
    yield broker
    broker.stop()


def topics_of(broker: LocalBroker) -> Topics:
    return Topics(KafkaSettings.parse({"bootstrap.servers": broker.bootstrap_servers}))


@pytest.mark.long
def test_a_broker_from_its_start_over_a_crash_to_its_end(own: LocalBroker, tmp_path: Path) -> None:
    own.start(die_with_parent=True)
    address, topic = own.bootstrap_servers, topics_of(own).ensure("kept", 1)
    _starts_once(own)
    _port_in_use_is_reported_with_the_log(own, tmp_path / "second")
    own.kill()
    assert LocalBroker.find_running(own.folder) is None
    again = LocalBroker(own.folder).start(die_with_parent=True)
    try:
        assert again.bootstrap_servers == address
        assert topics_of(again).describe(["kept"])["kept"] == topic
        _another_process_finds_it_and_stops_it(again)
    finally:
        again.stop()  # stopped already: no error


def _starts_once(own: LocalBroker) -> None:
    with pytest.raises(LocalBrokerFault, match=rf"pid {own.pid}.*stepwell dev down"):
        LocalBroker(own.folder).start()


def _port_in_use_is_reported_with_the_log(own: LocalBroker, folder: Path) -> None:
    port = int(own.bootstrap_servers.split(":")[1])
    with pytest.raises(LocalBrokerFault, match=r"(?s)ended while starting.*in use"):
        LocalBroker(folder, port=port).start(die_with_parent=True)


def _another_process_finds_it_and_stops_it(own: LocalBroker) -> None:
    script = (
        "import sys; from pathlib import Path; from io_kafka.broker.local import LocalBroker\n"
        "broker = LocalBroker.find_running(Path(sys.argv[1])); print(broker.bootstrap_servers); broker.stop()"
    )
    said = subprocess.run([sys.executable, "-c", script, str(own.folder)], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == own.bootstrap_servers
    assert LocalBroker.find_running(own.folder) is None


def test_a_pid_of_another_process_is_not_mistaken_for_the_broker(tmp_path: Path) -> None:
    (tmp_path / "broker.pid").write_text(f'{{"pid": {os.getpid()}, "born": 1.0}}')
    assert LocalBroker.find_running(tmp_path) is None
    LocalBroker(tmp_path).stop()  # must not end this very process


@pytest.mark.long
def test_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from io_kafka.broker.local import LocalBroker\n"
        "broker = LocalBroker(Path(sys.argv[1])).start(die_with_parent=True); print(broker.pid, flush=True)\n"
        "sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    child.wait(timeout=60)


def test_before_the_first_start_there_is_no_address(tmp_path: Path) -> None:
    with pytest.raises(LocalBrokerFault, match="stepwell dev up"):
        _ = LocalBroker(tmp_path).bootstrap_servers


def test_the_jars_in_use_are_complete() -> None:
    assert missing_modules(kafka_jars()) == []


@pytest.mark.long
def test_a_failed_fetch_says_what_to_do_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "ivysettings.xml"
    empty = tmp_path / "repository"
    settings.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none" m2compatible="true">'
        f'<ivy pattern="{empty}/[module].xml"/><artifact pattern="{empty}/[module].[ext]"/></filesystem></resolvers>'
        "</ivysettings>"
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(broker_jars.SETTINGS_VARIABLE, str(settings))
    with pytest.raises(JarsUnavailable, match=rf"(?s){settings}.*kafka_2\.13.*kafka\.bootstrap\.servers"):
        kafka_jars()
    assert [path.name for path in (tmp_path / "cache" / "stepwell").iterdir()] == [
        f"kafka-{broker_jars.KAFKA_VERSION}.lock"
    ]


def test_a_resolve_without_the_runtime_scope_is_noticed(tmp_path: Path) -> None:
    for jar in kafka_jars().glob("*.jar"):
        if not jar.name.startswith("kafka-storage-4"):
            (tmp_path / jar.name).touch()
    assert missing_modules(tmp_path) == [module for module in REQUIRED_MODULES if module.startswith("kafka-storage-")]


def test_settings_that_are_no_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(broker_jars.SETTINGS_VARIABLE, str(tmp_path / "none.xml"))
    with pytest.raises(JarsUnavailable, match=r"none\.xml is not a file"):
        kafka_jars()


def test_a_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JarsUnavailable, match="Install Java 17"):
        broker_jars.java_command()
