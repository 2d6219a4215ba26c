"""The pipeline's one writer: everything Stepwell puts into Kafka goes through one transactional.id.

Guarantees: output of a step, its digests and the ends of its partitions become visible together or never, and once. A
replayed step is compared with what was written and discarded. No other run of the pipeline can write at the same time.

Start: the log is read, older writers are fenced, the rest of the log is read, and the claim of the next epoch
committed; only then may the caller touch databases. How a transaction is carried through errors is told in
transactions.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from faults.points import is_armed, reached
from io_kafka import native
from io_kafka.clients import KafkaSettings
from io_kafka.digest import digests, partition_bounds
from io_kafka.log_records import (
    Claim,
    DivisionRecord,
    InputChecksum,
    OutputPart,
    PartitionOffset,
    Record,
    StepRecord,
    TakenBack,
)
from io_kafka.offsets import TopicPartition
from io_kafka.output_progress import Decision, decide
from io_kafka.transactions import (
    LOG_POINTS,
    OUTPUT_POINTS,
    Delivery,
    Fenced,
    FencedTransactions,
    OutcomeUnknown,
    WriteRefused,
    WriterLimits,
)

__all__ = ["STEP_HEADER", "Fenced", "OutcomeUnknown", "PipelineWriter", "StepOutput", "WriteRefused", "WriterLimits"]

STEP_HEADER = "stepwell.step"
"""Names the header that carries a message's step, in decimal digits."""


NATIVE_MESSAGES_MIN = 100
"""Of a partition in a step: for fewer the hand-over costs as much as it saves."""


@dataclass(frozen=True)
class StepOutput:
    """What one handle writes in a step. `messages` has MESSAGES_SCHEMA's columns and is in canonical order."""

    handle: str
    topic: str
    partitions: int
    messages: pa.Table


class PipelineWriter(FencedTransactions):
    """One thread, the coordinator's, owns it. `step_header`: whether messages carry their step (0.7 us each where messages are objects)."""

    def __init__(
        self,
        settings: KafkaSettings,
        transactional_id: str,
        log_topic: str,
        *,
        step_header: bool = True,
        limits: WriterLimits | None = None,
    ) -> None:
        super().__init__(settings, transactional_id, log_topic, limits=limits)
        self._step_header = step_header

    def start(
        self, *, pipeline: str, host: str, pid: int, endpoint: str | None = None, expect_epoch: int | None = None
    ) -> int:
        """Fences every older writer, reads the log, commits the claim of the next epoch and returns it.

        `expect_epoch`: the epoch whose holder was found silent; a claim by anyone else since then is Fenced."""
        assert self._claim is None, "started already"
        self._state = self._reader.read()
        reached("start.log_read")
        before = self._state.epoch if expect_epoch is None else expect_epoch

        def claim() -> int:
            self._renew()
            reached("start.fenced")
            holder = self._state.claim
            if holder is None or holder.run_id != self.run_id:
                if self._state.epoch != before:
                    raise Fenced(self._id, before, holder)
                holder = Claim(
                    epoch=before + 1, pipeline=pipeline, run_id=self.run_id, host=host, pid=pid, endpoint=endpoint
                )
                self._commit_claim(holder)
            self._claim = holder
            return holder.epoch

        with self._bounded(f"the claim of epoch {before + 1}"):
            return int(self._patiently(claim))

    def append(self, records: Sequence[Record]) -> None:
        """Commits these records of the log, in order, in one transaction."""
        assert records and self._claim is not None
        self._transact(
            LOG_POINTS, "a record of the step log: " + ", ".join(r.kind for r in records), lambda _p, _d: list(records)
        )

    def write_step(
        self,
        step: int,
        outputs: Iterable[StepOutput],
        *,
        encoder: str,
        inputs: Sequence[InputChecksum] = (),
        skipped: Mapping[str, int] | None = None,
        division_next: DivisionRecord | None = None,
    ) -> StepRecord | None:
        """The seed's write(step, output). Commits all output of `step`, its record, and `division_next`, in one
        transaction.

        Returns the step's record; that of the first time where a replay gave the same output, and None where the log
        has forgotten it. Nothing is written then, nor is `division_next`.

        Raises DigestMismatch, StepBeyondEnd, Fenced, WriteRefused, OutcomeUnknown."""
        ordered = sorted(outputs, key=lambda output: output.handle)
        computed = {output.handle: digests(output.messages, output.partitions, encoder) for output in ordered}
        flat = {(handle, number): text for handle, texts in computed.items() for number, text in enumerate(texts)}
        self._settle()
        if decide(step, flat, self._state.step_records, self._state.first, self._state.steps) is Decision.DISCARD:
            return self._state.step_records.get(step)

        def send(producer: Producer, delivery: Delivery) -> list[Record]:
            for output in ordered:
                self._produce_output(producer, delivery, step, output)
            self._flush(producer, delivery)
            record = StepRecord(
                epoch=self.epoch,
                step=step,
                outputs=tuple(p for o in ordered for p in self._parts(o, computed[o.handle], delivery)),
                encoder=encoder,
                inputs=tuple(inputs),
                skipped=dict(skipped or {}),
            )
            return [record] if division_next is None else [record, division_next]

        self._transact(OUTPUT_POINTS, f"step {step}", send)
        return self._state.step_records[step]

    def take_back(self, generation: int, output: StepOutput) -> None:
        """Commits tombstones, which belong to no step, and the ends that they give their partitions."""

        def send(producer: Producer, delivery: Delivery) -> list[Record]:
            self._produce_output(producer, delivery, None, output)
            self._flush(producer, delivery)
            ends = tuple(
                PartitionOffset(topic=where.topic, partition=where.partition, offset=end)
                for where, end in sorted(delivery.ends.items())
            )
            return [TakenBack(epoch=self.epoch, generation=generation, ends=ends)]

        self._transact(OUTPUT_POINTS, f"tombstones for {output.topic}", send)

    def _produce_output(self, producer: Producer, delivery: Delivery, step: int | None, output: StepOutput) -> None:
        bounds = partition_bounds(output.messages, output.partitions)
        header = (STEP_HEADER, str(step).encode()) if self._step_header and step is not None else None
        extra: dict[str, Any] = {} if header is None else {"headers": [header]}
        for number in range(output.partitions):
            part = output.messages.slice(bounds[number], bounds[number + 1] - bounds[number])
            where = TopicPartition(output.topic, number)
            if len(part) >= NATIVE_MESSAGES_MIN and native.serves(producer):
                all_but_the_last, part = part.slice(0, len(part) - 1), part.slice(len(part) - 1)
                for batch in all_but_the_last.to_batches():
                    columns = native.Columns.of(batch.column("key"), batch.column("value"))
                    self._produce_natively(producer, delivery, where, columns, header)
            rows = zip(part.column("key").to_pylist(), part.column("value").to_pylist(), strict=True)
            self._produce(producer, delivery, where, rows, len(part), extra)
            if number == (output.partitions - 1) // 2:
                if is_armed("output.half"):
                    self._flush(producer, delivery)
                reached("output.half")

    def _parts(self, output: StepOutput, texts: Sequence[str], delivery: Delivery) -> Iterator[OutputPart]:
        bounds = partition_bounds(output.messages, output.partitions)
        for number, text in enumerate(texts):
            where, count = TopicPartition(output.topic, number), bounds[number + 1] - bounds[number]
            end = delivery.ends.get(where, self._state.ends.get(where, 0))
            yield OutputPart(
                handle=output.handle, topic=output.topic, partition=number, messages=count, digest=text, end=end
            )
