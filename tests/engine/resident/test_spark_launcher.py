"""Where workers may run, and how many, as far as that is known before any is started."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from engine.resident import spark_launcher
from engine.resident.spark_launcher import ENCRYPTED, SparkLauncher, spark_cluster
from engine.resident.start_faults import InsecureCluster


def context(master: str, host: str = "127.0.0.1", settings: Mapping[str, str] = MappingProxyType({})) -> Any:
    return SimpleNamespace(master=master, getConf=lambda: {"spark.driver.host": host, **settings})


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
    with pytest.raises(InsecureCluster, match=f"{host}.*{missing} is not set"):
        spark_cluster(context("spark://h:7077", host, settings), "p")


@pytest.mark.parametrize("encryption", ENCRYPTED)
def test_each_run_beyond_loopback_has_a_certificate_of_its_own(
    encryption: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_launcher, "_is_loopback", lambda host: False)
    settings = {"spark.authenticate": "true", encryption: "true"}
    made = [spark_cluster(context("spark://h:7077", settings=settings), "p") for _ in range(2)]
    assert len({cluster.launcher._certificate for cluster in made} - {None}) == 2  # type: ignore[attr-defined]
    with closing(made[0].make_transport()) as one, closing(made[1].make_transport()) as other:
        assert one._contexts is not None and other._contexts is not None  # type: ignore[attr-defined]


def test_without_encryption_if_the_user_allows_it() -> None:
    made = spark_cluster(context("spark://h:7077", "192.0.2.7"), "p", insecure=True)
    assert made.launcher._certificate is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("master", ["local[2]", "spark://127.0.0.1:7077"])
def test_loopback_needs_no_permission(master: str) -> None:
    made = spark_cluster(context(master), "p")
    transport = made.make_transport()
    assert transport.address.host == "127.0.0.1"
    transport.close()
