"""Where workers may run, and how many, as far as that is known before any is started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from base.fault import ExitCode
from engine.resident import spark_launcher
from engine.resident.spark_launcher import ENCRYPTED, SparkLauncher, spark_cluster
from engine.resident.start_faults import InsecureCluster, NoSlots


def context(
    master: str,
    host: str = "127.0.0.1",
    settings: Mapping[str, str] = MappingProxyType({}),
    slots: Callable[[], int] = lambda: 7,
) -> Any:
    profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
    scala = SimpleNamespace(
        resourceProfileManager=lambda: profiles,
        maxNumConcurrentTasks=lambda profile: slots() if profile == "default" else 0,
    )
    java = SimpleNamespace(sc=lambda: scala)
    return SimpleNamespace(master=master, getConf=lambda: {"spark.driver.host": host, **settings}, _jsc=java)


@pytest.mark.parametrize(
    ("master", "slots"),
    [("local[3]", 3), ("local[2,4]", 2), ("local[*]", None), ("local", 1), ("spark://h:7077", None), ("yarn", None)],
)
def test_the_slots_of_local_mode_are_known(master: str, slots: int | None) -> None:
    assert SparkLauncher(context(master), "p").slots == slots


@pytest.mark.parametrize("host", ["192.0.2.7", "no.such.host.invalid"])
@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, "spark.authenticate=true"),
        ({"spark.network.crypto.enabled": "true"}, "spark.authenticate=true"),
        ({"spark.authenticate": "true"}, "spark.network.crypto.enabled=true or spark.ssl.rpc.enabled=true"),
    ],
)
def test_a_channel_that_is_not_secured_gets_no_key(host: str, settings: dict[str, str], missing: str) -> None:
    with pytest.raises(InsecureCluster, match=f"{host}.*{missing} is not set") as refused:
        spark_cluster(context("spark://h:7077", host, settings), "p")
    assert refused.value.exit_code == ExitCode.PROJECT


@pytest.mark.parametrize("encryption", ENCRYPTED)
def test_each_run_beyond_loopback_has_a_certificate_of_its_own(
    encryption: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_launcher, "is_loopback", lambda host: False)
    settings = {"spark.authenticate": "true", encryption: "true"}
    made = [spark_cluster(context("spark://h:7077", settings=settings), "p") for _ in range(2)]
    assert len({cluster.launcher._certificate for cluster in made} - {None}) == 2  # type: ignore[attr-defined]
    with closing(made[0].make_transport()) as one, closing(made[1].make_transport()) as other:
        assert one._contexts is not None and other._contexts is not None  # type: ignore[attr-defined]


def test_without_encryption_if_the_user_allows_it() -> None:
    made = spark_cluster(context("spark://h:7077", "192.0.2.7"), "p", insecure=True)
    assert made.launcher._certificate is None  # type: ignore[attr-defined]
    assert isinstance(made.make_transport, partial) and made.make_transport.args == ("192.0.2.7", None)


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_loopback_needs_no_permission(master: str) -> None:
    made = spark_cluster(context(master), "p")
    transport = made.make_transport()
    assert transport.address.host == "127.0.0.1"
    transport.close()


@pytest.mark.parametrize("master", ["local[3]", "spark://h:7077", "yarn"])
def test_spark_is_asked_how_many_task_slots_it_has_now(master: str) -> None:
    assert SparkLauncher(context(master), "p").slots_now() == 7


def test_a_jvm_that_ends_or_sleeps_has_no_answer_and_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended() -> int:
        raise ConnectionRefusedError("no JVM")

    assert SparkLauncher(context("local[3]", slots=ended), "p").slots_now() is None
    monkeypatch.setattr(spark_launcher, "ASK_SECONDS_MAX", 0.05)
    woken = threading.Event()
    asleep = SparkLauncher(context("local[3]", slots=lambda: int(woken.wait(2))), "p")
    assert asleep.slots_now() is None, "it was waited for"
    woken.set()


@pytest.mark.parametrize(
    ("slots", "busy", "said", "advice"),
    [
        (2, 0, "; Spark has 2 task slots.", "Give Spark more task slots"),
        (4, 2, "; Spark has 4 task slots, in 2 of which other workers run.", "Give Spark more task slots"),
        (5, 2, "; Spark has 5 task slots, in 2 of which other workers run.", "They are enough, so see in Spark's log"),
        (8, 0, "; Spark has 8 task slots.", "They are enough"),
        (None, 0, "; Spark does not say how many it has.", "See whether Spark's JVM runs and is not stopped"),
    ],
)
def test_missing_task_slots_are_told_with_what_spark_has(slots: int | None, busy: int, said: str, advice: str) -> None:
    fault = NoSlots(3, 1, slots, 60.0, busy)
    assert fault.exit_code == ExitCode.MACHINE
    assert str(fault).startswith(
        "3 workers need 3 task slots at once, and 1 workers have registered within 60 s" + said
    )
    assert advice in fault.what_to_do and fault.what_to_do.endswith("Nothing is lost.")
