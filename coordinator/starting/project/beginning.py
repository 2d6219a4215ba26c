"""Which project a run begins with: that of the files, or the recorded one, to which that of the files may be applied later.

The user has said what is to be done if the files have another project than the state belongs to (OnChange). A transition that is under way goes
on in any case, with the recorded projects. A change of the files that is to be applied is refused meanwhile (transition_found.py), unless the
transition has come to its end and has only to be settled: then the change is applied after that.
"""

from __future__ import annotations

from dataclasses import dataclass

from base.logger import Logger
from base.on_change import OnChange
from coordinator.revisions.choices import Chosen
from coordinator.revisions.document import Revision
from coordinator.revisions.project_of_revision import project_of_revision
from coordinator.revisions.recorded_project import nothing_to_keep
from coordinator.revisions.requests import ApplyRequest
from coordinator.specification import PipelineSpec
from coordinator.starting.errors import CircuitChanged
from coordinator.starting.project.release import check_transition_of_release, refuse_other_release
from coordinator.starting.project.same_project import as_recorded, numbers_if_continued, refuse_former, what_differs
from coordinator.starting.project.transition_found import check_files_match_transition, is_as_chosen
from io_kafka.step_log.revision_state import Clearing, Draining
from io_kafka.step_log.state import StepLogState

_log = Logger("coordinator.starting.project.beginning")


@dataclass(frozen=True)
class Beginning:
    """`spec`: the project that runs. `is_recorded`: it is the one in force, whatever the files have. `to_apply`: what is to be asked for as soon
    as it runs and no transition is under way."""

    spec: PipelineSpec
    is_recorded: bool = False
    to_apply: ApplyRequest | None = None


def beginning(
    files: PipelineSpec,
    revision: Revision | None,
    state: StepLogState,
    on_change: OnChange,
    chosen: Chosen,
    *,
    to_come: Revision | None,
) -> Beginning:
    """`revision`: the one in force. `to_come`: see `revision_to_come`. Raises NothingRecorded, TransitionRefused, UnknownTable, CircuitChanged
    and StateLost if the run cannot begin as the user wants it. A project of the files that does not continue the state is refused by
    `numbers_if_continued`."""
    if revision is None:
        if on_change == "keep":
            raise nothing_to_keep(files.name)
        return Beginning(files)
    found = _choose(files, revision, state, on_change, chosen, to_come=to_come)
    if found.is_recorded:
        _check_release(revision, state, on_change)
    return found


def _choose(
    files: PipelineSpec,
    revision: Revision,
    state: StepLogState,
    on_change: OnChange,
    chosen: Chosen,
    *,
    to_come: Revision | None,
) -> Beginning:
    marked = as_recorded(files, revision.document)
    to_apply: ApplyRequest | None = None
    phase = state.revisions.phase
    if to_come is not None:
        assert phase is not None, "a revision to come without a transition"
        check_files_match_transition(files, to_come, phase.intent.choices, on_change, chosen)
        why = "a transition is under way, so the run goes on with the recorded projects"
    elif on_change == "keep":
        why = "the run goes on with the recorded project, whatever is in the files"
    elif on_change == "apply" and (_asks_for_load(files, state, chosen) or _is_another(marked, revision, state)):
        why = "the files have another project, which is applied as soon as the recorded one runs"
        to_apply = ApplyRequest(files, hold=False, chosen=chosen)
    elif phase is not None:
        why = "a transition is being settled, so the run goes on with the recorded project"
        if differs := what_differs(files, revision.document):
            _log.warning(
                "the files have another project, which is not applied", revision=revision.number, differs=differs
            )
    else:
        if not chosen.is_nothing:
            _log.warning("the files have no change to which --from-now, --append or --retract could apply")
        return Beginning(marked)
    _log.info(why, revision=revision.number)
    return Beginning(project_of_revision(revision.document, files), is_recorded=True, to_apply=to_apply)


def _asks_for_load(files: PipelineSpec, state: StepLogState, chosen: Chosen) -> bool:
    """Whether a batch table is to be loaded again. A run that was ended when its load was in force, and is started again, is not to load once
    more."""
    phase = state.revisions.phase
    is_made = isinstance(phase, Draining) or (isinstance(phase, Clearing) and phase.is_switched)
    if phase is not None and is_made and is_as_chosen(chosen, phase.intent.choices, files.inputs):
        return False
    return bool(chosen.reload)


def _is_another(spec: PipelineSpec, revision: Revision, state: StepLogState) -> bool:
    """Whether the project of the files cannot continue the state as it is. While a transition is settled, no other project can."""
    try:
        numbers_if_continued(spec, state, revision, may_continue=state.revisions.phase is None)
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
