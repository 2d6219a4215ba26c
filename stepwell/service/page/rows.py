"""The first rows of a kept view, as of the last checkpoint, for a page of their own. They are read when somebody asks, and never otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import pyarrow as pa

from base.sizes import size_text
from coordinator.checkpoints.view_rows import ViewRows
from engine.model.circuit import Circuit, View
from stepwell.errors import StepwellError
from stepwell.service.page.texts import cut, table

ROWS_MAX = 200
"""More rows than that are for `stepwell query`, which can choose and sort."""

STATE_BYTES_MAX = 64 << 20
"""The workers send the whole view, and the service holds it for a moment. A larger one would be felt by the steps."""

VALUE_CHARACTERS_MAX = 200


class NoRows(StepwellError):
    """The page cannot show the rows of a view."""


def kept_views(circuit: Circuit | None) -> dict[str, View]:
    """The views whose content can be read, by name."""
    views = () if circuit is None else circuit.nodes_of(View).values()
    return {node.name: node for node in views if node.kept}


def view_to_read(
    name: str, circuit: Circuit | None, state_bytes: Mapping[str, int], worker_bytes: Mapping[str, int]
) -> View:
    """Raises NoRows if there is no such view, or if it is too large. `state_bytes`: by table, as this run's last checkpoint has measured;
    nothing before the first. `worker_bytes`: of all that each worker has, which is known from the start and bounds each view."""
    view = kept_views(circuit).get(name)
    if view is None:
        raise NoRows(f"there is no kept view {name}", "The page has those that there are.")
    size = state_bytes.get(f"view {name}")
    if size is None and (not worker_bytes or sum(worker_bytes.values()) > STATE_BYTES_MAX):
        raise NoRows(
            f"the size of the view {name} is not known yet, and the page shows views of at most {size_text(STATE_BYTES_MAX)}",
            "Ask again after the next checkpoint, or use `stepwell query` with a LIMIT or a WHERE.",
        )
    if size is not None and size > STATE_BYTES_MAX:
        raise NoRows(
            f"the view {name} has {size_text(size)} of state, and the page shows views of at most {size_text(STATE_BYTES_MAX)}",
            "Use `stepwell query` with a LIMIT or a WHERE.",
        )
    return view


def rows_table(view: str, found: ViewRows) -> str:
    """The HTML of the first rows. `found`: of this view alone."""
    (parts,) = found.parts
    tables = [pa.ipc.open_stream(part).read_all() for part in parts]
    total, left = sum(each.num_rows for each in tables), ROWS_MAX
    rows: list[list[str]] = []
    for each in tables:
        some = each.slice(0, left)
        left -= some.num_rows
        rows += [
            [_cell(value) for value in row]
            for row in zip(*(column.to_pylist() for column in some.columns), strict=True)
        ]
    what = f"{total:,} rows" if total == len(rows) else f"the first {len(rows):,} of {total:,} rows"
    return table(f"{what}, in no order, before step {found.version.step:,}", tables[0].column_names, rows)


def _cell(value: Any) -> str:
    return "<i>NULL</i>" if value is None else escape(cut(str(value), VALUE_CHARACTERS_MAX))
