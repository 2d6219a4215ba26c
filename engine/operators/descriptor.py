"""Everything the engine has to know of a kind of operator, in one place beside its step function.

Each module of operators ends with one `Operator` per node type, and `table.py` collects them. Stages, retraction analysis, uniqueness, contents,
texts and `dry-run` are loops over that table, and know no kind of node themselves.

No field has a default: an operator that says nothing of its exchanges or its retractions would give wrong answers in silence.
`tests/engine/test_descriptors.py` runs every operator and compares what it does with what its descriptor says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import pyarrow as pa

from engine.model.circuit import NodeBase
from engine.operators.arrangement import Arrangement, Key
from engine.operators.base import StepContext, StepFunction

N = TypeVar("N", bound=NodeBase)


@dataclass(frozen=True)
class NoContent:
    """A view over this operator has to store its content itself."""


@dataclass(frozen=True)
class ContentOfInput(Generic[N]):
    """`apply(node, content)`: the content of the output, from that of the operator's one input; both are Z-sets."""

    apply: Callable[[N, pa.Table], pa.Table]


@dataclass(frozen=True)
class ContentOfState(Generic[N]):
    """`rows(node, input types, context)`: the content of the output as a Z-set, from the operator's own traces on one worker. The operator has
    one input, whose columns have the input types. `context.step` is that of the version that is read."""

    rows: Callable[[N, Sequence[pa.DataType], StepContext], pa.Table]


Content = NoContent | ContentOfInput[N] | ContentOfState[N]
"""How the content of an operator's output can be read between steps, where no view has stored it."""


@dataclass(frozen=True, kw_only=True)
class Operator(Generic[N]):
    """`step`: the change of the output, from the changes of the inputs; None for a source, whose rows are read and not computed.

    `arrange(node, placements of the inputs)`: the exchanges before the operator, and the placement of its output.
    `retraction(node)`: why the operator takes rows back although its inputs only grow, as the end of a sentence that begins with "because";
    None if it does not. (If an input retracts, the output counts as retracting in any case.)
    `keeps(node, append_only)`: what the operator stores between steps, in words, empty if nothing. `append_only` says that no input can retract;
    an operator whose state depends on that reads `StepContext.append_only`.
    `unique_key(node, unique keys of the inputs)`: columns of the output whose values are in one row at most at the end of a step; `()` if there
    is one row at most; None if that is not known.
    `content`: how the content of the output can be read from the state.
    `speaks_first(node)`: whether there can be output before there was any input.
    `text(node)`: what the node does, on one line, without its kind and inputs.
    `user_name(node)`: what users call it, as in "view totals"; None for an operator within a view."""

    node: type[N]
    step: StepFunction[N] | None
    arrange: Callable[[N, Sequence[Key | None]], Arrangement]
    retraction: Callable[[N], str | None]
    keeps: Callable[[N, bool], str]
    unique_key: Callable[[N, Sequence[Key | None]], Key | None]
    content: Content[N]
    speaks_first: Callable[[N], bool]
    text: Callable[[N], str]
    user_name: Callable[[N], str | None]
