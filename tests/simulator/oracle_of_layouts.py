"""What must hold of the layouts in the log of a world, and of the owners that its checkpoints name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from tests.simulator.oracle_of_store import StoreOracle
from tests.simulator.stored_databases import SLOTS, Owners, Version, is_in, owners_of


class LayoutOracle:
    """The layouts, and the versions with their owners. `reported`: the hosts of the databases that the candidates of a term have told of, by
    number."""

    def __init__(self, store: StoreOracle | None, seen: dict[str, int]) -> None:
        self._store, self._seen = store, seen
        self.owners: dict[Version, Owners] = {}
        self.layout: Owners | None = None
        self.layouts = 0
        self.changing = False
        self.complete: Version | None = None
        self.intended: set[Version] = set()
        self.reported: dict[tuple[int, int], dict[int, set[str]]] = {}
        self.planned: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
        """Of the change under way: the term that began it, and the slots that are to move. None if it got another target."""
        self.moved: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """By term: the slots that its cuts have moved in the change under way."""

    def begin(self, record: Mapping[str, Any]) -> None:
        """A change of the layout is intended."""
        assert not self.changing, "two changes of the layout at once"
        self.changing = True
        self._seen["changes"] += 1
        assert self.layout is not None
        self.planned = max(self.reported), _leaving(self.layout, record["target"]["ranges"])
        self.moved = {}

    def turn(self) -> None:
        """The change under way gets another target."""
        assert self.changing, "a turn without a change"
        self.planned = None
        self._seen["turns"] += 1

    def settle(self, record: Mapping[str, Any]) -> None:
        """A layout is recorded: the first one, that of a change that has ended, or that of a version that was restored."""
        owners = owners_of(record["placed"])
        assert record["number"] == self.layouts, f"layout {record['number']} after {self.layouts} layouts"
        if record["outcome"] == "restored":
            assert self._store is not None and self._store.stored is not None, "nothing is stored"
            assert owners == self.owners[self._store.stored], (
                "the restored layout has not the owners of the stored version"
            )
            self._store.seen["layouts restored"] += 1
            self.layout, self.changing, self.planned = owners, False, None
            self.layouts += 1
            return
        assert self.changing or self.layout in (None, owners), "slots have other owners without a change"
        if self.layout is not None and self.changing:
            assert self.complete is not None and self.owners[self.complete] == owners, "a layout unlike its checkpoint"
            self._seen["settled"] += 1
            self._check_moved()
        self.layout, self.changing = owners, False
        self.layouts += 1

    def gave(self, term: tuple[int, int], spans: Iterable[tuple[int, int]]) -> None:
        """A cut was made in this term."""
        self.moved.setdefault(term, []).extend(spans)
        self._seen["given"] += 1

    def _check_moved(self) -> None:
        """A change that no turn and no recovery has disturbed has moved what was planned, and each slot once."""
        if self.planned is not None and max(self.reported) == self.planned[0]:
            term, planned = self.planned
            moved = sorted(self.moved.get(term, []))
            assert all(a[1] <= b[0] for a, b in pairwise(moved)), f"slots have moved twice: {moved}"
            assert _joined(moved) == _joined(planned), f"{moved} have moved, and {planned} were planned"
            self._seen["as planned"] += 1

    def intend(self, version: Version, owners: Owners) -> None:
        """A checkpoint with these owners is intended."""
        self.intended.add(version)
        assert self.layout is not None
        assert self.changing or owners == self.layout, f"{version} has other owners than the layout"
        for worker, (birth, _) in owners.items():
            assert self.layout.get(worker, (birth, []))[0] == birth or self.changing, f"{worker} has another birth"
        self.owners[version] = owners

    def owners_of_complete(self, version: Version) -> Owners:
        """Returns the owners of a version that is complete. They cover all slots once."""
        assert version in self.intended, f"{version} is complete without having been intended"
        owners = self.owners[version]
        covered = sorted(span for _, spans in owners.values() for span in spans)
        assert covered[0][0] == 0 and covered[-1][1] == SLOTS, f"{version}: {covered}"
        assert all(a[1] == b[0] for a, b in pairwise(covered)), f"{version}: {covered}"
        return owners


def _leaving(before: Owners, ranges: list[list[int]]) -> list[tuple[int, int]]:
    """The slots that have another owner in the target, whose ranges these are."""
    edges = sorted(
        {0, SLOTS, *(first for first, _ in ranges), *(edge for _, spans in before.values() for edge in sum(spans, ()))}
    )
    found = []
    for first, end in pairwise(edges):
        owner = next(worker for worker, (_, spans) in before.items() if is_in(first, spans))
        if owner != max((start, worker) for start, worker in ranges if start <= first)[1]:
            found.append((first, end))
    return found


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same slots in as few ranges as possible."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if found and found[-1][1] == first:
            first = found.pop()[0]
        found.append((first, end))
    return found
