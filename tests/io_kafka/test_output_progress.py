"""The four cases of write(step, output), and the comparison of inputs."""

from __future__ import annotations

import pytest

from io_kafka.step_log.output_progress import (
    DigestMismatch,
    ErrorsDiffer,
    InputChanged,
    OutputDecision,
    StepBeyondEnd,
    compare_errors,
    compare_inputs,
    decide,
)
from io_kafka.step_log.records import InputChecksum, NodeErrors, OutputPart, StepRecord


def recorded(step: int, **digests: str) -> StepRecord:
    parts = tuple(
        OutputPart(handle=handle, topic=handle, partition=0, messages=0, digest=digest, end=0)
        for handle, digest in sorted(digests.items())
    )
    inputs = (InputChecksum(topic="in", partition=0, messages=2, checksum="c"),)
    return StepRecord(epoch=0, step=step, outputs=parts, encoder="e", inputs=inputs)


LOG = {3: recorded(3, a="a3", b="b3"), 4: recorded(4, a="a4", b="b4")}


def test_output_below_the_first_recorded_step_is_discarded_without_comparison() -> None:
    assert decide(0, {("a", 0): "anything"}, LOG, 3, 5) is OutputDecision.DISCARD
    assert decide(2, {}, LOG, 3, 5) is OutputDecision.DISCARD


def test_equal_output_of_a_recorded_step_is_discarded() -> None:
    assert decide(3, {("a", 0): "a3", ("b", 0): "b3"}, LOG, 3, 5) is OutputDecision.DISCARD
    assert decide(4, {("b", 0): "b4", ("a", 0): "a4"}, LOG, 3, 5) is OutputDecision.DISCARD


@pytest.mark.parametrize(
    ("digests", "message"),
    [
        ({("a", 0): "a3", ("b", 0): "other"}, "step 3, output 'b' partition 0: .* digest other, .* has b3"),
        ({("a", 0): "a3"}, "output 'b' partition 0: .* digest none, .* has b3"),
        ({("a", 0): "a3", ("b", 0): "b3", ("b", 1): "x"}, "output 'b' partition 1: .* digest x, .* has none"),
    ],
)
def test_another_output_of_a_recorded_step_stops(digests: dict[tuple[str, int], str], message: str) -> None:
    with pytest.raises(DigestMismatch, match=message):
        decide(3, digests, LOG, 3, 5)


def test_output_of_the_next_step_is_appended() -> None:
    assert decide(5, {("a", 0): "new"}, LOG, 3, 5) is OutputDecision.APPEND
    assert decide(0, {}, {}, 0, 0) is OutputDecision.APPEND


def test_output_beyond_the_next_step_is_a_mistake() -> None:
    with pytest.raises(StepBeyondEnd, match="step 6 cannot be written: the output of step 5"):
        decide(6, {}, LOG, 3, 5)


@pytest.mark.parametrize(
    "found",
    [(), (InputChecksum(topic="in", partition=0, messages=2, checksum="d"),),
     (InputChecksum(topic="in", partition=0, messages=1, checksum="c"),)],
)  # fmt: skip
def test_changed_input_is_named(found: tuple[InputChecksum, ...]) -> None:
    compare_inputs(3, LOG[3].inputs, LOG[3].inputs)
    with pytest.raises(InputChanged, match="step 3, topic 'in' partition 0"):
        compare_inputs(3, found, LOG[3].inputs)


def test_a_replay_has_the_error_rows_of_the_first_run() -> None:
    """The example is for people, and depends on the order in which rows came."""
    was, now = (NodeErrors(node=3, since=1, rows=2, checksum="a", example=text) for text in ("one", "other"))
    recorded = StepRecord(epoch=0, step=4, outputs=(), encoder="e", errors=(was,))
    compare_errors(4, (now,), recorded)
    for other in ((), (now.model_copy(update={"rows": 1}),), (now.model_copy(update={"checksum": "b"}),)):
        with pytest.raises(ErrorsDiffer, match=r"step 4: .* in error at .*, and after its first run at 3: 2, a"):
            compare_errors(4, other, recorded)
