"""The descriptor of an operator: all that the engine has to know of it, in one place beside its step function.

Each module of operators ends with one `Operator` per node type, and `table.py` collects them. What every operator has is asked of that table,
also by the analyses. A module that names a kind of node says something of that kind alone, such as which nodes are views.

An operator says how it computes and where its rows lie, and then four groups of facts, each a value of its own:

    output    what is true of its output            growth    what it does with rows that are taken back
    state     what it stores between steps          wording   what users read of it

No field has a default. With a wrong default for its exchanges or its retractions an operator would give wrong answers without an error. The
groups that several operators have stand here under a name, such as FOLLOWS_INPUTS and NO_STATE, and an operator that means them says so.
`tests/engine/test_descriptors.py` runs every operator and compares what it does with its descriptor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import pyarrow as pa

from engine.model.node import NodeBase
from engine.operators.arrangement import Arrangement, Key
from engine.operators.context import StepContext, StepFunction
from engine.operators.error_rows import ErrorRows
from engine.operators.names import ColumnNames
from engine.rows import zset

N = TypeVar("N", bound=NodeBase)


@dataclass(frozen=True)
class NoContent:
    """The content cannot be read from the state. A view over this operator has to store it."""


@dataclass(frozen=True)
class ContentOfInput(Generic[N]):
    """The content follows from that of the one input. `apply(node, content)` computes the content of the output from that of the operator's
    one input. Both are Z-sets."""

    apply: Callable[[N, pa.Table], pa.Table]


@dataclass(frozen=True)
class ContentOfState:
    """The content is what can be fed from the state (`StateUse.fed`), which is cheap enough for a query. Before the first step there is none."""


Content = NoContent | ContentOfInput[N] | ContentOfState
"""How the content of an operator's output can be read between steps if no view has stored it."""


@dataclass(frozen=True)
class Fed(Generic[N]):
    """The content of the output can be computed from the operator's own traces, and from the values of subqueries that it reads. So it can be
    given to new nodes by ranges of slots (engine/analysis/history.py).

    `possible(node)`: whether it is so for this node.
    `content(node, types of the inputs, values, context)`: the content on this worker, of the slots of `context.slots`. See `rows`.

    All rows of all traces of a node lie in the slot of the node's placed hash, and so does what is computed of them. So the sum of the contents
    over ranges that cover all slots, and over the workers, is the sum of all changes that the operator has put out."""

    possible: Callable[[N], bool]
    content: Callable[[N, Sequence[Sequence[pa.DataType]], Sequence[pa.Table], StepContext], pa.Table]

    def rows(
        self, node: N, types: Sequence[Sequence[pa.DataType]], values: Sequence[pa.Table], context: StepContext
    ) -> pa.Table:
        """The content as a Z-set, as of the moment of the call. An equal row may occur several times. Rows that are gone do not occur, although
        runs may still have them, so no expression is computed over them. Error rows have no output, so they are left out; that they are there
        was counted when they came.

        In a step, it is called after the step function of the node, in the same transaction. `types`: of the columns of all inputs. `values`:
        what the ScalarValue nodes among the inputs have told in the step, in their order; of other operators nothing."""
        read = self.content(node, types, values, replace(context, errors=ErrorRows()))
        return zset.as_schema(read, zset.schema_of(node.types))


def always(node: NodeBase) -> bool:
    """For an operator whose nodes can all be fed from their state."""
    return True


@dataclass(frozen=True, kw_only=True)
class OutputFacts(Generic[N]):
    """What is true of the output of an operator.

    `unique_key(node, unique keys of the inputs)`: columns of the output whose values are in at most one row at the end of a step; `()` if there
    is at most one row; None if no unique key is known.
    `comes_without_input(node)`: whether there can be output before there is any input.
    `counts_errors(node)`: whether rows can be in error in this operator (`DataError.is_of_rows`). Then its step leaves them out and adds them to
    `StepContext.errors`, if that is not None (error_rows.py)."""

    unique_key: Callable[[N, Sequence[Key | None]], Key | None]
    comes_without_input: Callable[[N], bool]
    counts_errors: Callable[[N], bool]


PLAIN_OUTPUT: OutputFacts[Any] = OutputFacts(
    unique_key=lambda node, inputs: None, comes_without_input=lambda node: False, counts_errors=lambda node: False
)
"""The output has no known unique key, there is none before there is input, and no row of it can be in error."""


@dataclass(frozen=True, kw_only=True)
class Growth(Generic[N]):
    """What an operator does with rows that are taken back. Its inputs grow as long as they only insert.

    `retraction(node)`: why the operator can retract rows even if its inputs only insert, as the end of a sentence that begins with "because";
    None if it cannot. (If an input can retract, the output counts as retracting in any case.)
    `is_needed`: whether no input may retract, so that a view in which one can is refused.
    `is_relied_on(node)`: whether a retraction would be wrong once its inputs have only inserted: its state then lacks what it would need, or its
    result depends on what came first."""

    retraction: Callable[[N], str | None]
    is_needed: bool
    is_relied_on: Callable[[N], bool]


FOLLOWS_INPUTS: Growth[Any] = Growth(retraction=lambda node: None, is_needed=False, is_relied_on=lambda node: False)
"""The operator retracts rows only if an input does, and may begin to at any time."""

TAKES_BACK: Growth[Any] = Growth(
    retraction=lambda node: "old rows are taken back", is_needed=False, is_relied_on=lambda node: False
)
"""The operator belongs to a transition, and retracts rows of the previous project."""


@dataclass(frozen=True, kw_only=True)
class StateUse(Generic[N]):
    """What an operator stores between steps, and what can be read of that.

    `keeps(node, append_only)`: a text for users that says what the operator stores between steps; empty if nothing. `append_only`: no input can
    retract. An operator whose state depends on that reads `StepContext.append_only`.
    `content`: how the content of the output can be read from the state.
    `fed`: how the content of the output can be computed from the state by ranges of slots. It may be possible although `content` says no,
    because a query has to be cheap. None: it cannot, as for an operator without state.
    `traces_in_recursion`: the number of traces that it uses, if it may be in the body of a Recursion; None if it may not."""

    keeps: Callable[[N, bool], str]
    content: Content[N]
    fed: Fed[N] | None
    traces_in_recursion: int | None


NO_STATE: StateUse[Any] = StateUse(
    keeps=lambda node, append_only: "", content=NoContent(), fed=None, traces_in_recursion=None
)
"""The operator stores nothing, and it may not be in the body of a Recursion."""


@dataclass(frozen=True, kw_only=True)
class Wording(Generic[N]):
    """What users read of an operator.

    `columns`: what users call the columns of its output, and those that its expressions read.
    `text(node)`: what the node does, on one line, without its kind and inputs.
    `user_name(node)`: the name for users, for example "view totals"; None for an operator within a view."""

    columns: ColumnNames[N]
    text: Callable[[N], str]
    user_name: Callable[[N], str | None]


@dataclass(frozen=True, kw_only=True)
class Operator(Generic[N]):
    """The descriptor of one kind of node.

    `implementation_version`: rises when the operator's results, or what its traces hold, change for the same inputs. State that another version
    has made is then not kept (engine/analysis/identity.py).
    `step`: computes the change of the output from the changes of the inputs; None for a source, whose rows are read and not computed.
    `arrange(node, co-location keys of the inputs)`: the exchanges before the operator, and the co-location key of its output."""

    node: type[N]
    implementation_version: int
    step: StepFunction[N] | None
    arrange: Callable[[N, Sequence[Key | None]], Arrangement]
    output: OutputFacts[N]
    growth: Growth[N]
    state: StateUse[N]
    wording: Wording[N]

    def is_fed_from_state(self, node: N) -> bool:
        """Whether the state of the node tells the content of its output (see Fed)."""
        return self.state.fed is not None and self.state.fed.possible(node)
