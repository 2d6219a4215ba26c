"""Source: an input handle. Its rows are read from Kafka and decoded by engine/run/sources.py, so it has no step function."""

from __future__ import annotations

from engine.model.rows import Source
from engine.operators.arrangement import Arrangement
from engine.operators.descriptor import NoContent, Operator


def _retraction(node: Source) -> str | None:
    """The output of a keyed source is messages, which are never retracted. LastByKey makes the table from them, and retracts rows."""
    return f"source {node.handle} is a changelog, whose messages update and delete rows" if node.retracts else None


SOURCE = Operator(
    node=Source,
    step=None,
    arrange=lambda node, inputs: Arrangement((), None),
    retraction=_retraction,
    keeps=lambda node, append_only: "",
    unique_key=lambda node, inputs: None,
    content=NoContent(),
    outputs_without_input=lambda node: False,
    counts_errors=lambda node: False,
    needs_append_only=False,
    traces_in_recursion=None,
    text=lambda node: node.handle + (" keyed" if node.keyed else "") + (" retracts" if node.retracts else ""),
    user_name=lambda node: f"source {node.handle}",
)
