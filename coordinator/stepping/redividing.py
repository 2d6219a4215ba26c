"""When a recorded step is divided again, and what its new division is. The output of the step is not in the log yet.

why                                      the new division              what follows
the policy for malformed messages is     the present policy            the step is given
  another one than an earlier run's
a worker has too many bytes              less input, if all workers    the step is given once more to the same workers
                                           together have too many
rows give an error                       leaves them out and counts    Redivided: the crew is replaced, and all go back to the last
                                           them                          checkpoint
a view has an error over the rows up     more input                    Redivided
  to the step's end
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from base.logger import Logger
from coordinator.stepping.inputs import Inputs
from coordinator.stepping.views_in_error import can_count, count_all
from engine.errors import DataError, EngineError
from engine.model.filling import is_read_again
from engine.model.numbers import NumberedCircuit
from engine.run.step_input import StepInput
from io_kafka.clients.reader import RangeReader
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.writer import PipelineWriter
from io_kafka.errors import CANNOT_READ, StepTooLarge
from io_kafka.offsets import OffsetRange, TopicPartition
from io_kafka.step_log.records import DivisionRecord

_log = Logger("coordinator.stepping.redividing")


class Redivided(EngineError):
    """A step was divided again while workers had a part of it. The crew is replaced."""


class Redividing:
    """The new divisions of the steps of one program."""

    def __init__(self, kafka: KafkaSettings, writer: PipelineWriter, inputs: Inputs) -> None:
        self._kafka, self._writer, self._inputs = kafka, writer, inputs

    def record_policy_in_force(self, record: DivisionRecord) -> DivisionRecord:
        """The division of a step that has no output yet, with the project's present policy for malformed messages. It is recorded again if an
        earlier run recorded another policy. No database holds rows of the step under that policy, because all were opened since."""
        if record.epoch == self._writer.epoch:
            return record  # the files of a transition that was given up may have had another policy
        recorded, policy = record.policy, self._inputs.policy
        if self._writer.state.revisions.passage_that_fills(record.step) is None:
            recorded = recorded.without(is_read_again)  # which counts no more
        if recorded == policy:
            return record
        again = record.with_policy(self._writer.epoch, policy)
        self._writer.log.append([again])
        return again

    def record_within_bytes(
        self, record: DivisionRecord, given: StepInput, kafka_reread: KafkaSettings
    ) -> DivisionRecord:
        """The division of a step of which a worker has more than its share of `bytes_max`. A worker knows only its own ranges, so the step as a
        whole may be within the bound. Here all ranges are measured together. If they have too many bytes, the step is divided again, over less
        input. `kafka_reread`: the settings by which messages are read again."""
        ends = _ends_within(given, given.ranges, self._kafka)
        if ends is not None:
            record = record.with_ends(self._writer.epoch, ends)
            self._writer.log.append([record])
            _log.info("a step was larger than stepwell.step.bytes.max", step=record.step, rows=record.division.rows)
        again = _ends_within(given, given.again, kafka_reread)
        cut = record if again is None else record.with_reread_ends(self._writer.epoch, again)
        if cut.again != record.again:
            record = cut
            self._writer.log.append([record])
            _log.info("a step would have read more again than stepwell.step.bytes.max", step=record.step)
        return record

    def count_error_rows(self, numbered: NumberedCircuit, record: DivisionRecord, fault: DataError) -> None:
        """Divides a step again, over the same input, so that rows that give an error are left out and counted. Raises Redivided then, and
        returns if the error is not one of rows."""
        if not can_count(numbered, self._writer.state, record, fault):
            return
        self._writer.log.append([count_all(numbered, self._writer.epoch, record)])
        raise Redivided(f"step {record.step} leaves out rows that give an error: {fault}") from fault

    def widen_if_possible(self, record: DivisionRecord, fault: DataError) -> None:
        """Divides a step again, over more input, if a view has an error over the rows up to its end: Spark has no answer there either, and
        where a step ends is our choice alone. Raises Redivided then, and returns if there is no more input. A malformed message, which has a
        place in the input, stays malformed whatever follows it."""
        log = self._writer.state
        if fault.place is not None or record.step < log.steps:
            return
        ends = self._inputs.widen(record)
        if ends is None:
            return
        wider = record.with_ends(self._writer.epoch, ends)
        self._writer.log.append([wider])
        raise Redivided(
            f"step {record.step} ends after {wider.division.rows} rows instead of {record.division.rows}: {fault}"
        ) from fault


def _ends_within(
    given: StepInput, ranges: Sequence[OffsetRange], settings: KafkaSettings
) -> Mapping[TopicPartition, int] | None:
    """Where these ranges have to end, so that they are within their share of the step's bytes; None if they are."""
    spans = [span for span in ranges if span.length]
    if not spans:
        return None
    reader = RangeReader(settings)
    try:
        reader.read(spans, bytes_max=given.bytes_max_of(spans))
    except StepTooLarge as fault:
        return fault.ends
    except CANNOT_READ:
        return None  # the workers meet it when the step is given again, unless they have fetched all messages by now
    finally:
        reader.close()
    return None
