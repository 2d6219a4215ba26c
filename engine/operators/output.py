"""Output: the change of a view, encoded as the messages of a topic.

    append      every inserted row, as often as its weight says
    upsert      the new row of every changed key; null for a key that has no row any more
    changelog   with a key: the rows before and after of every changed key; without a key: each row that was inserted (c) or retracted (d)

The result is a table of messages (partition, key, value) for the writer, and not a Z-set. It is a function of the change alone. The coordinator
puts the messages of a partition into canonical order.

A row that is retracted and inserted in one step gives no message, so its two changes have to meet on one worker. The same holds for the
changes of one message key. Otherwise the messages would depend on the number of workers.

While a view is in error (error_rows.py), the division of a step withholds its output. The changes are kept in a trace, as one Z-set, and the
step that releases the output writes them as its own change. A withheld output has state, so its rows are exchanged if they lie anywhere.

An upsert output whose columns change writes all rows of its view once more (WrittenAgain). Such a row replaces a message that is there already.
If the output is withheld then, the row may be gone before it is written, and the changes cancel. So each such row is kept in a second trace
too, and the release deletes the message of each key that has no row.

A row for which the format has no message is an error row of the output itself, although its view has an answer. It was never written, so it is
among the changes that are kept, and its retraction takes it back there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

import numpy as np
import pyarrow as pa

from base.arrays import Int64s
from engine.errors import DataError
from engine.expressions.functions.function import shown_row
from engine.model.circuit import Output
from engine.operators import node_texts
from engine.operators.arrangement import Arrangement, Key
from engine.operators.context import StepContext
from engine.operators.descriptor import NO_STATE, Growth, Operator, OutputFacts, Wording
from engine.operators.error_rows import leave_out_errors
from engine.operators.keys import ColocatedKey, distinct_keys, hash_keys, net_rows_by_key
from engine.operators.names import NONE
from engine.rows import zset
from engine.state.runs import as_rows, as_zset
from engine.state.trace import Trace
from io_kafka.clients.partitioner import partitions_of
from io_kafka.formats.encode import encode
from io_kafka.formats.spec import OutputFormat, Unwritable

WITHHELD = 0
"""The number of the trace of the changes that are kept while the output is withheld."""

REPLACING = 1
"""The number of the trace of the rows that were to be written once more while the output was withheld."""

OUTPUT_MESSAGES = pa.schema([("partition", pa.int32()), ("key", pa.binary()), ("value", pa.binary())])


class RowWithoutMessage(DataError):
    """The format of an output has no message for a row."""

    is_of_rows = True


def step_output(node: Output, inputs: Sequence[pa.Table], context: StepContext) -> pa.Table:
    form = _form(node, inputs[0], context)
    delta = _due(node, inputs[0], form, context)
    rows = {"append": _append_rows, "upsert": _upsert_rows, "changelog": _changelog_rows}[node.mode](node, delta)
    if rows.num_rows == 0:
        return OUTPUT_MESSAGES.empty_table()
    try:
        encoded = encode(form, rows)
    except Unwritable as fault:
        # What was kept was looked at while it was kept. If it still has such a row, to count the rows of this step would not end the error.
        kind = DataError if node.handle in context.step.division.withholding.released else RowWithoutMessage
        raise kind(f"{fault.message}.", fault.what_to_do) from None
    key, value = (encoded.column(name).combine_chunks() for name in ("key", "value"))
    partitions = partitions_of(key, value, context.run.partitions[node.handle])
    return pa.Table.from_arrays([partitions, key, value], schema=OUTPUT_MESSAGES)


def _form(node: Output, delta: pa.Table, context: StepContext) -> OutputFormat:
    types = [field.type for field in delta.schema][:-1]
    schema = pa.schema([pa.field(name, kind) for name, kind in zip(node.names, types, strict=True)])
    key = tuple(node.names[c] for c in node.key)
    written = node.written
    encoding = written.encoding(lambda: context.run.schema_ids[node.handle])
    return OutputFormat(
        node.handle,
        schema,
        mode=node.mode,
        key=key,
        encoding=encoding,
        key_format=written.key_format,
        patterns=written.patterns,
    )


def _due(node: Output, delta: pa.Table, form: OutputFormat, context: StepContext) -> pa.Table:
    """The change to write: nothing while the output is withheld, and all that was kept when it is released."""
    if node.handle not in context.step.division.withholding.outputs:
        return delta
    types = form.schema.types
    everything = range(len(types))
    trace, key = context.trace(WITHHELD, types, everything), context.key(0, everything)
    change = zset.consolidate(delta)
    if change.num_rows and not node.written.says_every_row:
        _look_for_rows_without_message(node, change, form, context)
    if node.handle in context.step.division.withholding.withheld:
        trace.append(as_rows(change), key.hashes(change))
        if node.handle in context.step.written_again:
            replacing = _rows_that_come(change)
            context.trace(REPLACING, types, everything).append(as_rows(replacing), key.hashes(replacing))
        return zset.empty(types)
    due = zset.add([_take_all(trace, key), change])
    replacing = _take_all(context.trace(REPLACING, types, everything), key)
    return zset.add([due, _deletions(node, zset.consolidate(due), replacing)]) if replacing.num_rows else due


def _take_all(trace: Trace, key: ColocatedKey) -> pa.Table:
    """All that was kept. Nothing is kept from now on."""
    kept = zset.consolidate(as_zset(trace.scan()))
    taken = zset.negate(kept)
    trace.append(as_rows(taken), key.hashes(taken))
    return kept


def _rows_that_come(change: pa.Table) -> pa.Table:
    return change.filter(pa.array(zset.weights_of(change) > 0))


def _deletions(node: Output, due: pa.Table, replacing: pa.Table) -> pa.Table:
    """A retraction for each key of `replacing` of which nothing is due."""
    rows = pa.concat_tables([due, replacing])
    _, _, key = distinct_keys(rows, node.key, hash_keys(rows, node.key))
    of_due, of_replacing = key[: due.num_rows], key[due.num_rows :]
    keys, first = np.unique(of_replacing, return_index=True)
    chosen = replacing.take(pa.array(first[~np.isin(keys, of_due)]))
    return zset.build(chosen.columns[:-1], np.full(chosen.num_rows, -1))


def _look_for_rows_without_message(node: Output, change: pa.Table, form: OutputFormat, context: StepContext) -> None:
    """Counts them if the step does. Otherwise raises RowWithoutMessage for one that comes: nobody would see it later among what is kept."""
    if context.errors is None:
        came = _rows_that_come(change)
        if came.num_rows:
            _check_messages(node, form, came)
        return

    def attempt(rows: pa.Table) -> pa.Table | None:
        try:
            encode(form, _insertions(node, rows))
        except Unwritable:
            return None
        return rows

    leave_out_errors(
        context.errors, attempt, partial(_check_messages, node, form), change, sign=1, types=form.schema.types
    )


def _check_messages(node: Output, form: OutputFormat, rows: pa.Table) -> None:
    """Raises RowWithoutMessage. It shows the row if there is one alone."""
    try:
        encode(form, _insertions(node, rows))
    except Unwritable as fault:
        row = f": {shown_row(node.names, rows.columns[:-1], 0)}" if rows.num_rows == 1 else ""
        raise RowWithoutMessage(f"{fault.message}{row}. {fault.what_to_do}") from None


def _insertions(node: Output, rows: pa.Table) -> pa.Table:
    """What is written of these rows if each of them is new. Their retractions say less of them."""
    match node.mode:
        case "append":
            return rows
        case "upsert":
            return rows.append_column("deleted", pa.array(np.zeros(rows.num_rows, dtype=bool)))
        case "changelog":
            every = np.arange(rows.num_rows)
            return _images(_structs(rows), np.full(rows.num_rows, -1), every)
        case _:
            assert_never(node.mode)


def _append_rows(node: Output, change: pa.Table) -> pa.Table:
    delta = zset.consolidate(change)
    weights = zset.weights_of(delta)
    if (weights < 0).any():
        raise DataError(
            "A row was retracted, and an append topic cannot hold retractions.",
            "Declare 'mode' = 'upsert' with a key, or 'mode' = 'changelog'.",
        )
    return _repeat(delta, weights)


def _repeat(rows: pa.Table, times: Int64s) -> pa.Table:
    """Row i is there `times[i]` times."""
    return rows if (times == 1).all() else zset.take_rows(rows, np.repeat(np.arange(len(times)), times))


def _upsert_rows(node: Output, change: pa.Table) -> pa.Table:
    """The inserted rows, and a deletion for each key of which a row was only retracted. The view has checked that no key has two rows."""
    delta, group, keys = net_rows_by_key(change, node.key)
    came = zset.weights_of(delta) > 0
    replaced = np.zeros(keys, dtype=bool)
    replaced[group[came]] = True
    chosen = came | ~replaced[group]
    rows = delta.filter(pa.array(chosen))
    return rows.append_column("deleted", pa.array(~came[chosen]))


def _changelog_rows(node: Output, change: pa.Table) -> pa.Table:
    if not node.key:
        delta = zset.consolidate(change)
        weights = zset.weights_of(delta)
        order = np.repeat(np.arange(len(weights)), np.abs(weights))
        return _images(
            _structs(delta),
            np.where(weights < 0, np.arange(len(weights)), -1)[order],
            np.where(weights > 0, np.arange(len(weights)), -1)[order],
        )
    delta, group, keys = net_rows_by_key(change, node.key)
    weights = zset.weights_of(delta)
    before, after = np.full(keys, -1), np.full(keys, -1)
    gone, came = np.flatnonzero(weights < 0), np.flatnonzero(weights > 0)
    before[group[gone]] = gone
    after[group[came]] = came
    return _images(_structs(delta), before, after)


def _structs(delta: pa.Table) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [c.combine_chunks() for c in delta.columns[:-1]], names=list(delta.column_names[:-1])
    )


def _images(rows: pa.StructArray, before: Int64s, after: Int64s) -> pa.Table:
    """The columns `before` and `after`: the rows at these indices, null where the index is -1."""
    columns = [rows.take(pa.array(index, pa.int64(), mask=index < 0)) for index in (before, after)]
    return pa.Table.from_arrays(columns, ["before", "after"])


def _arrange(node: Output, inputs: Sequence[Key | None]) -> Arrangement:
    """Exchanges by the message key, or by the whole row without one, unless the co-location key keeps equal ones together already. The input of
    an append topic only inserts, so nothing has to meet there."""
    (colocation,) = inputs
    together = _together(node)
    if node.mode == "append" or (colocation is not None and set(colocation) <= set(together)):
        return Arrangement((None,), colocation)
    return Arrangement((together,), together)


def arrange_withheld(node: Output, colocation: Key | None, *, has_state: bool) -> Arrangement:
    """The arrangement of an output that is withheld or released. `colocation`: of its input. `has_state`: whether the input is made in a stage
    with state. Equal rows must meet, also of an append topic, because what is kept is one Z-set wherever it is kept."""
    together = _together(node)
    if has_state and colocation is not None and set(colocation) <= set(together):
        return Arrangement((None,), colocation)
    return Arrangement((together,), together)


def _together(node: Output) -> Key:
    """The columns whose equal values have to be on one worker."""
    return node.key or tuple(range(len(node.names)))


OUTPUT = Operator(
    node=Output,
    implementation_version=1,
    step=step_output,
    arrange=_arrange,
    output=OutputFacts(
        unique_key=lambda node, inputs: None,
        comes_without_input=lambda node: False,
        counts_errors=lambda node: not node.written.says_every_row,
    ),
    growth=Growth(retraction=lambda node: None, is_needed=False, is_relied_on=lambda node: node.mode == "append"),
    state=NO_STATE,
    wording=Wording(
        columns=NONE,
        text=lambda node: (
            f"{node.handle} {node.mode}"
            + (f" by {node_texts.columns(node.key)}" if node.key else "")
            + node.written.shown
        ),
        user_name=lambda node: f"output {node.handle}",
    ),
)
