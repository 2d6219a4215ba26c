"""Writes the step log, in transactions of one fenced producer. Each transaction ends with records of the log.

Guarantees: a run that was fenced can commit nothing more. After any error, it is determined whether the transaction was
committed before anything else is done. `state` is always the state of the step log, up to this producer's last commit.

At the start the log is read, older writers are fenced, the rest of the log is read, and the claim of the next epoch is
committed. Only then may the caller touch databases.

    begin, produce, flush, records, commit --- no error seen ---> done
      ^                    |
      |                    | any error, even one that the client recovered from
      |                    v
      |         read the tail of the log --- a higher claim ----> Fenced, and the successor is not disturbed
      |                    |
      |           init_transactions
      |                    |
      |         read the tail of the log --- a higher claim ----> Fenced
      |                    |             --- our records -------> done
      `--- nothing is there, written again

The log decides whether a transaction was committed, and not the client. If the answer to a request that ends a
transaction is lost, librdkafka sends the request again, and the first copy may still be on its way. It can then end the
*next* transaction half way. `init_transactions` gives the producer a new epoch on the broker, which refuses every older
request, and returns when no transaction of this producer is open any more. What the log holds after that is final. So the
producer is renewed after every error, also after one from which the client recovered by itself (`error_cb`).

Only a claim in the log shows that another run has taken over, because a broker also fences a producer whose transaction
has timed out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import tenacity
from confluent_kafka import KafkaError, KafkaException, Producer

from base.logger import Logger
from base.short_text import short_text
from faults.points import Point, reached
from io_kafka.clients.open_transaction import OpenTransaction, errors_of_the_client
from io_kafka.clients.rights import rights_refused
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.step_log_reader import StepLogReader
from io_kafka.clients.writer_faults import (
    AWAY,
    FENCED_CODES,
    REFUSED_CODES,
    Fenced,
    NotCommitted,
    OutcomeUnknown,
    WriteRefused,
    code_of,
    is_retriable,
    may_pass,
)
from io_kafka.clients.writer_limits import LAST_LIMITS, WriterLimits
from io_kafka.errors import BrokerRefused, KafkaFault
from io_kafka.offsets import TopicPartition
from io_kafka.step_log.lost import LogOffsetGone
from io_kafka.step_log.records import Claim, Ended, Record, encode
from io_kafka.step_log.state import StepLogState

_log = Logger("io_kafka.clients.transactions")


@dataclass(frozen=True)
class TransactionPoints:
    """The crash points of one kind of transaction."""

    begun: Point
    sent: Point
    committed: Point


LOG_POINTS = TransactionPoints(begun="log.begun", sent="log.sent", committed="log.committed")
OUTPUT_POINTS = TransactionPoints(begun="output.begun", sent="output.sent", committed="output.committed")


@dataclass(frozen=True)
class Claimant:
    """The run that claims a pipeline, as its claim names it."""

    pipeline: str
    host: str
    pid: int
    endpoint: str | None = None
    """The address of its control endpoint, if it has one."""


Send = Callable[[OpenTransaction], list[Record]]
"""Produces the messages of a transaction and returns the records of the log, which are written last. It is called again for each attempt."""


class FencedLog:
    """Writes the step log in transactions of one producer. It is not thread-safe and must not be used in a forked process.

    Invariants: `_state` has all that this writer committed. If there is a `_producer`, it has no open transaction between two calls, and the
    state was equal to the log's after it was made."""

    def __init__(
        self,
        settings: KafkaSettings,
        transactional_id: str,
        log_topic: str,
        *,
        limits: WriterLimits | None = None,
    ) -> None:
        self.run_id = settings.outside.new_id()
        self._settings, self._id, self._log_topic = settings, transactional_id, log_topic
        self._limits = limits or WriterLimits()
        self._reader = StepLogReader(settings, log_topic)
        self._reports = settings.reports()
        self._producer: Producer | None = None
        self._is_in_doubt = False  # the client has reported an error since the producer was made
        self._fenced_without_claim = 0
        self._commits_since_fenced = 0
        self._claim: Claim | None = None
        self._state = StepLogState(log_topic)

    @property
    def state(self) -> StepLogState:
        """The state of the log. There is a new one after every transaction, so callers must not keep it."""
        return self._state

    def forget(self, step: int) -> None:
        """Drops the committed steps below `step` from memory; the log keeps them."""
        self._state = self._state.forget_below(step)

    def note_truncation(self, offset: int) -> None:
        """The log begins at `offset` now."""
        self._state = self._state.truncate(offset)

    @property
    def epoch(self) -> int:
        """The epoch of this run, which every record that it writes must have."""
        assert self._claim is not None, "not started"
        return self._claim.epoch

    def start(self, claimant: Claimant, *, expect_epoch: int | None = None, above: int = -1) -> int:
        """Fences every older writer, reads the log, commits the claim of the next epoch and returns it.

        `expect_epoch`: the epoch whose holder did not answer. `above`: the epoch is higher than this one too. Raises Fenced if another run has
        claimed the pipeline since."""
        assert self._claim is None, "started already"
        self._state = self._reader.read(is_known=True)  # the caller has made sure that the topic exists
        reached("start.log_read")
        before = self._state.epoch if expect_epoch is None else expect_epoch
        epoch = max(before, above) + 1

        def claim() -> int:
            self._renew()
            reached("start.fenced")
            holder = self._state.claim
            if holder is None or holder.run_id != self.run_id:
                if self._state.epoch != before:
                    raise Fenced(self._id, before, holder)
                holder = Claim(epoch=epoch, run_id=self.run_id, **asdict(claimant))
                self._commit_claim(holder)
            self._claim = holder
            return holder.epoch

        with self._translate_errors(f"the claim of epoch {epoch}"):
            return int(self._retry_while_away(claim))

    def confirm(self) -> None:
        """Raises Fenced if another run has claimed the pipeline. A run that was suspended may mistake the work of its successor for an
        error. The successor works as soon as its claim is acknowledged, which may be before the claim can be read."""
        with self._translate_errors("reading the end of the step log"):
            self._reader.wait_decided()
            self._retry_while_away(lambda: self._read_tail(in_doubt=True))

    def record_end(self) -> None:
        """Records that this run has ended, so that the next one need not wait for a sign of it. Nothing can be written after it. Call it when no
        thread of the run is at work any more. What the run has done is done, so it is no fault if this cannot be recorded: the next run waits
        until this one has been silent for long enough."""
        self._limits = LAST_LIMITS
        try:
            self.append([Ended(epoch=self.epoch)])
        except KafkaFault as fault:
            _log.warning("the end of the run could not be recorded", fault=short_text(fault))

    def close(self) -> None:
        """Drops the producer. The next start aborts a transaction that is open."""
        self._discard()

    # One transaction

    def append(self, records: Sequence[Record]) -> None:
        """Commits these records, in order, in one transaction."""
        assert records and self._claim is not None
        what = "a record of the step log: " + ", ".join(r.kind for r in records)
        self.transact(LOG_POINTS, what, lambda transaction: list(records))

    def transact(self, points: TransactionPoints, what: str, send: Send) -> None:
        """Commits what `send` produces, in one transaction, which errors call `what`. Raises Fenced, WriteRefused, OutcomeUnknown,
        BrokerRefused or BrokenStepLog."""
        with self._translate_errors(what):
            for attempt in self._tries(NotCommitted):
                with attempt:
                    self.resolve_doubt()
                    self._attempt(points, what, send)

    def _attempt(self, points: TransactionPoints, what: str, send: Send) -> None:
        assert self._producer is not None
        producer, records, tail = self._producer, list[Record](), list[Record]()
        transaction = OpenTransaction(producer, self._limits.flush_seconds_max)
        try:
            producer.begin_transaction()
            reached(points.begun)
            records = send(transaction)
            after = self._produce_records(transaction, records)
            reached(points.sent)
            self._commit(producer)
            reached(points.committed)
            self._poll_errors(producer)
            if not self._is_in_doubt:
                self._state = after
                self._forget_fences()
                return
            _log.info("transaction committed after errors; reading the log", what=what)
        except KafkaException as error:
            _log.warning("transaction failed; reading the log", what=what, error=str(error))
            self._give_up_if_refused(what, transaction, error)
            if code_of(error) in FENCED_CODES:
                self._look_for_a_claim(error, tail)
        except BaseException:
            self._discard()  # together with the open transaction; the next one begins with a new producer
            raise
        self._discard()
        self._recover(tail)
        if tail and [encode(r) for r in tail] == [encode(r) for r in records]:
            return
        if tail:
            raise BrokerRefused(f"writing {what}", "the step log holds records that this run did not write")
        raise NotCommitted

    def _produce_records(self, transaction: OpenTransaction, records: Sequence[Record]) -> StepLogState:
        """Produces the log's records. Returns the state with them, which holds once the transaction is committed. Without records,
        what is written may be written twice, because the log does not show whether it was committed."""
        if not records:
            return self._state
        where = TopicPartition(self._log_topic, 0)
        transaction.produce(where, ((None, encode(r)) for r in records), len(records), {})
        transaction.flush()
        after, first = self._state, transaction.ends[where] - len(records)
        for index, record in enumerate(records):
            after = after.apply(record, first + index)
        return after

    def _commit(self, producer: Producer) -> None:
        """Commits. It retries after errors that the client calls retriable, until the deadline."""
        for attempt in tenacity.Retrying(
            retry=tenacity.retry_if_exception(is_retriable),
            stop=tenacity.stop_after_delay(self._limits.commit_seconds_max),
            wait=tenacity.wait_fixed(0.05),
            reraise=True,
        ):
            with attempt:
                producer.commit_transaction(self._limits.commit_seconds_max)

    def _commit_claim(self, claim: Claim) -> None:
        """Commits the claim, in its own transaction. Raises if the outcome is in doubt; `start` then reads the log again."""
        assert self._producer is not None
        producer = self._producer
        producer.begin_transaction()
        after = self._produce_records(OpenTransaction(producer, self._limits.flush_seconds_max), [claim])
        reached("claim.sent")
        self._commit(producer)
        reached("claim.committed")
        self._poll_errors(producer)
        if self._is_in_doubt:
            raise NotCommitted
        self._state = after

    # Doubt

    def resolve_doubt(self) -> None:
        """Makes sure that there is a producer without errors and that the state is the log's."""
        if self._producer is not None:
            self._poll_errors(self._producer)
        if self._producer is None or self._is_in_doubt:
            self._discard()
            self._recover([])

    def _recover(self, tail: list[Record]) -> None:
        """Renews the producer. Adds to `tail` the records that were committed since the state was last equal to the log's."""
        self._retry_while_away(lambda: self._renew(tail))

    def _renew(self, tail: list[Record] | None = None) -> None:
        """Makes a new producer, with a new epoch on the broker. The tail of the log is folded into the state before and after."""
        self._discard()
        found = [] if tail is None else tail
        found += self._read_tail(in_doubt=True)
        self._is_in_doubt = False
        config = {
            "transaction.timeout.ms": self._limits.transaction_timeout_ms,
            **self._settings.producer_config(self._id),
            "delivery.report.only.error": False,  # the report of each partition's last message has its offset
            "error_cb": self._on_error,
        }
        producer = self._settings.outside.producer(config)
        # A client without a connection asks for the coordinator of its transactions a second time only after 500 ms.
        producer.list_topics(self._log_topic, timeout=self._limits.init_seconds_max)
        producer.init_transactions(self._limits.init_seconds_max)
        found += self._read_tail()
        self._is_in_doubt = False
        self._reports.answered()
        self._producer = producer

    def _read_tail(self, *, in_doubt: bool = False) -> list[Record]:
        """Folds the tail of the log into the state and returns it. Raises Fenced if it has another run's claim. `in_doubt`: the
        producer was not renewed yet, so the marker of the last transaction may be missing (see StepLogReader.read_tail)."""
        try:
            self._state, tail = self._reader.read_tail(self._state, in_doubt=in_doubt)
        except LogOffsetGone as fault:
            self._begin_again(fault)
            tail = []
        holder = self._state.claim
        if self._claim is not None and holder is not None and holder.run_id != self.run_id:
            self._discard()
            raise Fenced(self._id, self._claim.epoch, holder)
        return tail

    def _begin_again(self, fault: LogOffsetGone) -> None:
        """Reads the whole log again, because records that were not read yet are gone. Another run may have truncated the log meanwhile: during
        the start the run that is being replaced, and later a successor. Otherwise the log has lost records: raises `fault`."""
        before, self._state = self._state, self._reader.read()
        if self._state.epoch < before.epoch or self._state.steps < before.steps:
            raise fault
        if self._claim is not None and self._state.epoch == before.epoch:
            raise fault

    def _retry_while_away(self, action: Callable[[], Any]) -> Any:
        """Does `action`, and repeats it while no broker answers, for at most `recovery_seconds_max`."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_pass),
            stop=tenacity.stop_after_delay(self._limits.recovery_seconds_max),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=self._limits.wait_seconds_max),
            reraise=True,
        )
        return retrying(action)

    def _tries(self, cause: type[Exception]) -> tenacity.Retrying:
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(cause),
            stop=tenacity.stop_after_attempt(self._limits.tries_max),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=self._limits.wait_seconds_max),
            reraise=True,
        )

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Turns the error that is left after all retries into a fault that says what to do."""
        try:
            yield
        except NotCommitted as error:
            self._discard()
            tries = self._limits.tries_max
            raise BrokerRefused(f"writing {what}", f"{tries} transactions failed one after the other") from error
        except (KafkaException, *AWAY) as error:
            self._discard()
            if isinstance(error, KafkaException) and code_of(error) in FENCED_CODES:
                raise Fenced(self._id, self._state.epoch, None) from error
            if isinstance(error, KafkaException) and code_of(error) in REFUSED_CODES:
                raise self._refusal(what, None, error.args[0], set()) from error
            reason = self._reports.reason or str(error)
            raise OutcomeUnknown(what, self._limits.recovery_seconds_max, reason) from error

    def _give_up_if_refused(self, what: str, transaction: OpenTransaction, error: KafkaException) -> None:
        cause = transaction.error or error.args[0]
        if cause.code() not in REFUSED_CODES:
            return
        with suppress(KafkaException):
            transaction.producer.abort_transaction(self._limits.abort_seconds_max)
        self._discard()
        raise self._refusal(what, transaction.where, cause, transaction.topics) from error

    def _refusal(
        self, what: str, where: TopicPartition | None, cause: KafkaError, topics: Collection[str]
    ) -> KafkaFault:
        """`topics`: those that the transaction writes to beside the log."""
        missing = rights_refused(
            self._settings, cause, self._id, {self._log_topic, *topics}, f"{what} cannot be written"
        )
        return WriteRefused(what, where, cause) if missing is None else missing

    def _look_for_a_claim(self, error: KafkaException, tail: list[Record]) -> None:
        """After a fence. Raises Fenced if the log has a higher claim, or if this producer was fenced too often without one. A few fences without
        a claim are ignored, because a transaction may time out. The bound keeps two runs from fencing each other for ever.

        The records that it finds are added to `tail`. The transaction may be among them: its commit may have been done, and its answer lost."""
        self._discard()
        self._retry_while_away(lambda: tail.extend(self._read_tail(in_doubt=True)))
        self._fenced_without_claim += 1
        self._commits_since_fenced = 0
        if self._fenced_without_claim > self._limits.fenced_without_claim_max:
            raise Fenced(self._id, self.epoch, None) from error

    def _forget_fences(self) -> None:
        self._commits_since_fenced += 1
        if self._commits_since_fenced >= self._limits.fence_forgotten_commits:
            self._fenced_without_claim = 0

    def _discard(self) -> None:
        """Drops the producer with all that it has not sent. The broker aborts its transaction at the next init."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge(blocking=False)

    def _poll_errors(self, producer: Producer) -> None:
        """Polls the client for the errors that it has seen since the last call."""
        try:
            with errors_of_the_client():
                producer.poll(0)
        except KafkaException as error:
            self._on_error(error.args[0])

    def _on_error(self, error: KafkaError) -> None:
        self._is_in_doubt = True
        self._reports.note(error)
        _log.debug("the client reports an error", error=str(error))
