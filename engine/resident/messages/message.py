"""What kinds of message there are, and what each kind owes: the base classes from which every message of a run derives.

    Notice         coordinator -> worker    It has no answer.
    Order[A]       coordinator -> worker    It is answered once, by A or by `Failed`. Orders are carried out one after another.
    BackgroundOrder[A] coordinator -> worker    An order that is carried out in the background.
    Answer         worker -> coordinator    Each class answers one class of order.
    Report         worker -> coordinator    It answers nothing.
    PeerMessage    worker -> worker

A class that derives from one of them is a message, and nothing else has to know it: its `kind`, the order that it answers, and the reader
of frames follow from the class. Two classes of one kind, and an answer to two orders, raise AssertionError when they are defined.

A message is small and typed. Rows do not travel in it but in the buffers of its frame (engine/resident/frames.py), as Arrow IPC streams. Nothing
here is unpickled: what does not have the form of one of these classes is rejected.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel, ConfigDict

_BY_KIND: dict[str, type[Message]] = {}
_ANSWERED: dict[type[Answer], type[Order[Any]]] = {}


class Message(BaseModel):
    """The base of all messages between the coordinator and workers. `kind`: the name of the class, as it travels in a frame: `run_step` of
    RunStep."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str] = ""

    def __init_subclass__(cls, *, is_base: bool = False, **others: Any) -> None:
        """Takes what `__pydantic_init_subclass__` reads, which runs when the class is complete."""
        super().__init_subclass__(**others)

    @classmethod
    def __pydantic_init_subclass__(cls, *, is_base: bool = False, **others: Any) -> None:
        super().__pydantic_init_subclass__(**others)
        if is_base or cls.__pydantic_generic_metadata__["origin"] is not None:
            return  # a class to derive from, such as Order[Opened], is no message
        cls.kind = re.sub(r"(?<=.)(?=[A-Z])", "_", cls.__name__).lower()
        assert cls.kind not in _BY_KIND, f"two messages have the kind {cls.kind}"
        _BY_KIND[cls.kind] = cls


class Answer(Message, is_base=True):
    """An answer of a worker to an order."""


A = TypeVar("A", bound=Answer)


class Order(Message, Generic[A], is_base=True):
    """An order of the coordinator to a worker. `answers`: the classes of A. `ends_worker`: whether the worker ends after its answer."""

    answers: ClassVar[tuple[type[Answer], ...]] = ()
    ends_worker: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, *, is_base: bool = False, **others: Any) -> None:
        super().__pydantic_init_subclass__(is_base=is_base, **others)
        if is_base or cls.__pydantic_generic_metadata__["origin"] is not None:
            return
        (answer,) = cls.__bases__[0].__pydantic_generic_metadata__["args"]  # type: ignore[attr-defined]
        cls.answers = get_args(answer) or (answer,)  # a union has arguments
        for each in cls.answers:
            assert each not in _ANSWERED, f"{each.__name__} answers {_ANSWERED[each].__name__} and {cls.__name__}"
            _ANSWERED[each] = cls


class BackgroundOrder(Order[A], Generic[A], is_base=True):
    """An order that a worker carries out in a thread of its own, in the background."""


class Notice(Message, is_base=True):
    """A message of the coordinator to a worker, without an answer."""


class Report(Message, is_base=True):
    """A message of a worker to the coordinator. It answers nothing."""


class PeerMessage(Message, is_base=True):
    """A message of a worker to another one."""


class UnknownKind(Exception):
    """No message is of this kind."""


def message_of(kind: object, fields: dict[str, Any]) -> Message:
    """The message of a kind with these fields. Raises UnknownKind, and pydantic's ValidationError."""
    known = _BY_KIND.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise UnknownKind("no message is of the kind that it names")
    return known.model_validate(fields, strict=False)


def order_answered_by(answer: Answer) -> type[Order[Any]] | None:
    """The class of order that an answer of this class answers; None for `Failed`, which names the kind itself."""
    return _ANSWERED.get(type(answer))


def order_of(kind: str) -> type[Order[Any]] | None:
    """The class of order of a kind; None if no order is of it."""
    known = _BY_KIND.get(kind)
    return known if known is not None and issubclass(known, Order) else None


def kinds() -> tuple[type[Message], ...]:
    """The classes of all messages, in the order of their definition."""
    return tuple(_BY_KIND.values())
