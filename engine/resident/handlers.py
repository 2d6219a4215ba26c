"""Which method of a worker carries out which message, as its annotations say.

    @carries_out
    def _open(self, order: Open) -> Opened: ...

The result says how the order is answered:

    its answer                 at once
    Job[its answer]            by what the job returns; it runs in a thread of its own. Only orders that derive from Beside have it
    Later                      by the method itself, then or later
    None                       not at all: the message is a Notice

Guarantees: each message of the coordinator has one method, and its result fits the class of the order. `Handlers.check`, which worker.py calls
when it is imported, raises AssertionError otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from engine.resident.frames import Buffer
from engine.resident.messages import A, Answer, Beside, Message, Notice, Order

Job: TypeAlias = Callable[[], tuple[A, tuple[Buffer, ...]]]
"""What an order that is carried out beside the steps does: it returns the answer and the buffers of its frame."""


class Later(Enum):
    """The result of a method that answers by itself. It has to be said, because a method that forgets to answer returns None."""

    LATER = "later"


M = TypeVar("M", bound=Callable[..., Any])


class Handlers:
    """Use one as decorator of the methods."""

    def __init__(self) -> None:
        self._names: dict[type[Message], str] = {}

    def __call__(self, method: M) -> M:
        hints = get_type_hints(method)
        order = hints["order"]
        assert order not in self._names, f"{method.__name__} and {self._names[order]} carry out {order.__name__}"
        _check(method.__name__, order, hints["return"])
        self._names[order] = method.__name__
        return method

    def name_of(self, message: Message) -> str | None:
        """The name of the method, so that a class that derives from the worker's may replace it; None if there is none."""
        return self._names.get(type(message))

    def check(self, messages: Iterable[type[Message]], others: Iterable[type[Message]]) -> None:
        """`messages`: all there are. `others`: those of the coordinator that come before a worker is bound, or that tell that it lives."""
        given = {each for each in messages if issubclass(each, Order | Notice)} - {*others}
        assert given == set(self._names), f"without a method, or with one too many: {given ^ set(self._names)}"


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
        assert issubclass(order, Beside), f"{method}: {order.__name__} is not carried out beside the steps"
        result = get_args(get_args(result)[1])[0]
    answers = get_args(result) or (result,)
    assert answers == order.answers, f"{method} gives {answers}, and {order.__name__} is answered by {order.answers}"


def _is_answer(kinds: tuple[Any, ...]) -> bool:
    return all(isinstance(kind, type) and issubclass(kind, Answer) for kind in kinds)
