"""Records of transitions between revisions, and a slow model of what each step runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from io_kafka.step_log.programs import FillingProgram, PresentProgram, ProgramOfStep, SwitchingProgram
from io_kafka.step_log.records import DivisionRecord, InputRange, Record, Reset, StepRecord, TableRecord, TopicIdentity
from io_kafka.step_log.revision_records import (
    Choices,
    Drain,
    ReadAgain,
    RevisionIntent,
    RevisionPause,
    RevisionRecord,
    RevisionSettled,
    RevisionSwitch,
    RevisionTurn,
    TransitionPlans,
    TurnTo,
)

WHOLE = 10
DRAIN = Drain(whole=8, rows=100)


def revision(number: int = 1, step: int = 0, epoch: int = 0) -> RevisionRecord:
    return RevisionRecord(epoch=epoch, number=number, plan=f"{number:064x}", step=step)


def begins(
    number: int = 2,
    step: int = 0,
    *again: ReadAgain,
    whole: int = WHOLE,
    epoch: int = 0,
    tables: tuple[TableRecord, ...] = (),
    gradual: bool = False,
) -> RevisionIntent:
    choices = Choices(hold=False, gradual=gradual)
    plan, names = f"{number:064x}", (f"{10 * number + i:064x}" for i in range(5))
    plans = TransitionPlans(**dict(zip(TransitionPlans.model_fields, names, strict=True)))
    return RevisionIntent(
        epoch=epoch,
        number=number,
        plan=plan,
        plans=plans,
        whole=whole,
        choices=choices,
        again=again,
        step=step,
        tables=tables,
    )


def switches(
    number: int = 2, step: int = 1, *topics: TopicIdentity, epoch: int = 0, drain: Drain | None = None
) -> RevisionSwitch:
    return RevisionSwitch(epoch=epoch, number=number, step=step, topics=topics, drain=drain)


def turns(reason: TurnTo, step: int | None = None, *, number: int = 2, epoch: int = 0) -> RevisionTurn:
    error = None if reason in ("abort", "resume") else "it fails"
    return RevisionTurn(epoch=epoch, number=number, reason=reason, step=step, error=error)


def pauses(is_paused: bool = True, *, number: int = 2, epoch: int = 0) -> RevisionPause:
    return RevisionPause(epoch=epoch, number=number, is_paused=is_paused)


def settles(number: int = 2, step: int = 1, *tables_gone: str, epoch: int = 0) -> RevisionSettled:
    return RevisionSettled(epoch=epoch, number=number, step=step, tables_gone=tables_gone)


def loaded(topic: str, *ends: int, handle: str = "t", is_whole: bool = True) -> TableRecord:
    """A load of a batch table. `ends`: of its partitions, each of which begins at 0."""
    ranges = tuple(InputRange(topic=topic, partition=n, start=0, end=end) for n, end in enumerate(ends))
    identity = TopicIdentity(topic=topic, id=f"id of {topic}", partitions=len(ends))
    return TableRecord(epoch=0, handle=handle, topic=identity, ranges=ranges, rows=sum(ends), is_whole=is_whole)


def fills(step: int, filled: int | None, *, start: int = 0, end: int | None = None, epoch: int = 0) -> DivisionRecord:
    """A division, without input unless `end` is given."""
    ranges = (InputRange(topic="in", partition=0, start=start, end=start if end is None else end),)
    return DivisionRecord(epoch=epoch, step=step, ranges=ranges, filled=filled)


@dataclass
class Programs:
    """What each step of a generation runs: it is written down for each division, and changed when a later record says so."""

    in_force: RevisionRecord | None = None
    before: RevisionRecord | None = None
    intent: RevisionIntent | None = None
    switch: int | None = None
    fills_from: int | None = None
    drain: Drain | None = None
    programs: dict[int, ProgramOfStep] = field(default_factory=dict)
    divisions: dict[int, DivisionRecord] = field(default_factory=dict)

    def add(self, record: Record) -> None:
        match record:
            case RevisionRecord():
                self.in_force = record
                for step in [step for step in self.programs if step < record.step]:
                    del self.programs[step], self.divisions[step]  # no step before it is replayed
            case RevisionIntent():
                self.before, self.intent, self.fills_from = self.in_force, record, record.step
            case DivisionRecord():
                self._divide(record)
            case StepRecord() if self.drain is not None:
                assert self.switch is not None and record.step >= self.switch
                if self.divisions[record.step].filled == self.drain.whole:
                    self.intent = self.switch = self.drain = None
            case StepRecord() if record.step == self.switch:
                self.intent = self.switch = None
            case RevisionSwitch():
                assert self.intent is not None
                self.switch, self.fills_from, plan = record.step, None, self.intent.plan
                self.drain = record.drain
                self.in_force = RevisionRecord(epoch=record.epoch, number=record.number, plan=plan, step=record.step)
            case RevisionTurn():
                self._turn(record)
            case Reset():
                self.intent = self.switch = self.fills_from = self.drain = None
                self._drop_from(0)
            case _:
                pass

    def _divide(self, record: DivisionRecord) -> None:
        step, former = record.step, self.divisions.get(record.step)
        self.divisions[step] = record
        if former is not None:
            if (former.ranges, former.counted) != (record.ranges, record.counted):
                self._drop_from(step + 1)
            return
        self.programs[step] = PresentProgram(self.in_force)
        if self.intent is not None and self.before is not None:
            if self.drain is not None:
                assert record.filled is not None and self.switch is not None
                last = self.programs.get(step - 1) if step > self.switch else None
                so_far = last.drained[1] if isinstance(last, SwitchingProgram) and last.drained is not None else 0
                self.programs[step] = SwitchingProgram(self.before, self.intent, (so_far, record.filled))
            elif step == self.switch:
                self.programs[step] = SwitchingProgram(self.before, self.intent)
            elif self.fills_from is not None and step >= self.fills_from:
                assert record.filled is not None
                last = self.programs.get(step - 1)
                so_far = last.after if isinstance(last, FillingProgram) and step > self.fills_from else 0
                self.programs[step] = FillingProgram(self.before, self.intent, so_far, record.filled)

    def _turn(self, record: RevisionTurn) -> None:
        assert self.intent is not None and self.before is not None
        if self.switch is not None:
            self._drop_from(self.switch)
            self.in_force, self.switch, self.drain = self.before, None, None
        if record.reason == "taken_back":
            last = max(step for step, program in self.programs.items() if isinstance(program, FillingProgram))
            self.fills_from = last
        elif record.reason == "resume":
            self.fills_from = record.step
        else:
            for step, program in self.programs.items():
                if isinstance(program, FillingProgram) and program.intent == self.intent:
                    self.programs[step] = PresentProgram(self.before)
            self.fills_from = None
            self.intent = None if record.reason == "abort" else self.intent

    def _drop_from(self, step: int) -> None:
        for number in [number for number in self.programs if number >= step]:
            del self.programs[number], self.divisions[number]
