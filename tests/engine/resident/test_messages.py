"""A message is known by its class alone, and nobody can forget to carry one out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.resident import messages
from engine.resident.messages import (
    Answer,
    FoldLayer,
    LayerFolded,
    Notice,
    Order,
    Ping,
    RunStep,
    StepAbandoned,
    StepDone,
)
from engine.resident.messages import message as module
from engine.resident.messages.message import order_of
from engine.resident.worker.handlers import Handlers, Job, Later, carries_out


@pytest.fixture(autouse=True)
def no_traces() -> Iterator[None]:
    """The classes that a test defines are forgotten after it."""
    by_kind, answered = dict(module._BY_KIND), dict(module._ANSWERED)  # type: ignore[attr-defined]
    yield
    for kept, before in ((module._BY_KIND, by_kind), (module._ANSWERED, answered)):  # type: ignore[attr-defined]
        kept.clear()
        kept.update(before)


def test_an_order_knows_its_kind_and_its_answers() -> None:
    assert RunStep.kind == "run_step" and order_of("run_step") is RunStep
    assert RunStep.answers == (StepDone, StepAbandoned) and FoldLayer.answers == (LayerFolded,)
    assert order_of("folded") is None, "an answer is no order"


def test_a_class_is_a_message_as_soon_as_it_is_defined() -> None:
    class OfOneTest(Answer):
        rows: int

    class AskInOneTest(Order[OfOneTest]):
        table: int

    assert {OfOneTest, AskInOneTest} <= set(messages.kinds())
    assert messages.message_of("ask_in_one_test", {"table": 7}) == AskInOneTest(table=7)
    assert messages.order_answered_by(OfOneTest(rows=1)) is AskInOneTest


def test_a_kind_belongs_to_one_class_and_an_answer_to_one_order() -> None:
    with pytest.raises(AssertionError, match="two messages have the kind ping"):
        type("Ping", (Notice,), {"__module__": __name__})
    with pytest.raises(AssertionError, match="LayerFolded answers FoldLayer and FoldAgain"):

        class FoldAgain(Order[LayerFolded]):
            pass


class Counted(Answer, is_base=True):
    """Of CountRows. Neither is registered, because frames are to hold no message of a test."""


class CountRows(Order[Counted], is_base=True):
    """Defined here, because annotations are resolved by the names of this module."""


CountRows.answers = (Counted,)


def test_an_order_without_a_method_is_noticed_when_the_worker_is_imported() -> None:
    class Counter:
        @carries_out
        def count(self, order: CountRows) -> Counted:
            return Counted()

    handlers = Handlers([Counter], [CountRows, Counted, Ping], others=[Ping])
    assert handlers.find(CountRows()) == (Counter, "count") and handlers.find(Ping()) is None
    with pytest.raises(AssertionError, match="without a method, or with one too many"):
        Handlers([Counter], [CountRows, Counted, Ping, FoldLayer], others=[Ping])
    with pytest.raises(AssertionError, match="without a method, or with one too many"):
        Handlers([Counter], [Ping], others=[Ping])


def test_two_methods_of_one_order_are_noticed() -> None:
    class First:
        @carries_out
        def fold(self, order: FoldLayer) -> Job[LayerFolded]:
            raise NotImplementedError

    class Second:
        @carries_out
        def again(self, order: FoldLayer) -> Later:
            raise NotImplementedError

    with pytest.raises(AssertionError, match="again and fold carry out FoldLayer"):
        Handlers([First, Second], [FoldLayer], others=[])


def test_a_method_whose_result_does_not_answer_its_order_is_noticed() -> None:
    with pytest.raises(AssertionError, match="CountRows is answered by"):

        class Wrong:
            @carries_out
            def count(self, order: CountRows) -> LayerFolded:
                raise NotImplementedError

    with pytest.raises(AssertionError, match="CountRows is not carried out in the background"):

        class Beside:
            @carries_out
            def count(self, order: CountRows) -> Job[Counted]:
                raise NotImplementedError

    with pytest.raises(
        AssertionError, match="count gives no answer to CountRows; Later says that it answers by itself"
    ):

        class Silent:
            @carries_out
            def count(self, order: CountRows) -> None:
                raise NotImplementedError

    with pytest.raises(AssertionError, match="Ping, which has no answer"):

        class AnsweredLater:
            @carries_out
            def ping(self, order: Ping) -> Later:
                raise NotImplementedError

    with pytest.raises(AssertionError, match="Ping, which has no answer"):

        class Answered:
            @carries_out
            def ping(self, order: Ping) -> Counted:
                raise NotImplementedError
