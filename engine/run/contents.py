"""Reads what the kept views of one worker hold, as of its last complete checkpoint.

Guarantee: all views of one answer belong to the version that is returned with them. Any process of the worker's host may read, whether the
database is open or not, and while steps and folds run: the committed layer alone is read, in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from base.slots import SlotSet
from base.version import VersionId
from engine.analysis.content import content_of, is_readable_view
from engine.analysis.retraction import append_only_inputs
from engine.analysis.stages import StagePlan
from engine.errors import DataError
from engine.expressions.functions.function import shown_row
from engine.model.circuit import View
from engine.operators.aggregate_errors import negative_row
from engine.operators.context import StepContext
from engine.operators.facts import DivisionFacts, RunFacts, StepFacts
from engine.rows import zset
from storage.database import Database


@dataclass(frozen=True)
class WorkerContents:
    """What one worker holds of some views as of `version`: one table for each view, with its column names; a row of weight n occurs n times.
    `owned`: the slots that the worker owns in this version."""

    version: VersionId
    owned: SlotSet
    tables: Sequence[pa.Table]


def read_views(
    database: Path, plan: StagePlan, numbers: tuple[int, ...], names: Sequence[str], *, checks_errors: bool
) -> WorkerContents:
    """The contents of the named views. `numbers`: of the nodes of the circuit. The tables are copies. `checks_errors`: whether the database
    knows which of the views have no answer, as it does of those of the revision in force. Raises DataError for such a view,
    and for one that this release cannot read, KeyError for a name that is no view, and StorageError."""
    circuit = plan.circuit
    nodes = {node.name: (index, node) for index, node in circuit.nodes_of(View).items()}
    asked = [nodes[name] for name in names]
    run = RunFacts(numbers, append_only_inputs(circuit), partitions={}, schema_ids={})  # nothing is written
    with Database.read_committed(database) as (version, transaction):
        owned, in_error = transaction.get_owned(), transaction.get_in_error()
        for name in names:
            if checks_errors and name in in_error:
                raise _no_answer(name, version.step - 1)
            if not is_readable_view(circuit, nodes[name][0]):
                raise _stands_still(name, version.step - 1)
        step = StepFacts(DivisionFacts(number=version.step), plan.input_colocation, owns_keyless=0 in owned)
        context_of = partial(StepContext, run, step, transaction)
        tables = [_rows(content_of(circuit, index, context_of), node, version.step - 1) for index, node in asked]
        return WorkerContents(version, owned, tables)


def _no_answer(view: str, step: int) -> DataError:
    return DataError(
        "an expression raises for some of its rows, so it has no answer as of this step.",
        "`stepwell status` shows the error. Correct or delete the rows, or guard against them in the view (CASE, nullif, try_cast).",
    ).locate(owner=f"view {view}", step=step)


def _stands_still(view: str, step: int) -> DataError:
    return DataError(
        "another version of Stepwell has computed it, and this one would read other rows from its state.",
        "Ask again when the transition to the next revision is made.",
    ).locate(owner=f"view {view}", step=step)


def _rows(scanned: pa.Table, node: View, step: int) -> pa.Table:
    """Returns the rows of a view. They are copied, because they outlive the transaction."""
    weights = scanned.columns[-1].to_numpy()
    if (weights < 0).any():
        at = int(np.flatnonzero(weights < 0)[0])
        raise negative_row(shown_row(node.names, scanned.columns[:-1], at)).locate(owner=f"view {node.name}", step=step)
    repeated = zset.take_rows(scanned, np.repeat(np.arange(scanned.num_rows), weights))
    return repeated.select(range(len(node.names))).rename_columns(list(node.names))
