"""What another project would do to the state and the outputs of a pipeline: the answer of `stepwell plan`.

It is a function of the two plan documents and a few facts. Nothing is read from Kafka or from state here, and nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from coordinator.revisions.choices import NOTHING_CHOSEN, Chosen
from coordinator.revisions.chosen_comparison import compare
from coordinator.revisions.columns_had import outputs_after
from coordinator.revisions.comparison import Comparison
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.output_plans import output_plans
from coordinator.revisions.plan_parts import OutputPlan, PlanRefusal, SourcePlan, ViewPlan
from coordinator.revisions.source_plans import source_plans
from coordinator.revisions.view_plans import view_plans
from engine.analysis.numbering import numbers_after
from engine.model.numbers import TooManyNodes


@dataclass(frozen=True, kw_only=True)
class Planned:
    """`refusals`: all of them, each once. `kept_with_state`: how many of the `with_state` nodes of the revision in force keep their state.
    `kept_share`: that share of the state, by what `share_of` says. `rows`: how many messages and rows of state are read at most, each
    once; None if unknown. `disk_bytes`: about how much more disk is needed until the change is settled; None if unknown. `gradual`: what differs
    leaves in several steps. `is_in_force`: the revision in force is this project, with the lines of its files and all policies."""

    sources: tuple[SourcePlan, ...]
    views: tuple[ViewPlan, ...]
    outputs: tuple[OutputPlan, ...]
    refusals: tuple[PlanRefusal, ...]
    kept_with_state: int
    with_state: int
    kept_share: float
    share_of: Literal["bytes", "nodes"]
    rows: int | None
    disk_bytes: int | None
    gradual: bool
    is_in_force: bool

    @property
    def is_nothing(self) -> bool:
        """Whether nothing would be filled, written, lost or refused."""
        return (
            not self.refusals
            and self.kept_with_state == self.with_state
            and all(view.kind in ("kept", "renamed") for view in self.views)
            and all(output.kind == "nothing" for output in self.outputs)
            and not any(source.table for source in self.sources)
        )

    @property
    def can_be_applied(self) -> bool:
        return not self.refusals

    @property
    def dropped(self) -> tuple[str, ...]:
        return tuple(view.name for view in self.views if view.kind == "dropped")

    def to_json(self) -> dict[str, Any]:
        return {
            "is_nothing": self.is_nothing,
            "is_in_force": self.is_in_force,
            "can_be_applied": self.can_be_applied,
            "sources": [source.to_json() for source in self.sources],
            "views": [view.to_json() for view in self.views],
            "outputs": [output.to_json() for output in self.outputs],
            "refused": [refusal.to_json() for refusal in self.refusals],
            "kept_with_state": self.kept_with_state,
            "with_state": self.with_state,
            "kept_share": self.kept_share,
            "kept_share_of": self.share_of,
            "rows": self.rows,
            "disk_bytes": self.disk_bytes,
            "gradual": self.gradual,
        }


def plan_change(
    before: PlanDocument, files: PlanDocument, facts: PlanFacts, chosen: Chosen = NOTHING_CHOSEN, *, number: int = 1
) -> Planned:
    """What the project of the files would do where `before` is in force, which is revision `number`. Raises ChoiceRefused."""
    facts.check()
    return planned_of(compare(before, files, facts, chosen, number=number))


def planned_of(comparison: Comparison) -> Planned:
    sources, views = tuple(source_plans(comparison)), tuple(view_plans(comparison))
    outputs = tuple(output_plans(comparison))
    refusals = [each for source in sources for each in source.refusals]
    refusals += [each for view in views for each in view.refusals]
    refusals += [each for output in outputs for each in output.refusals]
    refusals += _too_many(comparison)
    kept = comparison.with_state_before & set(comparison.found.kept.values())
    share, share_of = _share(comparison, kept)
    return Planned(
        sources=sources,
        views=views,
        outputs=outputs,
        refusals=tuple(dict.fromkeys(refusals)),
        kept_with_state=len(kept),
        with_state=len(comparison.with_state_before),
        kept_share=share,
        share_of=share_of,
        rows=None if refusals else _rows(comparison),
        disk_bytes=_disk_bytes(comparison, views),
        gradual=comparison.chosen.gradual,
        is_in_force=_is_in_force(comparison),
    )


def _is_in_force(comparison: Comparison) -> bool:
    before, now = comparison.before, replace(comparison.now, outputs=outputs_after(comparison))
    same_rows = before.circuit.fingerprint == now.circuit.fingerprint and before.revisions == now.revisions
    return same_rows and (before.inputs, before.outputs, before.places) == (now.inputs, now.outputs, now.places)


def _too_many(comparison: Comparison) -> list[PlanRefusal]:
    try:
        numbers_after(comparison.found, comparison.before.numbers)
    except TooManyNodes as error:
        return [
            PlanRefusal("too_many_nodes", "project", "", str(error), "Change it in several parts, one after the other")
        ]
    return []


def _share(comparison: Comparison, kept: frozenset[int] | set[int]) -> tuple[float, Literal["bytes", "nodes"]]:
    sizes = comparison.facts.bytes
    if sizes is not None and (every := _bytes(comparison, comparison.with_state_before)):
        return _bytes(comparison, kept) / every, "bytes"
    every_node = len(comparison.with_state_before)
    return (len(kept) / every_node if every_node else 1.0), "nodes"


def _bytes(comparison: Comparison, previous: frozenset[int] | set[int]) -> int:
    sizes = comparison.facts.bytes or {}
    return sum(sizes.get(comparison.before.numbers[index], 0) for index in previous)


def _rows(comparison: Comparison) -> int | None:
    needed = comparison.needed_by(comparison.histories.of)
    for name in comparison.views:
        if comparison.is_changed(name) and comparison.needs_old_content(name):
            needed = needed.with_more(comparison.needed_by((), comparison.previous(name)))
    for output in sorted(comparison.chosen_outputs.taken_back):
        needed = needed.with_more(comparison.needed_to_take_back(output))
    return comparison.rows_of(needed)


def _disk_bytes(comparison: Comparison, views: tuple[ViewPlan, ...]) -> int | None:
    """What the new nodes of the changed views need is taken to be what their former nodes have. Of a new view nothing is known."""
    if comparison.facts.bytes is None or any(view.kind == "new" for view in views):
        return None
    changed = [name for name in comparison.views if comparison.is_changed(name)]
    former = [previous for name in changed if (previous := comparison.previous(name)) is not None]
    lost = {index for previous in former for index in comparison.nodes_lost(previous)}
    return _bytes(comparison, lost)
