"""Which project a run begins with: that of the files, or the recorded one, to which that of the files may be applied later.

The files are not needed to go on with a transition that is under way. Otherwise the user has said what is to be done if they have another
project than the state belongs to (OnChange).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import structlog

from base.on_change import OnChange
from coordinator.revisions.choices import Chosen
from coordinator.revisions.document import Revision
from coordinator.revisions.former import former_project
from coordinator.revisions.loads import with_recorded_loads
from coordinator.revisions.marks import with_marks_of
from coordinator.revisions.recorded import nothing_to_keep
from coordinator.revisions.requests import ApplyRequest, second_transition
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import CircuitChanged
from coordinator.starting.release import check_transition_of_release, refuse_other_release
from coordinator.starting.same_project import numbers_if_continued, refuse_former
from io_kafka.step_log.state import StepLogState

_log = structlog.get_logger("coordinator.starting.beginning")


@dataclass(frozen=True)
class Beginning:
    """`spec`: the project that runs. `is_recorded`: it is the one in force, whatever the files have. `to_apply`: what is to be asked for as soon
    as it runs."""

    spec: PipelineSpec
    is_recorded: bool = False
    to_apply: ApplyRequest | None = None


def beginning(
    files: PipelineSpec, revision: Revision | None, state: StepLogState, on_change: OnChange, chosen: Chosen
) -> Beginning:
    """`revision`: the one in force. Raises NothingRecorded, TransitionRefused, CircuitChanged and StateLost if the run cannot begin as the user
    wants it. A project of the files that does not continue the state is refused by `numbers_if_continued`."""
    if revision is None:
        if on_change == "keep":
            raise nothing_to_keep(files.name)
        return Beginning(files)
    found = _choose(files, revision, state, on_change, chosen)
    if found.is_recorded:
        _check_release(revision, state, on_change)
    return found


def _choose(
    files: PipelineSpec, revision: Revision, state: StepLogState, on_change: OnChange, chosen: Chosen
) -> Beginning:
    named = replace(files, inputs=with_recorded_loads(files.inputs, revision.document.inputs))
    marked = with_marks_of(revision.document, named).spec(named)
    to_apply: ApplyRequest | None = None
    if (phase := state.revisions.phase) is not None:
        if chosen.reload:
            raise second_transition(phase.intent.number)
        why = "a transition is under way, so the run goes on with the recorded projects"
    elif on_change == "keep":
        why = "the run goes on with the recorded project, whatever is in the files"
    elif on_change == "apply" and (chosen.reload or _is_another(marked, revision, state)):
        why = "the files have another project, which is applied as soon as the recorded one runs"
        to_apply = ApplyRequest(files, hold=False, chosen=chosen)
    else:
        if not chosen.is_nothing:
            _log.warning("the files have no change to which --from-now, --append or --retract could apply")
        return Beginning(marked)
    if not chosen.is_nothing and to_apply is None:
        _log.warning("--from-now, --append and --retract have no effect", because=why)
    _log.info(why, revision=revision.number)
    return Beginning(former_project(revision.document, files), is_recorded=True, to_apply=to_apply)


def _is_another(spec: PipelineSpec, revision: Revision, state: StepLogState) -> bool:
    """Whether the project of the files cannot continue the state as it is."""
    try:
        numbers_if_continued(spec, state, revision, may_continue=True)
    except CircuitChanged:
        return True
    return False


def _check_release(revision: Revision, state: StepLogState, on_change: OnChange) -> None:
    """Refuses to run the recorded project if this release cannot."""
    refuse_former(state)
    document = revision.document
    if not document.frozen:
        return
    if on_change == "keep" and state.revisions.phase is None:
        refuse_other_release(document)
    check_transition_of_release(revision, state)
    _log.warning(
        "another release has recorded the project, and views stand still until the transition is made",
        views=document.views_standing_still,
        because=document.why_frozen,
    )
