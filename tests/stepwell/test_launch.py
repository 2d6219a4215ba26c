"""How Spark's JVM is launched: what stands on its command line, and in its environment. No JVM is started."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, java_gateway
from pyspark.core import context as spark_context

from base.secrets import remember
from stepwell.commands.log_lines import FIRST
from stepwell.spark import session, unknown_user
from stepwell.spark.launch import for_java, launched_with
from stepwell.spark.session import configuration


class Started(Exception):
    """The JVM would run now."""


def test_no_secret_is_on_the_command_line_or_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def popen(command: list[str], **options: Any) -> None:
        seen.update(options, command=command)
        raise Started

    remember("what a file has")
    monkeypatch.setattr(java_gateway, "Popen", popen)
    monkeypatch.setenv("MY_PASSWORD", "hush")
    monkeypatch.setenv("MY_NAME", "me")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    settings = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "hush",
        "spark.x": "what a file has",
        "spark.y": "1",
        "my.url": "https://me:hush@host",
    }
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    output, launch = io.BytesIO(), spark_context.launch_gateway
    with pytest.raises(Started), launched_with(output, {"MY_PASSWORD"}):
        spark_context.launch_gateway(conf)
    given = " ".join(seen["command"])
    assert "spark.authenticate=true" in given and "spark.y=1" in given
    assert "hush" not in given and "what a file has" not in given
    assert "MY_PASSWORD" not in seen["env"] and seen["env"]["MY_NAME"] == "me"
    assert seen["stdout"] is seen["stderr"] is output and seen["start_new_session"]
    assert dict(conf.getAll()) == settings, "Spark would not get them afterwards"
    assert (spark_context.launch_gateway, java_gateway.Popen) == (launch, popen), "it is not as before"


@pytest.mark.parametrize(
    ("given", "becomes"), [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_DE.UTF-8", "de_DE.UTF-8"), (None, None)]
)
def test_java_reads_names_of_files_as_utf_8(given: str | None, becomes: str | None) -> None:
    assert for_java({} if given is None else {"LC_ALL": given}).get("LC_ALL") == becomes


def test_a_user_without_a_home_gets_one_for_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usual = configuration("t")
    assert "-Duser.home" not in usual["spark.driver.extraJavaOptions"] and "spark.jars.ivy" not in usual

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    nobody = configuration("t")
    scratch = f"stepwell-{os.getuid()}"
    assert f"{scratch} -Duser.name=uid{os.getuid()}" in nobody["spark.driver.extraJavaOptions"]
    assert nobody["spark.jars.ivy"].endswith(f"{scratch}/ivy")
    assert configuration("t", {"spark.jars.ivy": "/mine"})["spark.jars.ivy"] == "/mine"


def test_a_user_without_a_name_is_logged_in_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Context:
        _jvm = "the JVM"

        @classmethod
        def _ensure_initialized(cls, conf: Any) -> None:
            order.append("launched")

        @classmethod
        def getOrCreate(cls, conf: Any) -> None:
            order.append("started")

    monkeypatch.setattr(session, "SparkContext", Context)
    monkeypatch.setattr(session, "SparkConf", lambda: SparkConf(loadDefaults=False))
    monkeypatch.setattr(session, "log_in", lambda jvm: order.append(f"logged in to {jvm}"))
    monkeypatch.setattr(session, "user_name", lambda: None)
    session.make_context({})
    assert order == ["launched", "logged in to the JVM", "started"]
    order.clear()
    monkeypatch.setattr(session, "user_name", lambda: "me")
    session.make_context({})
    assert order == ["started"]
    assert unknown_user.login_name() == f"uid{os.getuid()}"


def test_the_warehouse_of_a_folder_with_a_space_is_a_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark's own default is a URI, of which it makes a folder `a%20b`."""
    folder = tmp_path / "a b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert configuration("t")["spark.sql.warehouse.dir"] == str(folder / "spark-warehouse")
    assert configuration("t", {"spark.sql.warehouse.dir": "/w"})["spark.sql.warehouse.dir"] == "/w"


def test_spark_logs_as_the_setting_says() -> None:
    assert "/log4j2.properties" in configuration("t")["spark.driver.extraJavaOptions"]
    assert "/log4j2-json.properties" in configuration("t", log_format="json")["spark.driver.extraJavaOptions"]


def test_the_form_of_sparks_lines_has_the_fields_of_ours() -> None:
    file = Path(session.__file__).with_name("log4j2-json.properties")
    [line] = [line for line in file.read_text().splitlines() if "eventTemplate" in line]
    assert list(json.loads(line.split(" = ", 1)[1]))[:3] == list(FIRST)
