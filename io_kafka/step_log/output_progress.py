"""Decides what becomes of the output of a step: it is written, or compared and discarded.

Guarantees: a step's output is written once. A replay computes it again, and it is discarded if it is equal to what was
written. If it differs, the pipeline stops before anything is written, and the error has both digests.

    step          0 ......... first ......... last ......... >
    decision      | discard    | compare,      | append  | StepBeyondEnd
                  |            | discard       |         |

`first` is the first step whose digests the log still has. `last` is the next step to be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from base.fault import ExitCode
from io_kafka.errors import KafkaFault
from io_kafka.step_log.records import InputChecksum, NodeErrors, StepRecord

HandlePartition = tuple[str, int]


class OutputDecision(Enum):
    DISCARD = "discard"
    APPEND = "append"


class DigestMismatch(KafkaFault):
    """A replayed step gave another output than its first run."""

    exit_code = ExitCode.STATE

    def __init__(self, step: int, handle: str, partition: int, recorded: str, computed: str) -> None:
        self.step, self.handle, self.partition = step, handle, partition
        self.recorded, self.computed = recorded, computed
        super().__init__(
            f"step {step}, output {handle!r} partition {partition}: the replay's output has digest {computed}, the "
            f"output written before has {recorded}. Something in the project or its libraries is not deterministic, "
            "or was changed; nothing was written.",
            "Restore the previous version, or rebuild with `stepwell run --full-refresh`.",
        )


class StepBeyondEnd(KafkaFault):
    """A step is to be written before its predecessor's output is."""

    def __init__(self, step: int, last: int) -> None:
        self.step, self.last = step, last
        super().__init__(
            f"step {step} cannot be written: the output of step {last} is not written yet. The state is ahead of the "
            "step log, which has lost records or belongs to another pipeline.",
            "Restore it, or rebuild with `stepwell run --full-refresh`.",
        )


class InputChanged(KafkaFault):
    """A recorded range of input no longer holds the messages that were read from it."""

    def __init__(self, step: int, topic: str, partition: int, recorded: str, found: str) -> None:
        self.step, self.topic, self.partition = step, topic, partition
        super().__init__(
            f"step {step}, topic {topic!r} partition {partition}: its range now holds {found}, and held {recorded} "
            "when it was first read. The topic was recreated, compacted or has expired below the last checkpoint.",
            "Correct its retention, or `min.compaction.lag.ms` of a compacted topic, and rebuild with `stepwell run --full-refresh`.",
        )


def decide(
    step: int, digests: Mapping[HandlePartition, str], recorded: Mapping[int, StepRecord], first: int, last: int
) -> OutputDecision:
    """The decision for the output of `step`. `digests` has all its partitions, also those without messages. `recorded` has the steps
    first <= s < last.

    Raises DigestMismatch for the first partition, in order, that differs, and StepBeyondEnd if step > last."""
    assert 0 <= first <= last
    if step < first:
        return OutputDecision.DISCARD
    if step == last:
        return OutputDecision.APPEND
    if step > last:
        raise StepBeyondEnd(step, last)
    before = recorded[step].digests
    for handle, partition in sorted(before.keys() | digests.keys()):
        was, now = before.get((handle, partition), "none"), digests.get((handle, partition), "none")
        if was != now:
            raise DigestMismatch(step, handle, partition, was, now)
    return OutputDecision.DISCARD


def compare_inputs(step: int, found: Iterable[InputChecksum], recorded: Iterable[InputChecksum]) -> None:
    """Raises InputChanged unless a replay read the recorded messages. A range that was recorded without a checksum is not compared."""
    now = {(c.topic, c.partition): c for c in found}
    for was in recorded:
        other = now.get((was.topic, was.partition))
        if other != was:
            raise InputChanged(
                step, was.topic, was.partition, _text_of(was), "nothing" if other is None else _text_of(other)
            )


class ErrorsDiffer(KafkaFault):
    """A replayed step gave errors for other rows than its first run."""

    exit_code = ExitCode.STATE

    def __init__(self, step: int, recorded: str, found: str) -> None:
        self.step = step
        super().__init__(
            f"step {step}: after its replay rows are in error at {found}, and after its first run at {recorded} (node: rows, checksum). "
            "Something in the project or its libraries is not deterministic, or was changed; nothing was written.",
            "Restore the previous version, or rebuild with `stepwell run --full-refresh`.",
        )


def compare_errors(step: int, found: Iterable[NodeErrors], recorded: StepRecord) -> None:
    """Raises ErrorsDiffer unless the same rows are in error after a replay. A withheld output has the digest of nothing, so its digest does
    not show it."""
    was, now = (", ".join(f"{e.node}: {e.rows}, {e.checksum}" for e in errors) for errors in (recorded.errors, found))
    if was != now:
        raise ErrorsDiffer(step, was or "no node", now or "no node")


def _text_of(checksum: InputChecksum) -> str:
    return f"{checksum.messages} messages with checksum {checksum.checksum}"
