"""What the outputs of a project hold, as a batch run over all of the input gives it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from tests.simulator.circuit import GROUPS, SUMS, TALLIES, WRONG, Project

Sums = dict[str, tuple[int, int]]
View = dict[bytes, bytes]


def views_of(project: Project, sums: Sums, others: Sums) -> dict[str, View]:
    """What the outputs hold, as a batch run of the project gives it. `others`: the sums over the other topic."""
    shown = {key: total * project.factor for key, (_, total) in sums.items()}
    rows = {
        key: (count, shown[key])
        for key, (count, _) in sums.items()
        if key != WRONG and (not project.odd or count % 2 == 1)
    }
    shown_rows = {key.encode(): json.dumps(row).encode() for key, row in rows.items()}
    views = {SUMS: shown_rows, GROUPS: groups_of(project, shown_rows)}
    if project.scale:
        tallies: dict[str, tuple[int, int]] = dict(sums)
        for key, (count, total) in others.items() if project.other else ():
            known = tallies.get(key, (0, 0))
            tallies[key] = known[0] + count, known[1] + total
        views[TALLIES] = {
            key.encode(): json.dumps((count, total * project.scale)).encode()
            for key, (count, total) in tallies.items()
            if count or total
        }
    return views


def groups_of(project: Project, sums: View) -> View:
    """`sums`: what the view of the sums holds."""
    groups: dict[int, list[int]] = {}
    for row in sums.values():
        _, total = json.loads(row)
        found = groups.setdefault(total % project.modulus, [0, 0])
        found[0] += 1
        found[1] += total
    return {b"%d" % group: json.dumps(row).encode() for group, row in groups.items()}


def summed(rows: Iterable[tuple[str, int, int]]) -> Sums:
    sums: dict[str, list[int]] = {}
    for key, number, weight in rows:
        found = sums.setdefault(key, [0, 0])
        found[0] += weight
        found[1] += number * weight
    return {key: (count, total) for key, (count, total) in sums.items() if count or total}
