"""Which method carries out which order, as the annotations of the methods say.

    @carries_out
    def enter(self, order: Enter) -> Entered: ...

The result says how the order is answered:

    its answer                 at once
    Job[its answer]            by what the job returns; it runs in a thread of its own. Only orders that derive from BackgroundOrder have it
    Later                      by the method itself, then or later
    None                       not at all: the message is a Notice

Guarantees: each message of the coordinator has one method, and its result fits the class of the order. The import of worker.py raises
AssertionError otherwise: `carries_out` looks at each method, and `Handlers` at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from engine.resident.frames import Buffer
from engine.resident.messages import A, Answer, BackgroundOrder, Message, Notice, Order

Job: TypeAlias = Callable[[], tuple[A, tuple[Buffer, ...]]]
"""What an order that is carried out in the background does: it returns the answer and the buffers of its frame."""


class Later(Enum):
    """The result of a method that answers by itself. It has to be said, because a method that forgets to answer returns None."""

    LATER = "later"


M = TypeVar("M", bound=Callable[..., Any])


_ORDER = "carried_out_order"
"""The attribute of a method that `carries_out` has marked: the class of the order."""


def carries_out(method: M) -> M:
    """Marks the method that carries out the order of its annotation. Raises AssertionError if its result does not fit that."""
    hints = get_type_hints(method)
    _check(method.__name__, hints["order"], hints["return"])
    setattr(method, _ORDER, hints["order"])
    return method


class Handlers:
    """The methods of all parts of a worker, by the orders that they carry out. `parts`: the classes with the methods. `messages`: all there are.
    `others`: those of the coordinator that come before a worker is bound, or that tell that it lives."""

    def __init__(
        self, parts: Iterable[type], messages: Iterable[type[Message]], others: Iterable[type[Message]]
    ) -> None:
        self._found: dict[type[Message], tuple[type, str]] = {}
        for part in parts:
            for name, method in vars(part).items():
                if (order := getattr(method, _ORDER, None)) is not None:
                    assert order not in self._found, f"{name} and {self._found[order][1]} carry out {order.__name__}"
                    self._found[order] = part, name
        given = {each for each in messages if issubclass(each, Order | Notice)} - {*others}
        assert given == set(self._found), f"without a method, or with one too many: {given ^ set(self._found)}"

    def find(self, message: Message) -> tuple[type, str] | None:
        """The part that carries out the message, and the name of its method, so that a test may replace that; None if there is none."""
        return self._found.get(type(message))


def _check(method: str, order: type[Message], result: Any) -> None:
    """Raises AssertionError if the result of the method does not fit the order."""
    if result is type(None):
        assert not issubclass(order, Order), (
            f"{method} gives no answer to {order.__name__}; Later says that it answers by itself"
        )
        return
    assert issubclass(order, Order), f"{method} answers {order.__name__}, which has no answer"
    if result is Later:
        return
    is_job = get_origin(result) is not None and not _is_answer(get_args(result) or (result,))
    if is_job:
        assert issubclass(order, BackgroundOrder), f"{method}: {order.__name__} is not carried out in the background"
        result = get_args(get_args(result)[1])[0]
    answers = get_args(result) or (result,)
    assert answers == order.answers, f"{method} gives {answers}, and {order.__name__} is answered by {order.answers}"


def _is_answer(kinds: tuple[Any, ...]) -> bool:
    return all(isinstance(kind, type) and issubclass(kind, Answer) for kind in kinds)
