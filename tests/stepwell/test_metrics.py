"""The table of metrics: its names, that it shows what the board has, how many series there are, and what is shipped and written about it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from base.fault import Fault
from coordinator.measures import PartitionRead, StepMeasured, TopicWritten
from coordinator.status import StatusBoard, StepTimes
from engine.operators.findings import Work
from stepwell.service.metrics.exposition import Exposition
from stepwell.service.metrics.metric import Metric
from stepwell.service.metrics.names import PARTITIONS_MAX
from stepwell.service.metrics.processes import Processes
from stepwell.service.metrics.reference import reference
from stepwell.service.metrics.table import METRICS
from stepwell.service.monitoring import ALERTS, DASHBOARD, shipped_text
from tests.prometheus_tools import promtool
from tests.stepwell.metric_samples import samples_of

ROOT = Path(__file__).parents[2]
BY_SERIES = {series: metric for metric in METRICS for series in metric.series}
SECRET = "hunter2-hunter2"


def busy_board(partitions: int = 2) -> StatusBoard:
    """Everything has a value."""
    board = StatusBoard("shop")
    board.update(
        phase="run",
        epoch=3,
        lag={f"orders/{number}": number for number in range(partitions)},
        state_bytes={"view totals": 7, "source orders": 5, "node 3 of a former revision": 2, "the engine": 1},
        disk_bytes={"working": 9},
        worker_bytes={"0": 11},
        workers=[{"worker": 0, "host": "h", "pid": 1, "folder": f"/{SECRET}", "free_bytes": 12}],
        skipped={"orders": 2},
        late={"view totals": 4},
        watermarks={"view totals": 1.0},
        in_error={"totals": f"row {SECRET}", "output totals": "x"},
        layout={"number": 4, "members": ["0"], "change": None},
        store={"step": 3, "lag_s": 2.5, "is_late": False, "fault": SECRET, "uploaded_bytes": 8, "place": SECRET},
        error=SECRET,
    )
    reads = [PartitionRead("orders", number, 3, 30, 1000, 2000) for number in range(partitions)]
    work = {"view totals": Work(5.0, 2), "output totals": Work(1.0, 1), "source orders": Work(2.0, 6)}
    written = [TopicWritten("totals", 2, 20), TopicWritten("letters", 1, 5, is_dead_letter=True)]
    board.measures.note_step(
        StepMeasured(took_ms=12.0, parts_ms={"read": 3.0}, reads=reads, written=written, work=work)
    )
    board.note_step(0, 6, StepTimes(), replayed=False, skipped={})
    board.note_checkpoint(1, 1, 40.0)
    board.measures.note_recovery("worker_lost", Fault(SECRET))
    board.measures.show_error_rows({"view totals": 3})
    return board


# The rules that `promtool check metrics` documents, for machines that lack it

UNITS = ("ms", "us", "ns", "s", "sec", "m", "h", "d", "b", "kb", "mb", "gb")
NOT_BASE = ("milliseconds", "microseconds", "minutes", "hours", "days", "kilobytes", "megabytes", "bits", "percent")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_wants_it(metric: Metric) -> None:
    words = metric.name.split("_")
    assert re.fullmatch(r"stepwell(_[a-z0-9]+)+", metric.name) and metric.help.endswith((".", "s"))
    assert (words[-1] == "total") == (metric.kind == "counter"), "counters end in _total, and nothing else does"
    assert words[-1] not in ("count", "sum", "bucket") and not {"gauge", "counter", "histogram"}.intersection(words)
    assert not set(words).intersection(UNITS + NOT_BASE), "base units, written out"
    assert not {"le", "quantile", "pipeline"}.intersection(metric.labels)
    assert all(re.fullmatch(r"[a-z]+", label) for label in metric.labels)
    assert bool(metric.per) == bool(metric.labels) or metric.name == "stepwell_build_info"


def test_promtool_finds_nothing() -> None:
    promtool("check", "metrics", given=Exposition(busy_board()).text()[0].decode())


def test_every_metric_has_the_labels_of_the_table() -> None:
    names = set()
    for family in text_string_to_metric_families(Exposition(busy_board()).text()[0].decode()):
        for sample in family.samples:
            metric = BY_SERIES[sample.name]
            names.add(metric.name)
            assert set(sample.labels) - {"le"} == set(metric.all_labels), sample.name
            assert sample.labels["pipeline"] == "shop"
    missing = [metric.name for metric in METRICS if metric.name not in names]
    assert all(name.startswith("stepwell_auto_") for name in missing), "users choose the number of workers"
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_metrics_show_what_was_measured() -> None:
    found = samples_of(busy_board())
    expected = {
        "lag_messages:orders:1": 1,
        "read_messages_total:orders:0": 3,
        "read_bytes_total:orders:0": 30,
        "latency_seconds_count:orders": 2,
        "written_messages_total:totals": 2,
        "dead_letters_total:letters": 1,
        "skipped_messages_total:orders": 2,
        "late_rows_total:totals": 4,
        "view_in_error:view:totals": 1,
        "view_in_error:output:totals": 1,
        "error_rows:view:totals": 3,
        "view_rows_total:source:orders": 6,
        "view_seconds_total:view:totals": 0.005,
        "state_bytes:view:totals": 7,
        "state_bytes:former:former": 2,
        "state_bytes:engine:engine": 1,
        "steps_total:written": 1,
        "step_duration_seconds_count": 1,
        "checkpoint_duration_seconds_count": 1,
        "recoveries_total:worker_lost": 1,
        "recoveries_total:state_damaged": 0,
        "disk_free_bytes:0": 12,
        "phase:run": 1,
        "phase:paused": 0,
        "kafka_up": 1,
        "store_fault": 1,
        "store_step": 3,
    }
    swapped = {_ordered(name): value for name, value in found.items()}
    for name, value in expected.items():
        assert swapped[_ordered(name)] == value, name
    assert found["watermark_lag_seconds:totals"] > 1e9


def _ordered(name: str) -> tuple[str, ...]:
    """The order of labels does not matter."""
    first, *labels = name.split(":")
    return (first, *sorted(labels))


def test_every_phase_has_a_series_and_waiting_for_kafka_is_seen() -> None:
    board = busy_board()
    board.kafka_is_away(1_795_849_200.0, "connection refused")
    found = samples_of(board)
    assert found["kafka_up"] == 0 and found["phase:waiting for Kafka"] == 1
    assert sum(value for name, value in found.items() if name.startswith("phase:")) == 1


def test_no_value_of_the_data_or_of_a_setting_is_in_the_metrics() -> None:
    assert SECRET not in Exposition(busy_board()).text()[0].decode()


def test_the_number_of_series_is_bounded() -> None:
    few, more = (len(samples_of(busy_board(number))) for number in (10, 20))
    assert more - few == 5 * 10, "as docs/metrics.md says"
    many = samples_of(busy_board(PARTITIONS_MAX + 1))
    assert len(many) < few and many["lag_messages:all:orders"] == sum(range(PARTITIONS_MAX + 1))
    assert len(samples_of(StatusBoard("p"))) < 250


def test_openmetrics_is_given_to_whoever_asks() -> None:
    text, content_type = Exposition(busy_board()).text("application/openmetrics-text; version=1.0.0")
    assert "openmetrics" in content_type and text.endswith(b"# EOF\n")


def test_processes_are_looked_at_without_those_of_other_hosts() -> None:
    import os

    workers: list[dict[str, Any]] = [
        {"worker": 0, "pid": os.getpid(), "host": "here"},
        {"worker": 1, "pid": os.getpid(), "host": "there"},
        {"worker": 2, "pid": 2**30, "host": "here"},
    ]
    uses = {(use.role, use.worker): use for use in Processes(os.getpid(), "here").look(workers) if use.role != "jvm"}
    assert uses.keys() == {("service", ""), ("worker", "0")}
    assert uses["worker", "0"].memory_bytes > 1 << 20 and uses["service", ""].cpu_s > 0


# What is shipped and written


def test_the_reference_is_made_from_the_table() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == reference(), (
        "python -m stepwell.service.metrics.reference > docs/metrics.md"
    )


def _expressions() -> Iterator[tuple[str, str, str]]:
    """(where, expression, legend or annotations) of the dashboard and of the rules."""
    for panel in json.loads(shipped_text(DASHBOARD))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
    for rule in _rules():
        yield rule["alert"], rule["expr"], " ".join(rule["annotations"].values())


def _rules() -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = yaml.safe_load(shipped_text(ALERTS))["groups"][0]["rules"]
    return rules


@pytest.mark.parametrize(
    ("where", "expression", "told"), list(_expressions()), ids=lambda value: None if "(" in value else value
)
def test_what_is_shipped_asks_for_metrics_and_labels_that_exist(where: str, expression: str, told: str) -> None:
    selectors = re.findall(r"\b((?:stepwell_\w+|up))(?:\{([^}]*)\})?", expression)
    assert selectors, where
    known: set[str] = set()
    for name, selector in selectors:
        labels = {"job", "instance"} if name == "up" else set(BY_SERIES[name].all_labels)
        known |= labels | ({"le"} if name.endswith("_bucket") else set())
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)) <= labels, f"{where}: {name}"
    grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    assert grouped <= known, where
    last = grouped or known
    named = set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", told))
    assert named <= last | {"value"}, f"{where}: {named - last}"


def test_the_dashboard_is_well_formed() -> None:
    board = json.loads(shipped_text(DASHBOARD))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {each["name"] for each in board["templating"]["list"]} == {"datasource", "pipeline"}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or all("$pipeline" in target["expr"] for target in panel["targets"])


def test_every_alert_has_a_section_that_says_what_to_do() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text()
    sections = {title: body.strip() for title, body in re.findall(r"^### (\w+)\n(.*?)(?=^###|\Z)", text, re.M | re.S)}
    alerts = [rule["alert"] for rule in _rules()]
    assert list(sections) == alerts and all(sections.values())
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    page = f"{urls['Documentation'].replace('/tree/', '/blob/')}/monitoring.md"
    for rule in _rules():
        assert rule["annotations"]["runbook_url"] == f"{page}#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("page", "ticket")


def test_promtool_finds_nothing_wrong_with_the_rules_and_they_fire_when_they_should(tmp_path: Path) -> None:
    rules = tmp_path / ALERTS
    rules.write_text(shipped_text(ALERTS))
    promtool("check", "rules", str(rules))
    cases = tmp_path / "cases.yml"
    cases.write_text((ROOT / "tests/stepwell/alert_cases.yml").read_text().replace("[ALERTS]", f"[{rules}]"))
    promtool("test", "rules", str(cases))


def test_metrics_that_documents_name_exist() -> None:
    for document in (*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "docker" / "README.md"):
        text = document.read_text().split("## Names before this release")[0]
        for name in re.findall(r"`(stepwell_[a-z_]+)[`{]", text):
            assert name in BY_SERIES or any(series.startswith(name) for series in BY_SERIES), f"{document.name}: {name}"
