"""What a run knows of a transition beyond the step log, as phases (base/machine.py). The phase of the transition itself is in the log.

    the log has     phases
    no transition   NoFindings -preparing-> Preparing -prepared-> WantedTransition -began-> NoFindings
    filling         NoFindings -checking_topics-> CheckingTopics -topics_checked-> TopicsChecked -measured-> Measured -switched-> NoFindings
    detached        NoFindings -cleared-> AllCleared
    clearing        NoFindings -cleared-> AllCleared -settled-> NoFindings

    phase          event        next phase
    NoFindings     cleared      the same, as long as something is left to clear; then AllCleared
    Preparing      refused      NoFindings
    AllCleared     note_store   the same
    Measurable     look_again   NoFindings; AllCleared stays

Measurable stands for all phases but Preparing and WantedTransition. With each turn nothing is known again, and after a loss of workers nothing
but the request, from Preparing to WantedTransition.

Three phases keep a value for the shell. The machine passes it on and never looks at it, so each has a parameter of the type:

    PreparationT   what prepares a request, in Preparing
    PreparedT      the transition that it has prepared, in WantedTransition
    CheckT         the check of the topics, in CheckingTopics
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from coordinator.revisions.transition_shown import ViewDifference

PreparationT = TypeVar("PreparationT")
PreparedT = TypeVar("PreparedT")
CheckT = TypeVar("CheckT")

Differences = tuple[ViewDifference, ...]


@dataclass(frozen=True)
class Measurable:
    """What all phases have in which the log may have a transition. `differences`: as they were measured last, which users see until others are
    measured, or the transition turns or is settled; None before."""

    differences: Differences | None

    def look_again(self) -> NoFindings | AllCleared:
        """What stands in the way of the switch may have changed."""
        return NoFindings(self.differences)


@dataclass(frozen=True)
class NoFindings(Measurable):
    """The log alone says what is next."""

    differences: Differences | None = None

    def preparing(self, preparation: PreparationT) -> Preparing[PreparationT]:
        """A user has asked for a transition."""
        return Preparing(preparation)

    def checking_topics(self, look: CheckT) -> CheckingTopics[CheckT]:
        """The topics of the next project are checked in the background."""
        return CheckingTopics(self.differences, look)

    def cleared(self, is_done: bool) -> NoFindings | AllCleared:
        """Some tables were removed. `is_done`: the workers have nothing left to clear."""
        return AllCleared(self.differences, waits_for_store=False) if is_done else self


@dataclass(frozen=True)
class Preparing(Generic[PreparationT]):
    """A request is prepared in the background."""

    preparation: PreparationT

    def prepared(self, prepared: PreparedT) -> WantedTransition[PreparedT]:
        """The workers have all that it needs."""
        return WantedTransition(prepared)

    def refused(self) -> NoFindings:
        """The transition cannot begin."""
        return NoFindings()


@dataclass(frozen=True)
class WantedTransition(Generic[PreparedT]):
    """The next transition has only to be recorded."""

    prepared: PreparedT

    def began(self) -> NoFindings:
        """The intent is in the log."""
        return NoFindings()


@dataclass(frozen=True)
class CheckingTopics(Measurable, Generic[CheckT]):
    """The topics of the next project are looked at."""

    look: CheckT

    def topics_checked(self, reasons: tuple[str, ...]) -> TopicsChecked:
        """The check of the topics is over. `reasons`: see TopicsChecked."""
        return TopicsChecked(self.differences, reasons)


@dataclass(frozen=True)
class TopicsChecked(Measurable):
    """The topics of the next project have been looked at. `reasons`: why the switch has to wait, as the topics say."""

    reasons: tuple[str, ...]

    def measured(self, differences: Differences, obstacles: tuple[str, ...]) -> Measured:
        """The workers have told how large the differences are."""
        return Measured(differences, obstacles)


@dataclass(frozen=True)
class Measured(Measurable):
    """The differences are known, and whether anything stands in the way of the switch. `differences`: as they are. `obstacles`: why the switch
    has to wait, for users; empty if nothing stands in its way."""

    differences: Differences
    obstacles: tuple[str, ...]

    def switched(self) -> NoFindings:
        """The switch is in the log. Users go on to see what differs."""
        return NoFindings(self.differences)


@dataclass(frozen=True)
class AllCleared(Measurable):
    """The workers have nothing left to clear. `waits_for_store`: loads of batch tables go with the end of the transition that the version in the
    checkpoint store still needs."""

    waits_for_store: bool

    def look_again(self) -> AllCleared:
        """Nothing that is cleared comes back."""
        return self

    def note_store(self, needs_loads: bool) -> AllCleared:
        """The shell has seen which version is in the checkpoint store."""
        return replace(self, waits_for_store=needs_loads)

    def settled(self) -> NoFindings:
        """The end is in the log."""
        return NoFindings()


Known = (
    NoFindings
    | Preparing[PreparationT]
    | WantedTransition[PreparedT]
    | CheckingTopics[CheckT]
    | TopicsChecked
    | Measured
    | AllCleared
)
