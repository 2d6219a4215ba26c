"""The circuit's written form: state belongs to it, so it may not change by accident."""

from __future__ import annotations

import json
from pathlib import Path

from engine.circuit import NODE_KINDS
from tests.engine.every_kind import every_kind

PINNED = Path(__file__).parent / "every_kind.jsonl"
"""One line per node. A change here means that existing state belongs to another circuit, and that every start is refused."""


def test_the_written_form_of_every_kind_of_node_never_changes() -> None:
    written = [json.dumps(node, sort_keys=True) for node in json.loads(every_kind().to_json())]
    assert written == PINNED.read_text().splitlines()


def test_every_kind_of_node_is_in_the_circuit_that_is_pinned() -> None:
    assert {type(node) for node in every_kind().nodes} == set(NODE_KINDS.values())
