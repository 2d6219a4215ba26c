"""Settings: layers, bounds, unknown keys."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from base.secrets import hidden
from stepwell.errors import SettingsError
from stepwell.project.settings import load_settings
from stepwell.project.units import parse_bytes, parse_duration
from stepwell.spark.fixed import TIME_ZONE_KEY


def test_defaults() -> None:
    settings = load_settings({})
    assert settings.stepwell.workers is None
    assert settings.stepwell.checkpoint_interval == 10.0
    assert settings.stepwell.step_rows_max == 320_000
    assert settings.stepwell.shards == 4096
    assert settings.stepwell.sharding == "fixed"
    assert settings.stepwell.sharding_inaccuracy == 0.1
    assert settings.stepwell.message_step_header is True
    assert settings.stepwell.on_error == "fail"
    assert (settings.stepwell.store, settings.stepwell.store_lag_max, settings.stepwell.store_late) == (
        None,
        600,
        "pause",
    )
    assert settings.kafka == {"bootstrap.servers": "127.0.0.1:9092"}
    assert settings.spark == {}


@pytest.mark.parametrize(("value", "seconds"), [("5s", 5.0), ("never", None)])
def test_how_long_task_slots_are_waited_for(value: str, seconds: float | None) -> None:
    assert load_settings({"stepwell.cluster.shrink.after": value}).stepwell.cluster_shrink_after == seconds


def test_flags_win_over_the_environment_which_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = {"stepwell.workers": "2", "kafka.bootstrap.servers": "file:1", "stepwell.step.rows.max": "7"}
    assert load_settings(file).stepwell.workers == 2
    assert load_settings(file).kafka["bootstrap.servers"] == "file:1"
    monkeypatch.setenv("STEPWELL_WORKERS", "3")
    monkeypatch.setenv("STEPWELL_KAFKA_BOOTSTRAP_SERVERS", "env:1")
    assert load_settings(file).stepwell.workers == 3
    assert load_settings(file).kafka["bootstrap.servers"] == "env:1"
    flags = {"stepwell.workers": "5", "kafka.bootstrap.servers": "flag:1"}
    assert load_settings(file, flags).stepwell.workers == 5
    assert load_settings(file, flags).kafka["bootstrap.servers"] == "flag:1"
    assert load_settings(file, flags).stepwell.step_rows_max == 7


def test_prefixes_decide_who_gets_a_key() -> None:
    settings = load_settings({"kafka.sasl.mechanism": "PLAIN", "spark.sql.ansi.enabled": "true", "my.parameter": "x"})
    assert settings.kafka["sasl.mechanism"] == "PLAIN"
    assert settings.spark == {"spark.sql.ansi.enabled": "true", "my.parameter": "x"}


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("stepwell.worker", "3", "Did you mean stepwell.workers"),
        ("stepwell.workers", "0", "greater than or equal to 1"),
        ("stepwell.workers", "1025", "less than or equal to 1024"),
        ("stepwell.workers", "two", "valid integer"),
        ("stepwell.shards", "1000", "power of two"),
        ("stepwell.cluster.shrink.after", "soon", "is not a duration"),
        ("stepwell.cluster.shrink.after", "0s", "greater than or equal to 1"),
        ("stepwell.sharding", "even", "'dynamic'"),
        ("stepwell.sharding.inaccuracy", "0", "greater than 0"),
        ("stepwell.sharding.inaccuracy", "1.5", "less than or equal to 1"),
        ("stepwell.checkpoint.interval", "10", "500ms, 10s"),
        ("stepwell.checkpoint.interval", "1us", "greater than or equal to 0.1"),
        ("stepwell.on.error", "ignore", "'skip'"),
        ("stepwell.message.step.header", "perhaps", "boolean"),
        ("stepwell.store", "/mnt/store", "Write file:///mnt/store"),
        ("stepwell.store", "s3://bucket/a?region=x", "AWS_REGION"),
        ("stepwell.store.lag.max", "9s", "greater than or equal to 10"),
        ("stepwell.store.lag.max", "31d", "less than or equal to 2592000"),
        ("stepwell.store.late", "stop", "'pause' or 'continue'"),
        ("stepwell.workers.max", "3", "go together: set both or none"),
        ("stepwell.workers.drain", "9s", "greater than or equal to 10"),
        ("stepwell.workers.lower.after", "7h", "less than or equal to 21600"),
        ("stepwel.workers", "3", "Did you mean stepwell.workers?"),
        (TIME_ZONE_KEY, "Europe/Paris", "UTC only"),
    ],
)
def test_wrong_settings_name_the_key(key: str, value: str, says: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings({key: value})
    assert raised.value.key == key
    assert key in str(raised.value)
    assert says in str(raised.value)


def test_a_store_with_a_secret_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_STORE", "s3://AKID:hush@bucket/a")
    with pytest.raises(
        SettingsError, match=r"stepwell.store = 's3://bucket/a' \(STEPWELL_STORE\): it has a user"
    ) as raised:
        load_settings({})
    assert "hush" not in str(raised.value) and "AWS_SECRET_ACCESS_KEY" in str(raised.value)
    monkeypatch.setenv("STEPWELL_STORE", "s3://bucket/a")
    assert load_settings({"stepwell.store.late": "continue"}).stepwell.store == "s3://bucket/a"


def test_both_bounds_of_the_number_of_workers_are_set_or_none() -> None:
    bounds = {"stepwell.workers.min": "2", "stepwell.workers.max": "8"}
    found = load_settings(bounds).stepwell
    assert (found.workers_min, found.workers_max, found.workers_drain, found.workers_lower_after) == (2, 8, 300, 900)
    for wrong, says in (
        ({"stepwell.workers.min": "2"}, "go together"),
        ({**bounds, "stepwell.workers.min": "9"}, "less than stepwell.workers.min, which is 9"),
    ):
        with pytest.raises(SettingsError, match=says) as raised:
            load_settings(wrong)
        assert raised.value.key == "stepwell.workers.max"


def test_an_error_says_where_the_value_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_WORKERS", "0")
    with pytest.raises(SettingsError, match="STEPWELL_WORKERS"):
        load_settings({"stepwell.workers": "1"})
    with pytest.raises(SettingsError, match="a flag"):
        load_settings({}, {"stepwell.workers": "-1"})


def test_durations_and_sizes_as_spark_writes_them() -> None:
    texts = ["500ms", "10s", "10 seconds", "2min", "2m", "1h", "1 day", "0.5s"]
    assert [parse_duration(text) for text in texts] == [0.5, 10, 10, 120, 120, 3600, 86400, 0.5]
    assert [parse_bytes(text) for text in ["65536", "64k", "64m", "1g", "1GB"]] == [
        65536,
        1 << 16,
        1 << 26,
        1 << 30,
        1 << 30,
    ]


def test_settings_pickle() -> None:
    settings = load_settings({"stepwell.workers": "3"})
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("STEPWELL_WORKRES", "STEPWELL_WORKERS"), ("STEPWELL_STEPS_ROWS_MAX", "STEPWELL_STEP_ROWS_MAX")],
)
def test_a_variable_that_is_almost_a_setting(monkeypatch: pytest.MonkeyPatch, variable: str, meant: str) -> None:
    monkeypatch.setenv(variable, "3")
    with pytest.raises(SettingsError, match=rf"{variable} \(environment\) is not a setting\n.*{meant}\?"):
        load_settings({})


def test_a_variable_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("STEPWELL_HOME", "STEPWELL_CRASH", "STEPWELL_KAFKA_ACKS", "STEPWELL_NATIVE"):
        monkeypatch.setenv(variable, "3")
    load_settings({})


def test_values_stand_in_variables_and_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("of the file\n")
    monkeypatch.setenv("MY_PASSWORD", "of the variable")
    conf = {
        "kafka.sasl.password": "${env:MY_PASSWORD}",
        "spark.authenticate.secret": f"${{file:{file}}}",
        "my.address": "host/${env:MY_PASSWORD}/x",
        "my.other": "${system:user.name} ${table}",
        "my.note": f"${{file:{tmp_path / 'note'}}}",
    }
    (tmp_path / "note").write_text("whatever a file has")
    settings = load_settings(conf, {"kafka.ssl.key.password": f"${{file:{file}}}"})
    assert settings.kafka["sasl.password"] == "of the variable" and settings.kafka["ssl.key.password"] == "of the file"
    assert settings.spark == {
        "spark.authenticate.secret": "of the file",
        "my.address": "host/of the variable/x",
        "my.other": "${system:user.name} ${table}",
        "my.note": "whatever a file has",
    }
    assert settings.secret_variables == {"MY_PASSWORD"}
    for hush in ("of the file", "of the variable", "whatever a file has"):
        assert (
            hush not in repr(settings) and hush not in str(settings.show()) and hush not in hidden(f"it said {hush}.")
        )


def test_a_variable_is_secret_by_what_is_inside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://me:within-a-file@host")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:within-a-url@host/x")
    monkeypatch.setenv("GITHUB_PAT", "a-token-of-mine")
    monkeypatch.setenv("OF_OPTION", "me:of-an-option")
    monkeypatch.setenv("PLAIN", "no-secret-at-all")
    conf = {
        "my.database": "${env:DATABASE_URL}",
        "my.clone": "https://${env:GITHUB_PAT}@host",
        "my.file": f"${{file:{tmp_path / 'url'}}}",
        "basic.auth.user.info": "${env:OF_OPTION}",
        "my.plain": "${env:PLAIN}",
    }
    settings = load_settings(conf)
    assert settings.secret_variables == {"DATABASE_URL", "GITHUB_PAT", "OF_OPTION"}
    for hush in ("within-a-url", "within-a-file", "a-token-of-mine", "me:of-an-option", "of-an-option"):
        assert hush not in hidden(f"it said '{hush}'") and hush not in str(settings.show())
    assert settings.show()["my.plain"] == hidden("no-secret-at-all") == "no-secret-at-all"


def test_a_variable_names_the_file_of_a_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (("a", "kafka hush hush\n"), ("b", "me:registry hush"), ("c", "3")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("STEPWELL_KAFKA_SASL_PASSWORD_FILE", str(tmp_path / "a"))
    monkeypatch.setenv("STEPWELL_REGISTRY_AUTH_FILE", str(tmp_path / "b"))
    monkeypatch.setenv("STEPWELL_WORKERS_FILE", str(tmp_path / "c"))
    settings = load_settings({"kafka.sasl.password": "of the project file"})
    assert settings.kafka == {"bootstrap.servers": "127.0.0.1:9092", "sasl.password": "kafka hush hush"}
    assert settings.stepwell.registry_auth == "me:registry hush" and settings.stepwell.workers == 3
    assert hidden("Basic bWU6cmVnaXN0cnkgaHVzaA== for registry hush") == "Basic *** for ***"
    assert load_settings({}, {"kafka.sasl.password": "a flag"}).kafka["sasl.password"] == "a flag"
    (tmp_path / "c").write_text("many")
    with pytest.raises(SettingsError, match=r"stepwell.workers = 'many' \(STEPWELL_WORKERS_FILE\)"):
        load_settings({})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("${env:NOT_THERE}", r"kafka.sasl.password \(spark-pipeline.yml\) is \$\{env:NOT_THERE\}.*Set NOT_THERE"),
        ("${file:relative}", r"kafka.sasl.password \(spark-pipeline.yml\) names the file 'relative', .*absolute"),
        ("${file:/not/there}", r"names the file /not/there: No such file"),
        ("${file:FOLDER}", r"Is a directory"),
        ("${file:FOLDER/empty}", r"is empty"),
        ("${file:FOLDER/bytes}", r"is not UTF-8"),
        ("${file:FOLDER/large}", r"more than 1 MiB"),
    ],
)
def test_a_value_that_cannot_be_had_names_its_key_and_its_place(tmp_path: Path, value: str, says: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "large").write_text("x" * (1 << 20) + "x")
    conf = {"kafka.sasl.password": value.replace("FOLDER", str(tmp_path)), "stepwell.workers": "${env:NOT_THERE}"}
    with pytest.raises(SettingsError, match=f"(?s){says}") as raised:
        load_settings(conf)
    assert raised.value.key == "kafka.sasl.password"
    lacking = load_settings(conf, may_lack=True)
    assert "sasl.password" not in lacking.kafka and lacking.stepwell.workers is None


def test_a_value_and_its_file_exclude_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_REGISTRY_AUTH", "a:b")
    monkeypatch.setenv("STEPWELL_REGISTRY_AUTH_FILE", "/x")
    with pytest.raises(SettingsError, match=r"STEPWELL_REGISTRY_AUTH and STEPWELL_REGISTRY_AUTH_FILE .* are both set"):
        load_settings({})
