"""Views in error: which nodes have error rows, whose error rows a step counts, and which outputs are withheld.

    a row of step s gives an error ----> the division of s is recorded again; it counts the error rows of all nodes that can, and holds the
                                         outputs behind them; all workers go back to the last checkpoint
    step s is written             ----> its record has the error rows of each node
    division of s+1               ----> it counts those of the nodes that have some; the outputs behind the others are released
    ...
    no error rows are left        ----> the next division releases the last outputs

An output is a node too: its format may have no message for a row, although the view has an answer. Then this output alone is held.

All of this is decided from the step log, without I/O. Why a view in error does not stop the others: docs/decisions/0085.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.analysis.column_names import input_names, with_names
from engine.analysis.withholding import countable, outputs_behind, views_behind, withholding_of
from engine.errors import DataError
from engine.model.circuit import Circuit, Output, View
from engine.model.withholding import Withholding
from engine.operators.error_rows import ErrorRows, add_all
from engine.run.stage import name_of
from io_kafka.step_log.records import DivisionRecord, NodeErrors
from io_kafka.step_log.state import StepLogState


class ViewsInError(DataError):
    """A run that reads what is there has ended, and some views have no answer over it. The others are up to date."""


def can_count(circuit: Circuit, log: StepLogState, record: DivisionRecord, fault: DataError) -> bool:
    """Whether the step can count the rows that gave this error, instead of ending. A step that is replayed counts what it counted before."""
    if not fault.is_of_rows or fault.place is not None or fault.node is None or record.step < log.steps:
        return False
    return fault.node not in record.counted and fault.node in countable(circuit)


def count_all(circuit: Circuit, epoch: int, record: DivisionRecord) -> DivisionRecord:
    """The division of a step, recorded again so that no error of a row ends it. It counts the error rows of all nodes that can, because rows of
    other views may give errors too, and each would cost a recovery of its own."""
    counted = countable(circuit) | set(record.counted)
    return record.with_counted(epoch, tuple(sorted(counted)), outputs_behind(circuit, counted))


def next_counted(circuit: Circuit, log: StepLogState, *, is_drained: bool) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """(the nodes whose error rows the next division counts, the outputs that it releases). If steps before it are not written yet
    (`is_drained` is False), these are the nodes of the division before it, because such a step may find error rows."""
    if not is_drained:
        return log.counted, ()
    still = tuple(node for node in log.counted if node in log.nodes_in_error)
    released = outputs_behind(circuit, log.counted) - outputs_behind(circuit, still)
    return still, tuple(sorted(released))


def is_release_due(counted: Sequence[int], errors: Sequence[NodeErrors]) -> bool:
    """Whether the next division has to count the error rows of fewer nodes than the last one, which is decided at a drained boundary.
    `counted`: the nodes of the last division. `errors`: after the last step."""
    return not set(counted) <= {each.node for each in errors}


def of_division(circuit: Circuit, record: DivisionRecord) -> Withholding:
    return withholding_of(circuit, record.counted, record.released)


def totals(step: int, before: Sequence[NodeErrors], changes: Mapping[int, ErrorRows]) -> tuple[NodeErrors, ...]:
    """The error rows after `step`, of the nodes that have some. `before`: after the step before it. `changes`: of the step, by node."""
    since = {each.node: each.since for each in before}
    sums = {each.node: ErrorRows(each.rows, int(each.checksum, 16), each.example) for each in before}
    add_all(sums, changes)
    return tuple(
        NodeErrors(
            node=node,
            since=since.get(node, step),
            rows=total.rows,
            checksum=f"{total.checksum:016x}",
            example=total.example,
        )
        for node, total in sorted(sums.items())
        if not total.is_nothing
    )


def errors_before(log: StepLogState, step: int) -> tuple[NodeErrors, ...] | None:
    """The error rows in the state before this step. In a replay that is an earlier step than the next one of the log. None if the log has
    forgotten the step before it: then no step has run since the checkpoint that the databases were opened at."""
    if step == log.steps:
        return log.errors
    if step == 0:
        return ()
    record = log.step_records.get(step - 1)
    return None if record is None else record.errors


def views_before(circuit: Circuit, log: StepLogState, step: int) -> frozenset[str] | None:
    """The views that have no answer in the state before this step; None if the databases know better."""
    errors = errors_before(log, step)
    return None if errors is None else views_behind(circuit, (each.node for each in errors))


Sources = Mapping[str, Sequence[str]]
"""The names of the columns of the sources, by handle."""


def error_texts(circuit: Circuit, errors: Sequence[NodeErrors], sources: Sources) -> dict[str, str]:
    """The views that have no answer, and the outputs with rows that have no message, with the error of one row, for people."""
    found: dict[str, str] = {}
    for each in errors:
        name = name_of(circuit, each.node)
        for behind in [name] if _is_output(circuit, each) else views_behind(circuit, [each.node]):
            found.setdefault(behind, f"{name}, step {each.since}: {_example(circuit, each, sources)}")
    return dict(sorted(found.items()))


def _is_output(circuit: Circuit, errors: NodeErrors) -> bool:
    return isinstance(circuit.nodes[errors.node], Output)


def _example(circuit: Circuit, errors: NodeErrors, sources: Sources) -> str:
    example = with_names(errors.example, input_names(circuit, sources, errors.node))
    return example if errors.rows <= 1 else f"{example} ({errors.rows} rows have an error.)"


def check_answers(circuit: Circuit, log: StepLogState, sources: Sources) -> None:
    """Raises ViewsInError if a view has no answer, or an output no message for a row, after the last step. It is located at the first."""
    if not log.errors:
        return
    outputs = outputs_behind(circuit, log.nodes_in_error)
    first, *later = log.errors
    texts = [_example(circuit, first, sources)]
    texts += [
        f"Also {name_of(circuit, each.node)}, step {each.since}: {_example(circuit, each, sources)}" for each in later
    ]
    # A view of which two rows have one key has an answer in Spark.
    here_alone = {node for node in log.nodes_in_error if isinstance(circuit.nodes[node], View)}
    in_spark_too = views_behind(circuit, log.nodes_in_error - here_alone)
    others = views_behind(circuit, here_alone) - in_spark_too
    texts += [f"Without an answer, in Spark too: {', '.join(sorted(in_spark_too))}."] if in_spark_too else []
    texts += [f"Without an answer here: {', '.join(sorted(others))}."] if others else []
    raise ViewsInError(
        " ".join(texts),
        "All other views are up to date. Correct or delete these rows and run again, or guard against them in the view (CASE, nullif, "
        f"try_cast). Until then what changes in {', '.join(sorted(outputs))} is kept in the state.",
    ).locate(owner=name_of(circuit, first.node), step=first.since)
