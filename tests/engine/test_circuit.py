"""The JSON form of a circuit. State belongs to it, so it may not change by accident."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

from engine.model.circuit import Node
from engine.model.node import NodeBase
from tests.engine.every_kind import every_kind

PINNED = Path(__file__).parent / "every_kind.jsonl"
"""One line per node. If this changes, existing state belongs to another circuit, and every start is refused."""


def test_the_json_form_of_every_kind_of_node_never_changes() -> None:
    written = [json.dumps(node, sort_keys=True) for node in json.loads(every_kind().to_json())]
    assert written == PINNED.read_text().splitlines()


def test_every_kind_of_node_is_in_the_circuit_that_is_pinned() -> None:
    assert {type(node) for node in every_kind().nodes} == set(get_args(Node))


def test_every_node_class_is_in_the_union() -> None:
    """mypy checks a `match` over nodes against `Node`, so it would not notice a class that is not in the union."""
    assert set(NodeBase.__subclasses__()) == set(get_args(Node))
