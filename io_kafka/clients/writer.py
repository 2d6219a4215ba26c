"""The pipeline's only writer. Everything that Stepwell writes to Kafka goes through one transactional.id, except the rows of a batch table that
is loaded while steps run (table_writer.py).

Guarantees: the output of a step, its digests and the ends of its partitions become visible together or never, and only
once. The output of a replayed step is compared with what was written and discarded. No other run of the pipeline can write
at the same time.

transactions.py describes how older writers are fenced and how errors in a transaction are handled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from faults.points import is_armed, reached
from io_kafka.clients import native
from io_kafka.clients.open_transaction import OpenTransaction
from io_kafka.clients.transactions import LOG_POINTS, OUTPUT_POINTS, FencedLog
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.digest import digests, partition_bounds
from io_kafka.step_log.output_progress import OutputDecision, decide
from io_kafka.step_log.plans import messages_of
from io_kafka.step_log.records import (
    DivisionRecord,
    InputChecksum,
    InputRange,
    NodeErrors,
    OutputPart,
    PartitionOffset,
    Record,
    StepRecord,
    TableRecord,
    TakenBack,
    TopicIdentity,
    UnknownIds,
)
from io_kafka.step_log.state import StepLogState

STEP_HEADER = "stepwell.step"
"""The name of the header that holds the number of a message's step, in decimal digits."""


NATIVE_MESSAGES_MIN = 100
"""From this number of messages of one partition in a step on, the C extension is used. Below it, the call costs as much as it saves."""


@dataclass(frozen=True)
class HandleOutput:
    """The output of one handle in one step. `messages` has the columns of MESSAGES_SCHEMA and is in canonical order."""

    handle: str
    topic: str
    partitions: int
    messages: pa.Table


@dataclass(frozen=True)
class TablePart:
    """A part of a load of a batch table. `messages`: by partition. `ends`: of the parts before it, by partition. `rows`: of all parts up to
    this one."""

    messages: Mapping[int, Sequence[bytes]]
    ends: Mapping[int, int]
    rows: int


class PipelineWriter:
    """Writes output and tombstones in transactions of `log`, which also takes records without output. Only the coordinator's thread uses it.

    `step_header`: whether messages have a header with their step. It costs 0.7 us per message that is produced without the extension."""

    def __init__(self, log: FencedLog, *, step_header: bool = True) -> None:
        self.log, self._step_header = log, step_header

    @property
    def state(self) -> StepLogState:
        """The state of the log; see FencedLog.state."""
        return self.log.state

    @property
    def epoch(self) -> int:
        """The epoch of this run; see FencedLog.epoch."""
        return self.log.epoch

    def append_plans(self, topic: str, texts: Sequence[str]) -> None:
        """Commits these plan documents. A record may name them from then on."""
        self.append_with_plans((), topic, texts)

    def append_with_plans(self, records: Sequence[Record], topic: str, texts: Sequence[str]) -> None:
        """Commits these records, in order, and before them the plan documents that they name, in one transaction. `topic`: that of plan
        documents."""

        def send(transaction: OpenTransaction) -> list[Record]:
            messages = [message for text in texts for message in messages_of(text)]
            transaction.produce(TopicPartition(topic, 0), iter(messages), len(messages), {})
            transaction.flush()
            return list(records)

        self.log.transact(LOG_POINTS, "a plan document: " + ", ".join(record.kind for record in records), send)

    def write_step(
        self,
        step: int,
        outputs: Iterable[HandleOutput],
        *,
        encoder: str,
        inputs: Sequence[InputChecksum] = (),
        again: Sequence[InputChecksum] = (),
        skipped: Mapping[str, int] | None = None,
        unknown: Sequence[UnknownIds] | None = None,
        errors: Sequence[NodeErrors] = (),
        divisions: Sequence[DivisionRecord] = (),
    ) -> StepRecord | None:
        """Commits all output of `step`, its record, and the `divisions` of later steps, in one transaction.

        If the step's output is in the log already, the new output is compared with it. Nothing is written then, not even `divisions`.

        Returns the step's record; after a comparison it is the recorded one, or None if the log no longer has it.

        Raises DigestMismatch, StepBeyondEnd, Fenced, WriteRefused, OutcomeUnknown."""
        ordered = sorted(outputs, key=lambda output: output.handle)
        computed = {output.handle: digests(output.messages, output.partitions, encoder) for output in ordered}
        flat = {(handle, number): text for handle, texts in computed.items() for number, text in enumerate(texts)}
        self.log.resolve_doubt()
        log = self.state
        if decide(step, flat, log.step_records, log.first, log.steps) is OutputDecision.DISCARD:
            return log.step_records.get(step)

        def send(transaction: OpenTransaction) -> list[Record]:
            for output in ordered:
                self._produce_output(transaction, step, output)
            transaction.flush()
            record = StepRecord(
                epoch=self.epoch,
                step=step,
                outputs=tuple(p for o in ordered for p in self._parts(o, computed[o.handle], transaction.ends)),
                encoder=encoder,
                inputs=tuple(inputs),
                again=tuple(again),
                skipped=dict(skipped or {}),
                unknown=None if unknown is None else tuple(unknown),
                errors=tuple(errors),
            )
            return [record, *divisions]

        self.log.transact(OUTPUT_POINTS, f"step {step}", send)
        return self.state.step_records[step]

    def take_back(self, generation: int, output: HandleOutput) -> None:
        """Commits tombstones, which belong to no step, and a record of the partitions' new ends."""

        def send(transaction: OpenTransaction) -> list[Record]:
            self._produce_output(transaction, None, output)
            transaction.flush()
            ends = tuple(
                PartitionOffset(topic=where.topic, partition=where.partition, offset=end)
                for where, end in sorted(transaction.ends.items())
            )
            return [TakenBack(epoch=self.epoch, generation=generation, ends=ends)]

        self.log.transact(OUTPUT_POINTS, f"tombstones for {output.topic}", send)

    def write_table(
        self, handle: str, topic: TopicIdentity, starts: Mapping[int, int], part: TablePart, *, is_whole: bool
    ) -> TableRecord:
        """Commits messages of a batch table, and the record of what the load that began at `starts` has written so far. `starts`: by
        partition."""

        def send(transaction: OpenTransaction) -> list[Record]:
            for number, values in sorted(part.messages.items()):
                where = TopicPartition(topic.topic, number)
                transaction.produce(where, ((None, value) for value in values), len(values), {})
            transaction.flush()
            written = {**part.ends, **{where.partition: end for where, end in transaction.ends.items()}}
            ranges = tuple(
                InputRange(topic=topic.topic, partition=number, start=start, end=written.get(number, start))
                for number, start in sorted(starts.items())
            )
            return [
                TableRecord(
                    epoch=self.epoch, handle=handle, topic=topic, ranges=ranges, rows=part.rows, is_whole=is_whole
                )
            ]

        self.log.transact(OUTPUT_POINTS, f"rows of {handle}", send)
        return self.state.tables[topic.topic]

    def _produce_output(self, transaction: OpenTransaction, step: int | None, output: HandleOutput) -> None:
        bounds = partition_bounds(output.messages, output.partitions)
        header = (STEP_HEADER, str(step).encode()) if self._step_header and step is not None else None
        extra: dict[str, Any] = {} if header is None else {"headers": [header]}
        for number in range(output.partitions):
            part = output.messages.slice(bounds[number], bounds[number + 1] - bounds[number])
            where = TopicPartition(output.topic, number)
            if len(part) >= NATIVE_MESSAGES_MIN and native.serves(transaction.producer):
                # The last message goes through confluent-kafka, because its delivery is reported (decision 0026).
                all_but_the_last, part = part.slice(0, len(part) - 1), part.slice(len(part) - 1)
                for batch in all_but_the_last.to_batches():
                    columns = native.Columns.of(batch.column("key"), batch.column("value"))
                    transaction.produce_natively(where, columns, header)
            rows = zip(part.column("key").to_pylist(), part.column("value").to_pylist(), strict=True)
            transaction.produce(where, rows, len(part), extra)
            if number == (output.partitions - 1) // 2:
                if is_armed("output.half"):
                    transaction.flush()
                reached("output.half")

    def _parts(
        self, output: HandleOutput, texts: Sequence[str], ends: Mapping[TopicPartition, int]
    ) -> Iterator[OutputPart]:
        bounds = partition_bounds(output.messages, output.partitions)
        for number, text in enumerate(texts):
            where, count = TopicPartition(output.topic, number), bounds[number + 1] - bounds[number]
            end = ends.get(where, self.state.ends.get(where, 0))
            yield OutputPart(
                handle=output.handle, topic=output.topic, partition=number, messages=count, digest=text, end=end
            )
