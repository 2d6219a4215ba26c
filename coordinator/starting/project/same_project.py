"""Whether the project is the one that the state belongs to.

Guarantees: a state is continued only with a project that computes the same: with the sources that it was made of, into the topics that it was
written to. Otherwise the start is refused before any database is touched, and the fault says which property of which source differs, what is
recorded and what the project says.

A state of a version that did not record its sources adopts those of its next start. Then only the names of the topics can be compared, because
all that were read and written are in the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from coordinator.revisions.continuing import continuing_numbers
from coordinator.revisions.document import PlanDocument, Revision
from coordinator.revisions.leaf_differences import differences
from coordinator.revisions.leaves import leaves_of
from coordinator.revisions.loads import with_recorded_loads
from coordinator.revisions.marks import with_marks_of
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import CircuitChanged, StateLost
from coordinator.starting.project.release import refuse_other_release
from coordinator.starting.project.same_circuit import changed_views, check_same_circuit
from io_kafka.step_log.former_formats import LeavesRecord
from io_kafka.step_log.leaves import Leaves
from io_kafka.step_log.state import StepLogState


def numbers_if_continued(
    spec: PipelineSpec, state: StepLogState, revision: Revision | None, *, may_continue: bool
) -> tuple[int, ...] | None:
    """The numbers of the project's nodes, if it is not that of the state and continues the state as it is. None if it is that of the state, or
    if there is no state. Raises StateLost or CircuitChanged if the state belongs to another project. `revision`: the one in force.
    `may_continue`: whether this run may change the project at all."""
    refuse_former(state)
    try:
        _check_project(spec, state, revision)
    except CircuitChanged:
        if revision is None or not may_continue:
            raise
        # After an abort the last division still counts the error rows of nodes that are gone.
        counted = {*state.counted, *state.nodes_in_error} & {*revision.document.numbers}
        numbers = continuing_numbers(revision.document, spec, counted)
        if numbers is None:
            raise
        return numbers
    return None


def as_recorded(files: PipelineSpec, recorded: PlanDocument) -> PipelineSpec:
    """The project of the files with what only the recorded one knows: the loads of batch tables, and the marks of views."""
    named = replace(files, inputs=with_recorded_loads(files.inputs, recorded.inputs))
    return with_marks_of(recorded, named).spec(named)


def what_differs(files: PipelineSpec, recorded: PlanDocument) -> str:
    """How the project of the files differs from a recorded one; empty if it does not."""
    now = as_recorded(files, recorded)
    differs = list(differences(leaves_of(recorded), leaves_of(now)))
    if not differs and now.circuit.fingerprint != recorded.circuit.fingerprint:
        differs = changed_views(json.loads(recorded.circuit.to_json()), json.loads(now.circuit.to_json()))
    return "; ".join(differs)


def _check_project(spec: PipelineSpec, state: StepLogState, revision: Revision | None) -> None:
    """Raises CircuitChanged unless the state, if there is one, has the leaves and the circuit of the project. The leaves are compared first,
    because a changed type of a column also changes the views above it."""
    now = leaves_of(spec)
    if revision is not None:
        recorded = revision.document
        refuse_other_release(recorded)
        check_leaves(now, leaves_of(recorded), state)
        check_same_circuit(spec.circuit, recorded.circuit.fingerprint, recorded.circuit.to_json())
    elif state.circuit is not None:  # a log of format 2
        check_leaves(now, state.leaves, state)
        check_same_circuit(spec.circuit, state.circuit.fingerprint, state.circuit.text)


def check_leaves(now: Leaves, recorded: Leaves | LeavesRecord | None, state: StepLogState) -> None:
    """Raises CircuitChanged, which names what differs, unless the project has the sources and the topics of the state. `recorded`: None if the
    state was made by a version that did not record them."""
    differs = list(unknown_topics(now, state) if recorded is None else differences(recorded, now))
    if differs:
        raise CircuitChanged(
            f"the project is not the one that the state belongs to; what differs: {'; '.join(differs)}.",
            "`stepwell plan` shows what the change would do, and `stepwell run --apply` makes it. `stepwell run --as-recorded` runs the project "
            "without the change. `stepwell run --full-refresh` takes all output back and rebuilds the state.",
        )


def unknown_topics(now: Leaves, state: StepLogState) -> Iterator[str]:
    """What a log without a record of the leaves shows. Its divisions name all topics that a run has read or written."""
    if not state.topics or state.division_next == 0:
        return
    of_sources = ((f"source {leaf.handle}", "subscribe", name) for leaf in now.sources for name in leaf.topics)
    of_outputs = ((f"output {leaf.handle}", "topic", leaf.topic) for leaf in now.outputs)
    known = ", ".join(sorted(state.topics))
    for owner, what, name in (*of_sources, *of_outputs):
        if name not in state.topics:
            yield f"{owner}: {what} is {name}, which is none of the topics that the state belongs to ({known})"


def refuse_former(state: StepLogState) -> None:
    """Raises StateLost if the state was made by a version of Stepwell with another format of the step log."""
    if state.is_former:
        raise StateLost(
            f"the step log {state.topic} has the records of a former version of Stepwell, whose state this version cannot open.",
            "Run that version, or rebuild the state with `stepwell run --full-refresh`.",
        )
