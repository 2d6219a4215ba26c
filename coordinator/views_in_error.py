"""Views in error: which nodes have error rows, whose error rows a step counts, and which outputs are withheld.

    a row of step s gives an error ----> the division of s is recorded again; it counts the error rows of all nodes that can, and holds the
                                         outputs behind them; all workers go back to the last checkpoint
    step s is written             ----> its record has the error rows of each node
    division of s+1               ----> it counts those of the nodes that have some; the outputs behind the others are released
    ...
    no error rows are left        ----> the next division releases the last outputs

All of this is decided from the step log, without I/O. Why a view in error does not stop the others: docs/decisions/0085.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from base.fault import ExitCode
from coordinator.errors import CoordinatorError
from engine.analysis.withholding import countable, outputs_behind, views_behind, withholding_of
from engine.errors import DataError
from engine.model.circuit import Circuit
from engine.model.withholding import Withholding
from engine.operators.error_rows import ErrorRows
from io_kafka.step_log.records import DivisionRecord, NodeErrors
from io_kafka.step_log.state import StepLogState


class ViewsInError(CoordinatorError):
    """A run that reads what is there has ended, and some views have no answer over it. The others are up to date."""

    exit_code = ExitCode.DATA


def can_count(circuit: Circuit, log: StepLogState, record: DivisionRecord, fault: DataError) -> bool:
    """Whether the step can count the rows that gave this error, instead of ending. A step that is replayed counts what it counted before."""
    if not fault.is_of_rows or fault.place is not None or fault.node is None or record.step < log.steps:
        return False
    return fault.node not in record.counted and fault.node in countable(circuit)


def counting_all(circuit: Circuit, epoch: int, record: DivisionRecord) -> DivisionRecord:
    """The division of a step, recorded again so that no error of a row ends it. It counts the error rows of all nodes that can, because rows of
    other views may give errors too, and each would cost a recovery of its own."""
    counted = countable(circuit) | set(record.counted)
    return record.counting(epoch, tuple(sorted(counted)), outputs_behind(circuit, counted))


def goes_on(circuit: Circuit, log: StepLogState, *, is_drained: bool) -> tuple[tuple[int, ...], tuple[str, ...]]:
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


def totals(before: Sequence[NodeErrors], changes: Mapping[int, ErrorRows]) -> tuple[NodeErrors, ...]:
    """The error rows after a step, of the nodes that have some. `before`: after the step before it. `changes`: of the step, by node."""
    sums = {each.node: ErrorRows(each.rows, int(each.checksum, 16), each.example) for each in before}
    for node, change in changes.items():
        sums[node] = sums.get(node, ErrorRows()).added(change)
    return tuple(
        NodeErrors(node=node, rows=total.rows, checksum=f"{total.checksum:016x}", example=total.example)
        for node, total in sorted(sums.items())
        if not total.is_nothing
    )


def shown(circuit: Circuit, errors: Sequence[NodeErrors]) -> dict[str, str]:
    """The views that have no answer, with the error of one row, for people."""
    found: dict[str, str] = {}
    for each in errors:
        text = f"{max(1, each.rows)} {'row gives' if each.rows <= 1 else 'rows give'} an error, for example: {each.example}"
        for view in sorted(views_behind(circuit, [each.node])):
            found.setdefault(view, text)
    return found


def check_answers(circuit: Circuit, log: StepLogState) -> None:
    """Raises ViewsInError if a view has no answer after the last step."""
    views = shown(circuit, log.errors)
    if not views:
        return
    outputs = sorted(outputs_behind(circuit, log.nodes_in_error))
    texts = "; ".join(f"view {view}: {text}" for view, text in views.items())
    raise ViewsInError(
        f"{len(views)} {'view has' if len(views) == 1 else 'views have'} no answer after step {log.steps - 1}, in Spark neither. {texts}",
        f"All other views are up to date. The outputs {', '.join(outputs)} keep what they had before, and what changes meanwhile is kept in "
        "the state. Send rows that correct or delete these rows, and run again.",
    )
