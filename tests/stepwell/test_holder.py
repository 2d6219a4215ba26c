"""Who may take a pipeline over, and when: asked of a log whose holder answers, writes, is silent or is gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from io_kafka.step_log.records import Claim, Ended
from io_kafka.step_log.state import StepLogState
from stepwell.service import holder
from stepwell.service.holder import HeldByAnother, wait_until_claimable

HERE = socket.gethostname()


def claim(epoch: int = 4, host: str = "elsewhere", endpoint: str | None = None) -> Claim:
    return Claim(epoch=epoch, pipeline="p", run_id=f"run {epoch}", host=host, pid=77, endpoint=endpoint)


def log(*claims: Claim) -> StepLogState:
    state = StepLogState("log")
    for offset, record in enumerate(claims):
        state = state.apply(record, offset)
    return state


def turn(*seen: StepLogState, silence_s: float = 0.01, take_over: bool = False) -> tuple[int | None, list[str]]:
    """What `wait_until_claimable` answers, and what it says meanwhile, where the log reads as `seen`, the last one again and again."""
    looks: Iterator[StepLogState] = iter(seen)
    said: list[str] = []
    epoch = wait_until_claimable("p", lambda: next(looks, seen[-1]), silence_s, take_over=take_over, say=said.append)
    return epoch, said


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(holder, "process_is_gone", lambda pid: False)
    monkeypatch.setattr(holder, "who_answers", lambda endpoint: None)


def test_what_nobody_held_needs_no_turn() -> None:
    assert turn(StepLogState("log")) == (None, [])


def test_a_holder_that_answers_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Any = {"http://it": {"pipeline": "p"}, "http://other": {"pipeline": "another, on a port used again"}}
    monkeypatch.setattr(holder, "who_answers", answers.get)
    with pytest.raises(HeldByAnother, match=r"process 77 on .* \(epoch 4\): it answers at http://it"):
        turn(log(claim(host=HERE, endpoint="http://it")))
    assert turn(log(claim(host=HERE, endpoint="http://other")))[0] == 4


def test_a_holder_that_writes_is_left_alone() -> None:
    later = replace(log(claim()), offset_next=2)
    with pytest.raises(HeldByAnother, match="it has just written to the step log"):
        turn(log(claim()), log(claim()), later, silence_s=60)


def test_another_who_claims_meanwhile_is_told() -> None:
    with pytest.raises(HeldByAnother, match="epoch 5"):
        turn(log(claim()), log(claim(), claim(5)), silence_s=60)


def test_a_silent_holder_is_followed_after_the_silence_and_not_before() -> None:
    looks = 0

    def read() -> StepLogState:
        nonlocal looks
        looks += 1
        return log(claim())

    assert wait_until_claimable("p", read, 0.02, take_over=False, say=lambda text: None) == 4
    assert looks > 1, "its log was not looked at again"
    epoch, said = turn(log(claim()))
    assert epoch == 4 and "does not answer; waiting 0.01 s" in said[0]


def test_a_holder_whose_process_is_gone_is_followed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "process_is_gone", lambda pid: pid == 77)
    assert turn(log(claim(host=HERE)), silence_s=1e9) == (4, [])


def ended(state: StepLogState) -> StepLogState:
    return state.apply(Ended(epoch=state.epoch), state.offset_next)


def test_a_holder_that_has_recorded_its_end_is_followed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "who_answers", lambda endpoint: {"pipeline": "p"})  # its process is about to end
    assert turn(ended(log(claim(host=HERE, endpoint="http://it"))), silence_s=1e9) == (4, [])
    assert turn(ended(log(claim())), silence_s=1e9) == (4, [])


def test_a_holder_that_ends_while_it_is_waited_for_is_followed() -> None:
    epoch, said = turn(log(claim()), log(claim()), ended(log(claim())), silence_s=1e9)
    assert epoch == 4 and len(said) == 1


def test_the_end_of_a_former_run_says_nothing_of_the_present_one() -> None:
    again = ended(log(claim()))
    epoch, said = turn(again.apply(claim(5), again.offset_next))
    assert epoch == 5 and said, "epoch 5 was not waited for"


def test_to_take_over_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "who_answers", lambda endpoint: {"pipeline": "p"})
    assert turn(log(claim(host=HERE, endpoint="http://it")), silence_s=1e9, take_over=True) == (4, [])
