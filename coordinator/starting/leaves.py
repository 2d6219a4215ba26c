"""The sources and the outputs' topics that a state belongs to, compared with those of the project.

Guarantees: a state is continued only with the sources that it was made of, and only into the topics that it was written to. Otherwise the start
is refused before any database is touched, and the fault says which property of which source differs, what is recorded and what the project says.

A state that was made by a version without this record adopts the sources of its next start. Then only the names of the topics can be compared,
because all that were read and written are in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.revisions.leaves import differences, leaves_of
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import CircuitChanged
from io_kafka.step_log.leaves import LeavesRecord
from io_kafka.step_log.state import StepLogState

WHAT_TO_DO = "Change it back, or take all output back and rebuild the state with `stepwell run --full-refresh`."


def check_leaves(spec: PipelineSpec, state: StepLogState) -> None:
    """Raises CircuitChanged, which names what differs, unless the project has the sources and the topics of the state."""
    now = leaves_of(spec, state.epoch)
    recorded = state.leaves
    differs = list(unknown_topics(now, state) if recorded is None else differences(recorded, now))
    if differs:
        raise CircuitChanged(
            f"the project is not the one that the state belongs to; what differs: {'; '.join(differs)}.", WHAT_TO_DO
        )


def unknown_topics(now: LeavesRecord, state: StepLogState) -> Iterator[str]:
    """What a log without a record of the leaves shows. Its divisions name all topics that a run has read or written."""
    if not state.topics or state.division_next == 0:
        return
    of_sources = ((f"source {leaf.handle}", "subscribe", name) for leaf in now.sources for name in leaf.topics)
    of_outputs = ((f"output {leaf.handle}", "topic", leaf.topic) for leaf in now.outputs)
    known = ", ".join(sorted(state.topics))
    for owner, what, name in (*of_sources, *of_outputs):
        if name not in state.topics:
            yield f"{owner}: {what} is {name}, which is none of the topics that the state belongs to ({known})"
