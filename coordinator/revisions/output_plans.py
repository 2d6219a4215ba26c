"""What the topic of each output receives.

A topic belongs to the view that writes it. Its consumers have keys, a mode and a format, which a change of the project may not
change below them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from coordinator.revisions.columns_had import columns_change_of
from coordinator.revisions.comparison import Comparison
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.plan_parts import OutputKind, OutputPlan, PlanRefusal, RefusalCode
from coordinator.revisions.row_bounds import rows_it_had, rows_of_new_topic, rows_that_differ
from coordinator.revisions.subjects import form_of, subjects_of
from engine.analysis.marking import sources_below
from engine.analysis.topic_columns import ColumnsChange
from engine.model.circuit import Output, View
from engine.model.from_now import handle_of_files

RETRACTS = "rows would have to be taken back"
FROM_SWITCH = "only what the view puts out from the switch on"
TAKES_BACK = {"upsert": "null values", "changelog": "d"}
TELLS_ROWS = {"upsert": "changed keys, and null values for keys that are gone", "changelog": "c, u and d"}


def steps_of(comparison: Comparison) -> str:
    """In how many steps what differs leaves."""
    return "in several steps" if comparison.chosen.gradual else "in one step"


def output_plans(comparison: Comparison) -> Iterator[OutputPlan]:
    """Yields the plans of all outputs of the project, in its order, and then of the topics that it does not write any more."""
    for handle in comparison.outputs:
        yield _Output(comparison, handle).plan()
    for handle, topic in comparison.outputs_dropped.items():
        yield _drop(comparison, handle, topic)


def _drop(comparison: Comparison, handle: str, topic: str) -> OutputPlan:
    index = comparison.outputs_before[handle]
    output = comparison.before.circuit.nodes[index]
    assert isinstance(output, Output)
    view = comparison.before.circuit.nodes[output.inputs[0]]
    assert isinstance(view, View)
    stays = OutputPlan(
        handle=handle,
        topic=topic,
        mode=output.mode,
        view=view.name,
        kind="dropped",
        receives="nothing more; the topic and its rows stay",
    )
    if index not in comparison.chosen_outputs.taken_back:
        return stays
    needed = comparison.needed_to_take_back(index)
    refusals = comparison.refusals_of(needed, f"output {handle}", comparison.before.places.get(view.name, ""))
    if refusals:
        return replace(stays, kind="refused", receives="REFUSED", refusals=refusals)
    rows = rows_it_had(comparison, output.inputs[0])
    most = "" if rows is None else f", at most {rows:,} rows"
    receives = f"all its rows are taken back{most}, as {TAKES_BACK[output.mode]}, {steps_of(comparison)}"
    return replace(stays, kind="taken_back", receives=receives, rows_max=rows)


@dataclass
class _Output:
    comparison: Comparison
    handle: str

    def __post_init__(self) -> None:
        comparison = self.comparison
        self.index = comparison.outputs[self.handle]
        node = comparison.now.circuit.nodes[self.index]
        assert isinstance(node, Output)
        view = comparison.now.circuit.nodes[node.inputs[0]]
        assert isinstance(view, View)
        self.node, self.view = node, view
        self.topic = comparison.topics_now[self.handle]
        self.place = comparison.now.places.get(view.name, "")
        self.steps = steps_of(comparison)

    def plan(self) -> OutputPlan:
        former = self.comparison.topics_before.get(self.topic)
        reason = self.comparison.facts.refused_schemas.get(self.handle)
        if reason is not None:
            way_out = "Give the output another topic, or change the compatibility of the subject"
            return self._plan("refused", "REFUSED", refusals=(self._refusal("refused_schema", reason, way_out),))
        if former is None:
            return self._new_topic()
        old = self.comparison.before.circuit.nodes[self.comparison.outputs_before[former]]
        assert isinstance(old, Output)
        refusals = tuple(self._refusals(old))
        if refusals:
            return self._plan("refused", "REFUSED", refusals=refusals)
        return self._existing(old)

    def _new_topic(self) -> OutputPlan:
        if self.topic in self.comparison.facts.used:
            reason = f"an earlier revision of this pipeline has read or written topic {self.topic}, and the step log counts its messages"
            refusal = self._refusal(
                "topic_of_before", reason, "Name another topic; only a full refresh forgets this one"
            )
            return self._plan("refused", "REFUSED", refusals=(refusal,))
        ends, begins = self.comparison.facts.ends, self.comparison.facts.begins
        held = [where for where, end in ends.items() if where.topic == self.topic and end > begins[where]]
        if held:
            reason = f"topic {self.topic} has messages already, the first in {held[0]} at offset {begins[held[0]]:,}"
            refusal = self._refusal("topic_not_empty", reason, "Name another topic, or delete this one")
            return self._plan("refused", "REFUSED", refusals=(refusal,))
        if self._is_from_switch():
            return self._plan("from_switch", f"new topic: {FROM_SWITCH}")
        readers = self._kept_readers()
        if readers and not self._is_filled() and self.comparison.is_unrecoverable(self.view.name):
            reason = (
                f"what view {self.view.name} has put out over event time depends on how its messages were read, and nothing has stored it, so a "
                f"new topic would have other rows than {', '.join(readers)} has read"
            )
            way_out = "; or ".join([*self._append_from_now(), "leave it with its topic"])
            refusal = self._refusal("append_over_event_time", reason, way_out)
            return self._plan("refused", "REFUSED", refusals=(refusal,))
        needed = self.comparison.needed_by((self.index,))
        refusals = self.comparison.refusals_of(needed, f"output {self.handle}", self.place)
        if refusals:
            return self._plan("refused", "REFUSED", refusals=refusals)
        history = f" ({'; '.join(needed.texts)})" if needed.texts and not self._is_filled() else ""
        rows = None if self._is_filled() else rows_of_new_topic(self.comparison, self.index)
        return self._plan("new_topic", f"new topic: all rows, after the switch{history}", rows_max=rows)

    def _is_from_switch(self) -> bool:
        return self.index in self.comparison.chosen_outputs.from_switch

    def _is_filled(self) -> bool:
        """Whether the view is filled anyway, so that the new topic needs nothing beside it."""
        return self.comparison.found.is_young(self.comparison.views[self.view.name])

    def _kept_readers(self) -> list[str]:
        """The names of the views that read this one and keep their state."""
        below = {self.node.inputs[0]}
        for index, node in enumerate(self.comparison.now.circuit.nodes):
            if not below.isdisjoint(node.inputs):
                below.add(index)
        readers = (name for name, index in self.comparison.views.items() if index in below - {self.node.inputs[0]})
        return sorted(name for name in readers if not self.comparison.found.is_young(self.comparison.views[name]))

    def _existing(self, old: Output) -> OutputPlan:
        comparison, view = self.comparison, self.view.name
        is_changed, is_disturbed = comparison.is_changed(view), self.node.inputs[0] in comparison.found.disturbed
        other_columns = old.names != self.node.names
        columns = " with its other columns" if other_columns else ""
        if self._is_from_switch():
            return self._plan("from_switch", f"{FROM_SWITCH}{columns}")
        change = self._columns
        if change.obstacles and self.node.mode == "upsert":
            gone = f"; and null values for keys that are gone, {self.steps}" if is_changed or is_disturbed else ""
            return self._plan("other_columns", f"all rows once more, because {_why(change)}{gone}")
        if not is_changed and not is_disturbed and (change.is_written(self.node.mode) or self.node.mode != "append"):
            return self._with_other_names(old, change) if other_columns else self._plan("nothing", "nothing")
        if self.node.mode != "append":
            rows = TELLS_ROWS[self.node.mode]
            receives = f"what differs{columns}, as {rows}, {self.steps}"
            most = rows_that_differ(comparison, view) if is_changed else None
            if most is not None:
                receives = f"what differs, at most {most:,} rows, as {rows}, {self.steps}"
            return self._plan("difference", receives, rows_max=most)
        if is_changed and comparison.gains_flows_only(view):
            return self._plan("new_flows", f"the rows of the new flows, {self.steps}")
        if is_changed and (comparison.is_unrecoverable(view) or comparison.reads_event_time(comparison.views[view])):
            return self._plan("refused", "REFUSED", refusals=(self._over_event_time(),))
        return self._plan(
            "append_difference",
            f"rows that were not there{columns}, {self.steps}; held {self._when_held(is_changed=is_changed)}",
            held_if=RETRACTS,
        )

    def _over_event_time(self) -> PlanRefusal:
        comparison, view = self.comparison, self.view.name
        reason = "what an append output over event time has written depends on how its messages were read, so it cannot be compared"
        ways_out = [*self._append_from_now(), "give it another topic"]
        if readers := comparison.readers_rebuilt_for(comparison.members(self.node.inputs[0])):
            reason = (
                f"{', '.join(readers)} would begin to read what {view} computes over event time, and nothing has stored what that has put "
                "out. Computed once more it has other rows than the topic, because other rows are late then"
            )
            sources = sorted(map(handle_of_files, sources_below(comparison.now.circuit, view)))
            ways_out += [f"`--from-now {source}`: what is new then counts it from now on" for source in sources]
        return self._refusal("append_over_event_time", reason, "; or ".join(ways_out))

    def _when_held(self, *, is_changed: bool) -> str:
        """When the switch is held, and the way out. The rows of a kept view that reads a changed one are computed in the step of the switch, and
        cannot be left out. The same holds of what a changed view receives of a kept one."""
        if not is_changed or self.node.inputs[0] in self.comparison.receiving:
            return f"if {RETRACTS}, which is known in the step of the switch: then another topic is the way out"
        known = (
            "if its topic has rows of earlier messages, which --from-now takes back:"
            if self._is_newly_marked()
            else f"if {RETRACTS}, which is known when it is filled: then"
        )
        return f"{known} --append {self.handle}=from-now or another topic is the way out"

    def _is_newly_marked(self) -> bool:
        """Whether the view does not count messages any more of which its topic may have rows."""
        comparison, name = self.comparison, self.view.name
        marks = comparison.before.marks.get(comparison.found.ids.leaves[name], {})
        return comparison.now.marks.get(name, {}) != marks

    def _append_from_now(self) -> list[str]:
        """The option as a way out; nothing if it is refused (chosen_comparison.py)."""
        if self.node.inputs[0] in self.comparison.receiving:
            return []
        return [f"`--append {self.handle}=from-now`: it then gets {FROM_SWITCH}"]

    def _with_other_names(self, old: Output, change: ColumnsChange) -> OutputPlan:
        pairs = zip(old.names, self.node.names, strict=True)
        renamed = ", ".join(f"{was} is {now} now" for was, now in pairs if was != now)
        if change.now.known_by == "place":
            return self._plan("other_columns", f"nothing; {renamed}, and messages have no names of columns")
        if self.node.mode == "append":
            return self._plan("other_columns", f"nothing; in new messages {renamed}")
        return self._plan("other_columns", f"all rows once more, because {renamed}")

    def _refusals(self, old: Output) -> Iterator[PlanRefusal]:
        node, other = self.node, "Give the output another topic"
        writer = self.comparison.before.circuit.nodes[old.inputs[0]]
        assert isinstance(writer, View)
        if writer.name != self.comparison.found.ids.leaves[self.view.name]:
            reason = f"topic {self.topic} is that of view {writer.name}, and view {self.view.name} would write it now"
            is_gone = writer.name not in self.comparison.views
            renamed = "; or, if it is the same view, apply its new name first and its other changes after that"
            yield self._refusal("topic_of_another_view", reason, other + renamed if is_gone else other)
        if node.mode != old.mode:
            yield self._refusal(
                "other_mode", f"the mode of topic {self.topic} was {old.mode}, and is {node.mode} now", other
            )
        keys = [", ".join(each.names[column] for column in each.key) or "none" for each in (old, node)]
        if keys[0] != keys[1]:
            yield self._refusal(
                "other_key", f"the key of topic {self.topic} was {keys[0]}, and is {keys[1]} now", other
            )
        elif _key_types(writer, old) != _key_types(self.view, node):
            yield self._refusal(
                "other_key", f"the columns of the key of topic {self.topic} have other types now", other
            )
        yield from self._refusals_of_columns(other)
        formats = [_format(each) for each in (old, node)]
        if formats[0] != formats[1]:
            reason = f"the format of topic {self.topic} was {formats[0]}, and is {formats[1]} now"
            yield self._refusal("other_format", reason, other)
        elif keys[0] == keys[1] and self._key_schema(old, self.comparison.before) != self._key_schema(
            node, self.comparison.now
        ):
            reason = (
                f"the schema of the keys of topic {self.topic} has the name of the view, which was {old.handle}. Under the name {self.handle} "
                "each row would have another key, and no consumer could tell that the former one is gone"
            )
            yield self._refusal(
                "other_key", reason, f"Call the view {old.handle} again, or give the output another topic"
            )

    def _refusals_of_columns(self, other: str) -> Iterator[PlanRefusal]:
        """Rows of the topic cannot be compared with those of now, and no message replaces them."""
        obstacles = self._columns.obstacles
        if not obstacles or self.node.mode == "upsert" or self._is_from_switch():
            return
        why = {
            "changelog": "A changelog takes rows back as they were written, and these rows cannot be written again",
            "append": "An append topic can take no row back",
        }[self.node.mode]
        ways = [*dict.fromkeys(each.way_out for each in obstacles), other]
        if self.node.mode == "append":
            ways += self._append_from_now()
        reason = f"topic {self.topic} has rows with other columns: {_why(self._columns)}. {why}"
        yield self._refusal("other_format", reason, "; or ".join([ways[0], *(_in_sentence(way) for way in ways[1:])]))

    @property
    def _columns(self) -> ColumnsChange:
        change = columns_change_of(self.comparison, self.handle)
        assert change is not None, "the topic is new"
        return change

    def _key_schema(self, output: Output, document: PlanDocument) -> str | None:
        """The schema that a registry has of the keys. Its id is in each of them."""
        subjects = subjects_of(self.topic, form_of(document.circuit, output), output.written.format)
        return next((each.text for each in subjects if each.name == f"{self.topic}-key"), None)

    def _refusal(self, code: RefusalCode, reason: str, way_out: str) -> PlanRefusal:
        return PlanRefusal(code, f"output {self.handle}", self.place, reason, way_out)

    def _plan(
        self,
        kind: OutputKind,
        receives: str,
        *,
        rows_max: int | None = None,
        held_if: str = "",
        refusals: tuple[PlanRefusal, ...] = (),
    ) -> OutputPlan:
        return OutputPlan(
            handle=self.handle,
            topic=self.topic,
            mode=self.node.mode,
            view=self.view.name,
            kind=kind,
            receives=receives,
            rows_max=rows_max,
            held_if=held_if,
            refusals=refusals,
        )


def _why(change: ColumnsChange) -> str:
    return ", and ".join(each.why for each in change.obstacles)


def _in_sentence(way_out: str) -> str:
    return way_out[0].lower() + way_out[1:]


def _key_types(view: View, output: Output) -> list[str]:
    return [str(view.types[column]) for column in output.key]


def _format(output: Output) -> str:
    more = {name: value for name, value in output.written.recorded_parts().items() if name != "format"}
    options = "".join(f", {name} = {value}" for name, value in sorted(more.items()))
    return output.written.format + options
