"""State machines whose phases are values.

A machine is in one **phase** of a closed union of frozen dataclasses. A phase owns what is known in it alone, and its methods are the
**events** that may happen in it. Each gives the next phase:

    @dataclass(frozen=True)
    class AddingWorkers:
        new: tuple[int, ...]

        def workers_added(self, owned: Owned) -> Weighing | AllMoved: ...

So what belonged to a phase is gone when the phase is over, unless an event hands it on, and no field has to be reset. An event that may happen
in several phases is a method of a class that all of them inherit from, and some of them may override it. An event that the present phase does
not know is a bug in Stepwell: `Machine.tell` raises InvalidTransition with the events that led there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

EVENTS_REMEMBERED = 16
"""How many past events the text of an invalid transition lists. A whole rescale has about ten kinds of them."""

Phase = TypeVar("Phase")
Arguments = ParamSpec("Arguments")


class InvalidTransition(AssertionError):
    """An event that cannot happen in the present phase."""


class Machine(Generic[Phase]):
    """A state machine with its present phase. `phase`: the present one. `story`: the last changes of the phase, the oldest first."""

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self.story: deque[str] = deque(maxlen=EVENTS_REMEMBERED)

    def tell(
        self,
        event: Callable[Concatenate[Any, Arguments], object],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> None:
        """Something has happened. `event`: a method of the class of the present phase, or of one from which that class inherits, as in
        `tell(AddingWorkers.workers_added, owned)`. If the present phase overrides it, its own method is called. Raises
        InvalidTransition, also if the present phase only has a method of the same name."""
        name = event.__name__
        before = type(self.phase).__name__
        if not any(vars(kind).get(name) is event for kind in type(self.phase).__mro__):
            raise InvalidTransition(self.with_story(f"{name!r} cannot happen in the phase {before}"))
        self.phase = getattr(self.phase, name)(*args, **kwargs)
        self.story.append(f"{before}.{name} -> {type(self.phase).__name__}")

    def reset_to(self, phase: Phase, why: str) -> None:
        """Goes on from this phase, whatever the present one is. `why`: what has happened, for the story."""
        self.story.append(f"{type(self.phase).__name__}: {why} -> {type(phase).__name__}")
        self.phase = phase

    def with_story(self, mistake: str) -> str:
        """The text of a mistake, with what led there."""
        return f"{mistake}; before: {', '.join(self.story) or 'nothing'}"
