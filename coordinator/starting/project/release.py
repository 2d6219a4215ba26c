"""Whether this release of Stepwell can go on with a state that another one has made.

What it computes in another way is frozen (engine/analysis/release.py) and young in the next project. So a transition leads from the recorded
project to that of the files, as after any change, and only its steps are run: with frozen nodes a step of the recorded project alone would have
other output than the release would have given that has recorded it.

Guarantees: no step that the former release has run is replayed with frozen nodes, and no step runs with them outside a transition.
"""

from __future__ import annotations

from coordinator.revisions.document import PlanDocument, Revision
from coordinator.starting.errors import CircuitChanged, StateLost
from engine.analysis.release import can_be_frozen
from io_kafka.step_log.revision_state import Clearing, Draining
from io_kafka.step_log.state import StepLogState

REFRESH = "rebuild the state with `stepwell run --full-refresh`"


def refuse_other_release(document: PlanDocument) -> None:
    """Raises CircuitChanged if this release computes something of the project in another way than the one that has recorded it."""
    if not document.frozen:
        return
    reason = document.why_frozen
    if not can_be_frozen(document.circuit, document.frozen):
        raise CircuitChanged(
            f"{reason}, and a source, a table or an output needs that.", f"Run the former version, or {REFRESH}."
        )
    raise CircuitChanged(
        f"{reason}. So {_views(document)} would not be computed as before.",
        "`stepwell plan` shows what is rebuilt, and `stepwell run --apply` rebuilds it while everything else goes on. The former version can "
        "still run the project.",
    )


def check_transition_of_release(revision: Revision, state: StepLogState) -> None:
    """Raises CircuitChanged or StateLost if this release can neither begin nor go on with a transition from the recorded project, of which it
    computes something in another way. `revision`: the one in force."""
    document, phase = revision.document, state.revisions.phase
    if not can_be_frozen(document.circuit, document.frozen):
        refuse_other_release(document)
    if isinstance(phase, Draining) or (isinstance(phase, Clearing) and phase.is_switched):
        raise StateLost(
            f"{document.why_frozen}, and the transition to revision {revision.number} is not settled.",
            f"Run the former version until it is, and then this one; or {REFRESH}.",
        )
    last = state.checkpoints[-1].step if state.checkpoints else 0
    if phase is None and state.division_next > last:
        raise StateLost(
            f"{document.why_frozen}, and the steps from {last} on have to be run again as the former version has run them: the "
            f"last checkpoint has the steps below {last} alone.",
            f"Start the former version and stop it with Ctrl-C or SIGTERM, which takes a checkpoint; then start this one. Or {REFRESH}.",
        )


def stands_still(document: PlanDocument) -> CircuitChanged:
    """The end of a run whose transition was taken back, so that it has nothing to go on with."""
    return CircuitChanged(
        f"the transition is over, and the revision in force cannot go on: {document.why_frozen}. Nothing is lost.",
        "`stepwell run --apply` begins another transition. The former version can still run the project.",
    )


def _views(document: PlanDocument) -> str:
    names = document.views_standing_still
    return f"view {names[0]}" if len(names) == 1 else f"views {', '.join(names)}"
