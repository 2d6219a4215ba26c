"""Two plan documents are compared as the user has chosen, and a choice that means nothing is refused.

A choice that has no effect is refused too: the user has expected one, and it would stand in the records of the transition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator.revisions.carrying import new_columns, why_not_carried, with_more_nulls
from coordinator.revisions.choices import NOTHING_CHOSEN, ChoiceRefused, Chosen, check_known
from coordinator.revisions.columns_had import columns_change_of
from coordinator.revisions.comparison import Comparison
from coordinator.revisions.document import PlanDocument
from coordinator.revisions.facts import PlanFacts
from coordinator.revisions.marks import with_marks_of, with_more_marks
from coordinator.revisions.rereadable import has_table, takes_rows_back
from engine.analysis.marking import sources_below
from engine.model.circuit import Output, View
from engine.model.from_now import handle_of_files


def compare(
    before: PlanDocument, files: PlanDocument, facts: PlanFacts, chosen: Chosen = NOTHING_CHOSEN, *, number: int
) -> Comparison:
    """`files`: the project as the files define it. `number`: of the revision in force. Raises ChoiceRefused."""
    now = with_marks_of(before, files).document(files)
    usual = Comparison(before, now, facts)
    if chosen.is_nothing:
        return usual
    _check_names(usual, files, chosen)
    if chosen.from_now:
        # What a view needs depends on its outputs. A view that counts a source from now on has a part of its own, and rebuilds nothing.
        others = Comparison(before, now, facts, replace(chosen, from_now=()), rebuilds_for_readers=False)
        tables = _to_be_carried(others, chosen.from_now)
        marks = _to_be_marked(others, files, set(chosen.from_now) - tables.keys())
        marked = with_more_marks(before, files, facts, chosen=marks, revision=number + 1)
        now = replace(marked, inputs=with_more_nulls(marked.inputs, tables)).document(files)
    return Comparison(before, now, facts, chosen)


def _check_names(usual: Comparison, files: PlanDocument, chosen: Chosen) -> None:
    topics = {source.table.handle for source in files.inputs if not source.is_table}
    check_known("--from-now", "source over a topic", chosen.from_now, topics)
    check_known("--append", "output", chosen.append_from_now, {*usual.outputs, *usual.topics_now.values()})
    for name in chosen.append_from_now:
        _check_append(usual, name)

    dropped = usual.outputs_dropped
    written = {*usual.outputs, *usual.topics_now.values()}
    for name in chosen.retract:
        if name in written and name not in {*dropped, *dropped.values()}:
            raise ChoiceRefused(
                f"--retract {name}: the project still writes this output.",
                "Leave the option out. It is for an output whose view is dropped, or that has another topic now.",
            )
    check_known("--retract", "output that is dropped", chosen.retract, {*dropped, *dropped.values()})
    for name in chosen.retract:
        output = usual.before.circuit.nodes[usual.dropped_output_of(name)]
        assert isinstance(output, Output)
        if output.mode == "append":
            raise ChoiceRefused(
                f"--retract {name}: the output has the mode append, and such a topic can take no row back.",
                "Leave the option out, and delete the topic when its consumers are done with it.",
            )


def _check_append(usual: Comparison, name: str) -> None:
    index = usual.output_of(name)
    output = usual.now.circuit.nodes[index]
    assert isinstance(output, Output)
    view = usual.now.circuit.nodes[output.inputs[0]]
    assert isinstance(view, View)
    if output.mode != "append":
        raise ChoiceRefused(
            f"--append {name}=from-now: the output has the mode {output.mode}, so it gets what differs.",
            "Leave the option out. It is for outputs with the mode append, which can take no row back.",
        )
    change = columns_change_of(usual, output.handle)
    is_compared = change is not None and not change.is_written(output.mode)
    if index not in usual.new_outputs() and not usual.is_changed(view.name) and not is_compared:
        raise ChoiceRefused(
            f"--append {name}=from-now: view {view.name} is not rebuilt, so the option has no effect.",
            "Leave the option out. `stepwell plan` shows what each output receives.",
        )
    if output.inputs[0] in usual.receiving:
        raise ChoiceRefused(
            f"--append {name}=from-now: view {view.name} reads a view that is kept, and in the step of the switch this receives what differs "
            "in a changed one. These rows belong to the past and cannot be left out.",
            "Leave the option out. If the plan says that rows would have to be taken back, give the output another topic.",
        )


def _to_be_carried(usual: Comparison, handles: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The sources of these that have a table already, each with its new columns. Raises ChoiceRefused if their rows cannot have NULL there."""
    sources = {source.table.handle: source for source in usual.now.inputs}
    carried: dict[str, tuple[str, ...]] = {}
    for handle in handles:
        source = sources[handle]
        if not has_table(source, usual.before):
            continue
        was = usual.former_sources.get(handle)
        why_not = why_not_carried(source, was)
        gets = () if was is None else new_columns(source, was)
        if why_not is None and not gets:
            why_not = "it gets no column"
        if why_not is not None:
            raise ChoiceRefused(
                f"--from-now {handle}: {handle} has a key. Its table has the last message of every key, and new nodes are filled from the "
                f"table, so nothing of it can be left out. The option only gives its rows NULL in new columns, and {why_not}.",
                "Leave the option out. If the table itself has to be read again and its messages are gone, only "
                "`stepwell run --full-refresh` rebuilds it.",
            )
        carried[handle] = gets
    return carried


def _to_be_marked(usual: Comparison, files: PlanDocument, handles: Collection[str]) -> Mapping[str, Collection[str]]:
    """By view, the sources that it is to count from now on: those of these that it would have to read again. Raises ChoiceRefused if a source
    has no such view."""
    marks: dict[str, set[str]] = {}
    for name, index in usual.views.items():
        if usual.found.is_young(index):
            needed = usual.needed_by(usual.members(index))
            read = {handle_of_files(each) for each in needed.handles}
            if found := read & set(handles) & sources_below(files.circuit, name):
                marks[name] = found
    for handle in sorted(handles):
        if not any(handle in found for found in marks.values()):
            raise ChoiceRefused(
                f"--from-now {handle}: no view that is new or rebuilt would read {handle} again, so the option has no effect.",
                "Leave the option out. `stepwell plan` shows where the history of each view comes from.",
            )
        if takes_rows_back(next(source for source in files.inputs if source.table.handle == handle)):
            raise ChoiceRefused(
                f"--from-now {handle}: {handle} is a changelog without a key, so its messages also take back rows from before now. A view that "
                "does not have these rows has no answer then.",
                "Leave the option out. If the messages are gone, declare a key of the source, or rebuild everything with "
                "`stepwell run --full-refresh`.",
            )
    return marks
