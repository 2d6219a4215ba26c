"""Source: an input handle. Its rows are read from Kafka and decoded by engine/run/sources.py, so it has no step function."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from base.arrays import Bools
from base.text.columns import nulls_of
from engine.model.node import NodeBase
from engine.model.rows import Source
from engine.operators.arrangement import Arrangement
from engine.operators.descriptor import NO_STATE, PLAIN_OUTPUT, Growth, Operator, Wording
from engine.operators.names import named_by


def _retraction(node: Source) -> str | None:
    """The output of a keyed source is messages, which are never retracted. LastByKey makes the table from them, and retracts rows."""
    return f"source {node.handle} is a changelog, whose messages update and delete rows" if node.retracts else None


DELETED, PARTITION, OFFSET = -4, -3, -2
"""The columns of a keyed source's messages behind those of the table, counted from the end, where the weight is."""


def broadcast_rows(node: NodeBase, rows: pa.Table) -> Bools | None:
    """Which rows of a node's output concern every key, so that every worker needs them, by whatever key they are exchanged; None if none does:
    the messages of a keyed source that delete every row of the table."""
    if not isinstance(node, Source) or not node.keyed or not rows.column(DELETED).null_count:
        return None
    return np.concatenate([nulls_of(chunk) for chunk in rows.column(DELETED).chunks])


SOURCE = Operator(
    node=Source,
    implementation_version=1,
    step=None,
    arrange=lambda node, inputs: Arrangement((), None),
    output=PLAIN_OUTPUT,
    growth=Growth(retraction=_retraction, is_needed=False, is_relied_on=lambda node: False),
    state=NO_STATE,
    wording=Wording(
        columns=named_by(lambda node, inputs, naming: tuple(naming.sources.get(node.handle, ()))),
        text=lambda node: node.handle + (" keyed" if node.keyed else "") + (" retracts" if node.retracts else ""),
        user_name=lambda node: f"source {node.handle}",
    ),
)
