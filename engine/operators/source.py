"""Source: an input handle. Its rows are read from Kafka and decoded before stage 0 (engine/run/sources.py), so it has no step function."""

from __future__ import annotations

from engine.model.circuit import Source
from engine.operators.arrangement import Arrangement
from engine.operators.descriptor import NoContent, Operator


def _retraction(node: Source) -> str | None:
    """A keyed source gives messages, which are not rows yet: LastByKey makes the table, and takes rows back."""
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
    text=lambda node: node.handle + (" keyed" if node.keyed else "") + (" retracts" if node.retracts else ""),
    user_name=lambda node: f"source {node.handle}",
)
