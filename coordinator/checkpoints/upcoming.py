"""What can be read of the next project before the switch.

Guarantee: what is read is the answer of the next project over the input of the version that is read, or it is refused with the reason. New
nodes have that answer as soon as they are filled, and so have kept ones, but for those that read a changed view. They get what differs in the
step of the switch, and all that stands on them is as late as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.checkpoints.view_queries import NoAnswer
from coordinator.stepping.views_in_error import views_before
from coordinator.transition.course import Course
from coordinator.transition.progress import share_filled
from engine.analysis.filling import Program
from engine.model.circuit import View
from engine.model.filling import Switched
from io_kafka.step_log.revision_records import RevisionIntent
from io_kafka.step_log.revision_state import Clearing, Detached, Draining, Filling, Switching
from io_kafka.step_log.state import StepLogState


class Upcoming:
    """What can be read of the next revision at one moment: `log` is the state of the step log then."""

    def __init__(self, course: Course, log: StepLogState) -> None:
        self._course, self._log = course, log

    def number(self, fingerprint: str, views: Sequence[str]) -> int:
        """Returns the number of the next revision. `fingerprint`: that of the circuit whose views these are. Raises NoAnswer if they cannot be
        read."""
        intent = self._filled_intent()
        document = self._course.plan_of_next(intent)
        if (document.fingerprint_of_files or document.circuit.fingerprint) != fingerprint:
            raise NoAnswer(
                f"the files define another project than revision {intent.number}, to which the transition leads.",
                "Ask with the files that were applied, or take the transition back with `stepwell revision abort` and apply these.",
            )
        late = late_views(self._course.switching(intent))
        for view in views:
            if view in late:
                raise NoAnswer(
                    f"view {view} is not yet what revision {intent.number} says: the state that it keeps gets what changes in "
                    f"{', '.join(late[view])} in the step of the switch.",
                    "Ask for other views; or make the switch, and ask without --next.",
                )
        return intent.number

    def is_in(self, step: int) -> bool:
        """Whether a version that was taken before this step has all that is filled, and it is known which of its views have no answer."""
        intent = self._filled_intent()
        is_known = self._log.first <= step <= self._log.division_next
        return is_known and self._log.filled_before(step) >= intent.whole and self._in_error(intent, step) is not None

    def check_answers(self, views: Sequence[str], step: int) -> None:
        """Raises NoAnswer if one of the views has none in such a version."""
        in_error = self._in_error(self._filled_intent(), step)
        assert in_error is not None
        for view in views:
            if view in in_error:
                raise NoAnswer(
                    f"view {view}, step {step - 1}: an expression of its next definition raises for some of its rows, so it has no answer.",
                    "`stepwell revision show` shows the error. Correct or delete the rows; or `stepwell revision abort`, guard against them in "
                    "the view (CASE, nullif, try_cast), and apply that.",
                )

    def _in_error(self, intent: RevisionIntent, step: int) -> frozenset[str] | None:
        return views_before(self._course.plan_of_next(intent).numbered, self._log, step)

    def _filled_intent(self) -> RevisionIntent:
        """Raises NoAnswer if there is no next revision whose new nodes are filled."""
        phase = self._log.revisions.phase
        match phase:
            case Filling(intent=intent) if self._log.filled >= intent.whole and self._log.has_reread_all:
                return intent
            case Filling(intent=intent) if self._log.filled >= intent.whole:
                raise NoAnswer(
                    f"the new nodes of revision {intent.number} have not read again all that the pipeline has read.",
                    "They catch up in the next steps, unless the transition is paused: `stepwell revision resume`.",
                )
            case Filling(intent=intent):
                share = f"{share_filled(self._log):.0%}"
                raise NoAnswer(
                    f"{share} of revision {intent.number} is filled, and its views can be read when all is.",
                    "`stepwell revision show --watch` shows how far it is. The switch comes by itself then, unless `stepwell apply --hold` "
                    "has begun the transition.",
                )
            case Detached(intent=intent, turn=turn):
                raise NoAnswer(
                    f"revision {intent.number} is not filled, because the transition is detached: {turn.error}",
                    "`stepwell revision resume` fills it again, and `stepwell revision abort` takes it back.",
                )
            case Switching(intent=intent) | Draining(intent=intent):
                raise NoAnswer(f"the switch to revision {intent.number} is under way.", "Ask without --next.")
            case Clearing(is_switched=True, intent=intent):
                raise NoAnswer(f"revision {intent.number} is in force already.", "Ask without --next.")
            case _:
                raise NoAnswer(
                    "no transition is under way, so there is no next revision.",
                    "`stepwell apply --hold` begins one, and stops before the switch.",
                )


def late_views(switching: Program) -> dict[str, tuple[str, ...]]:
    """The views that get a difference in the step of the switch, or stand on what gets one, and the changed views whose difference that is.
    `switching`: the program of that step."""
    nodes = switching.circuit.nodes
    through: list[frozenset[str]] = []
    for node in nodes:
        of_inputs = frozenset[str]().union(*(through[index] for index in node.inputs))
        changed = nodes[node.inputs[0]] if isinstance(node, Switched) else None
        if isinstance(changed, View):  # otherwise the content is taken back of a view that is gone
            of_inputs |= {changed.name}
        through.append(of_inputs)
    return {
        node.name: tuple(sorted(through[index]))
        for index, node in enumerate(nodes)
        if isinstance(node, View) and through[index]
    }
