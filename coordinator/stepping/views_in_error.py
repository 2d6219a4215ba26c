"""Views in error: which nodes have error rows, whose error rows a step counts, and which outputs are withheld.

    a row of step s gives an error ----> the division of s is recorded again; it counts the error rows of all nodes that can, and withholds
                                         the outputs behind them; all workers go back to the last checkpoint
    step s is written             ----> its record has the error rows of each node
    division of s+1               ----> it counts those of the nodes that have some; the outputs behind the others are released
    ...
    no error rows are left        ----> the next division releases the last outputs

An output is a node too: its format may have no message for a row, although the view has an answer. Then this output alone is withheld.

The step log names nodes by their numbers (engine/model/numbers.py), and a circuit by their indices. All of this is decided from
the step log, without I/O. Why a view in error does not stop the others: docs/decisions/0085.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from engine.analysis.column_names import input_names, with_names
from engine.analysis.withholding import (
    countable,
    outputs_behind,
    outputs_by_number,
    views_behind,
    withholding_of,
)
from engine.errors import DataError
from engine.model.circuit import Output, View
from engine.model.numbers import NumberedCircuit
from engine.model.withholding import Withholding
from engine.operators.error_rows import ErrorRows, add_all
from engine.run.stage import name_of
from io_kafka.step_log.records import DivisionRecord, NodeErrors, StepRecord
from io_kafka.step_log.state import StepLogState


class ViewsInError(DataError):
    """A run that reads what is there has ended, and some views have no answer over it. The others are up to date."""


def can_count(numbered: NumberedCircuit, log: StepLogState, record: DivisionRecord, fault: DataError) -> bool:
    """Whether the step can count the rows that gave this error, instead of ending. A step that is replayed counts what it counted before."""
    if not fault.is_of_rows or fault.place is not None or fault.node is None or record.step < log.steps:
        return False
    return numbered.numbers[fault.node] not in record.counted and fault.node in countable(numbered.circuit)


def count_all(numbered: NumberedCircuit, epoch: int, record: DivisionRecord) -> DivisionRecord:
    """The division of a step, recorded again so that no error of a row ends it. It counts the error rows of all nodes that can, because rows of
    other views may give errors too, and each would cost a recovery of its own."""
    counted = numbered.numbers_of(countable(numbered.circuit)) | set(record.counted)
    return record.with_counted(epoch, tuple(sorted(counted)), _outputs_behind(numbered, counted))


class Counting(NamedTuple):
    """What the next division decides: the nodes whose error rows it counts, by number, and the outputs that it releases, by handle."""

    counted: tuple[int, ...]
    released: tuple[str, ...]


def next_counting(
    numbered: NumberedCircuit, log: StepLogState, *, is_drained: bool, before: NumberedCircuit | None = None
) -> Counting:
    """The nodes whose error rows the next division counts, and the outputs that it releases. If steps before it are not written yet
    (`is_drained` is False), these are the nodes of the division before it, because such a step may find error rows. `before`: the circuit of
    the division before it, if that is another one."""
    if not is_drained:
        return Counting(tuple(node for node in log.counted if numbered.index(node) is not None), ())
    still = tuple(node for node in log.counted if node in log.nodes_in_error and numbered.index(node) is not None)
    withheld = outputs_by_number(before or numbered, log.counted)
    released = {handle for number, handle in outputs_by_number(numbered).items() if number in withheld}
    return Counting(still, tuple(sorted(released - _outputs_behind(numbered, still))))


def is_release_due(counted: Sequence[int], errors: Sequence[NodeErrors]) -> bool:
    """Whether the next division has to count the error rows of fewer nodes than the last one, which is decided at a drained boundary.
    `counted`: the nodes of the last division. `errors`: after the last step."""
    return not set(counted) <= {each.node for each in errors}


def withholding_of_step(numbered: NumberedCircuit, record: DivisionRecord) -> Withholding:
    """What the step of a division withholds and counts, by the nodes that the division counts and the outputs that it releases."""
    return withholding_of(numbered.circuit, numbered.indices(record.counted), record.released)


def _outputs_behind(numbered: NumberedCircuit, numbers: Iterable[int]) -> frozenset[str]:
    return outputs_behind(numbered.circuit, numbered.indices(numbers))


def _views_behind(numbered: NumberedCircuit, numbers: Iterable[int]) -> frozenset[str]:
    return views_behind(numbered.circuit, numbered.indices(numbers))


def errors_after(
    numbered: NumberedCircuit,
    step: int,
    before: Sequence[NodeErrors],
    changes: Mapping[int, ErrorRows],
    *,
    revision_since: int = 0,
) -> tuple[NodeErrors, ...]:
    """The error rows after `step`, of the nodes that have some. `before`: after the step before it, of which those of nodes that the circuit
    lacks end here. `changes`: of the step, by the index of the node. `revision_since`: the first step of the revision in force."""
    there = [each for each in before if numbered.index(each.node) is not None]
    since = {each.node: each.since for each in there}
    sums = {each.node: ErrorRows(each.rows, int(each.checksum, 16), each.example) for each in there}
    add_all(sums, {numbered.numbers[index]: change for index, change in changes.items()})
    found = (
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
    return tuple(each for each in found if not _have_ended(each, revision_since))


def _have_ended(errors: NodeErrors, revision_since: int) -> bool:
    """Whether no row is in error any more, although the checksum is not 0. Rows that came before the revision in force and go now can have other
    columns, or the same ones in another order, than when they came, if a source or a view that the node reads has other ones now. So their
    checksums do not cancel. Their number does."""
    return errors.rows == 0 and errors.since < revision_since


def without_absent_nodes(numbered: NumberedCircuit, record: StepRecord, revision_since: int) -> StepRecord:
    """A step's record without the error rows of nodes that the circuit lacks. They are those of new nodes, if a transition was given up after
    the step: its replay runs the former project alone. A former release also recorded error rows that were over. `revision_since`: see
    `errors_after`."""
    errors = (each for each in record.errors if numbered.index(each.node) is not None)
    return record.model_copy(update={"errors": tuple(each for each in errors if not _have_ended(each, revision_since))})


def errors_before(log: StepLogState, step: int) -> tuple[NodeErrors, ...] | None:
    """The error rows in the state before this step. In a replay that is an earlier step than the next one of the log. None if the log has
    forgotten the step before it: then no step has run since the checkpoint that the databases were opened at."""
    if step == log.steps:
        return log.errors
    if step == 0:
        return ()
    record = log.step_records.get(step - 1)
    return None if record is None else record.errors


def views_before(numbered: NumberedCircuit, log: StepLogState, step: int) -> frozenset[str] | None:
    """The views that have no answer in the state before this step; None if the databases know better."""
    errors = errors_before(log, step)
    return None if errors is None else _views_behind(numbered, (each.node for each in errors))


Sources = Mapping[str, Sequence[str]]
"""The names of the columns of the sources, by handle."""


def error_texts(numbered: NumberedCircuit, errors: Sequence[NodeErrors], sources: Sources) -> dict[str, str]:
    """The views that have no answer, and the outputs with rows that have no message, with the error of one row, for users."""
    found: dict[str, str] = {}
    for each in errors:
        name = _name(numbered, each)
        for behind in [name] if _is_output(numbered, each) else _views_behind(numbered, [each.node]):
            found.setdefault(behind, f"{name}, step {each.since}: {_example(numbered, each, sources)}")
    return dict(sorted(found.items()))


def error_rows(numbered: NumberedCircuit, errors: Sequence[NodeErrors]) -> dict[str, int]:
    """How many rows give an error, by the name for users of what they belong to."""
    found: dict[str, int] = {}
    for each in errors:
        name = _name(numbered, each)
        found[name] = found.get(name, 0) + each.rows
    return found


def _is_output(numbered: NumberedCircuit, errors: NodeErrors) -> bool:
    index = numbered.index(errors.node)
    return index is not None and isinstance(numbered.circuit.nodes[index], Output)


def _name(numbered: NumberedCircuit, errors: NodeErrors) -> str:
    index = numbered.index(errors.node)
    return f"node {errors.node}" if index is None else name_of(numbered.circuit, index)


def _example(numbered: NumberedCircuit, errors: NodeErrors, sources: Sources) -> str:
    index = numbered.index(errors.node)
    example = (
        errors.example if index is None else with_names(errors.example, input_names(numbered.circuit, sources, index))
    )
    return example if errors.rows <= 1 else f"{example} ({errors.rows} rows have an error.)"


def check_answers(numbered: NumberedCircuit, log: StepLogState, sources: Sources) -> None:
    """Raises ViewsInError if a view has no answer, or an output no message for a row, after the last step. It is located at the first."""
    errors = [
        each for each in log.errors if numbered.index(each.node) is not None
    ]  # others are of nodes that are filled
    if not errors:
        return
    outputs = _outputs_behind(numbered, log.nodes_in_error)
    first, *later = errors
    texts = [_example(numbered, first, sources)]
    texts += [f"Also {_name(numbered, each)}, step {each.since}: {_example(numbered, each, sources)}" for each in later]
    # A view of which two rows have one key has an answer in Spark.
    nodes = numbered.indices(log.nodes_in_error)
    here_alone = {index for index in nodes if isinstance(numbered.circuit.nodes[index], View)}
    in_spark_too = views_behind(numbered.circuit, nodes - here_alone)
    others = views_behind(numbered.circuit, here_alone) - in_spark_too
    texts += [f"Without an answer, in Spark too: {', '.join(sorted(in_spark_too))}."] if in_spark_too else []
    texts += [f"Without an answer here: {', '.join(sorted(others))}."] if others else []
    until_then = f" Until then what changes in {', '.join(sorted(outputs))} is kept in the state." if outputs else ""
    raise ViewsInError(
        " ".join(texts),
        "All other views are up to date. Correct or delete these rows and run again, or guard against them in the view (CASE, nullif, "
        f"try_cast).{until_then}",
    ).locate(owner=_name(numbered, first), step=first.since)
