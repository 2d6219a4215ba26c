"""Pictures of a project that stand alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession

from stepwell.commands import graph as command
from stepwell.service.page.graph import PipelineGraph, graph_of
from stepwell.service.page.pictures import picture
from tests.engine.test_stages import whole_circuit
from tests.stepwell.command_line import CommandLine
from tests.stepwell.folder import write

GRAPH = PipelineGraph(("source a", "view <b>", 'output "c"', "view alone"), ((0, 1), (1, 2)))
TOPICS = {"source a": "topic a", 'output "c"': "topic c&d"}

DEFINITIONS = """
CREATE STREAMING TABLE t (k STRING, n INT) USING kafka TBLPROPERTIES ('subscribe' = 'in', 'format' = 'json');
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = 'out', 'key' = 'k', 'mode' = 'upsert') AS SELECT k, sum(n) AS n FROM t GROUP BY k;
CREATE MATERIALIZED VIEW large AS SELECT k FROM sums WHERE n > 10;
"""


def test_the_svg_is_whole_and_needs_nothing_else() -> None:
    text = picture(graph_of(whole_circuit()), {"source left": "topic words"}, "svg")
    drawn = ElementTree.fromstring(text)
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    names = {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}title")}
    assert {"source left: topic words", "source right", "view by_word", "output by_word"} <= names
    assert re.findall(r"https?://[^\"<]*", text) == ["http://www.w3.org/2000/svg"], "it loads nothing"


def test_other_forms_have_every_box_and_every_edge() -> None:
    assert picture(GRAPH, TOPICS, "text") == (
        'source a (topic a) -> view <b>\nview <b> -> output "c" (topic c&d)\nview alone\n'
    )
    mermaid = picture(GRAPH, TOPICS, "mermaid").splitlines()
    assert mermaid[:4] == [
        "graph LR",
        '  n0[("a<br>topic a")]',
        '  n1["&lt;b&gt;"]',
        '  n2(["&quot;c&quot;<br>topic c&amp;d"])',
    ]
    assert mermaid[5:] == ["  n0 --> n1", "  n1 --> n2"]
    dot = picture(GRAPH, TOPICS, "dot").splitlines()
    assert dot[2] == '  n0 [label="a\\ntopic a", shape=cylinder]' and dot[4].startswith('  n2 [label="\\"c\\"')
    assert dot[6:] == ["  n0 -> n1", "  n1 -> n2", "}"]


def test_the_command_draws_the_files(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(_: object) -> Iterator[tuple[SparkSession, None]]:
        yield spark, None

    monkeypatch.setattr(command, "planning_session", session)
    write(tmp_path, {"views.sql": DEFINITIONS})
    line = CommandLine(tmp_path, "127.0.0.1:1", tmp_path / "cache")
    assert sorted(line.here("graph", "--format", "text").out.splitlines()) == [
        "source t (topic in) -> view sums",
        "view sums -> output sums (topic out)",
        "view sums -> view large",
    ]
    assert line.here("graph", "--to", "graph.svg").err == "wrote graph.svg\n"
    assert ElementTree.parse(tmp_path / "graph.svg").getroot() is not None
