"""The circuit's written form: state belongs to it, so it may not change by accident."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

from engine.model.circuit import Node, NodeBase
from tests.engine.every_kind import every_kind

PINNED = Path(__file__).parent / "every_kind.jsonl"
"""One line per node. A change here means that existing state belongs to another circuit, and that every start is refused."""


def test_the_written_form_of_every_kind_of_node_never_changes() -> None:
    written = [json.dumps(node, sort_keys=True) for node in json.loads(every_kind().to_json())]
    assert written == PINNED.read_text().splitlines()


def test_every_kind_of_node_is_in_the_circuit_that_is_pinned() -> None:
    assert {type(node) for node in every_kind().nodes} == set(get_args(Node))


def test_every_node_class_is_in_the_union() -> None:
    """`Node` is what a `match` over nodes is checked against: a class beside it would be missed by all of them."""
    assert set(NodeBase.__subclasses__()) == set(get_args(Node))
