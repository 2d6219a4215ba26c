"""What must hold of divisions, of what is read again and filled, and of what each step writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.simulator.batch_answer import Sums, View, groups_of, summed, views_of
from tests.simulator.broker import Broker, Entry, Where
from tests.simulator.circuit import (
    AGGREGATE_NUMBER,
    GROUPS,
    INPUT,
    OTHER,
    PARTITIONS,
    ROWS,
    SUMS,
    TALLIES,
    WRONG,
    Project,
    message_of,
    row_of,
    slot,
    spread,
)
from tests.simulator.oracle_of_revisions import RevisionOracle

Messages = dict[Where, list[tuple[bytes | None, bytes | None]]]


class StepOracle:
    """The divisions and the steps that are written. `sums[s]`: the view after the steps below s."""

    def __init__(self, broker: Broker, step_bytes: int | None, seen: dict[str, int]) -> None:
        self._broker, self._step_bytes, self._seen = broker, step_bytes, seen
        self.divided: list[dict[Where, tuple[int, int]]] = []
        self.again: list[dict[Where, tuple[int, int]]] = []
        """Of each division: what it reads again for new nodes."""
        self.first: dict[Where, int] = {}
        """Where each input began that the project in force reads."""
        self.withheld: list[frozenset[str]] = []
        """Of each division: the outputs that it withholds, because they are behind nodes whose error rows it counts."""
        self.answered: dict[str, View] = {SUMS: {}, GROUPS: {}, TALLIES: {}}
        """The views after the last step that had an answer."""
        self.frozen: dict[str, View] = {}
        """During a drain: the views of the former project before the switch."""
        self.left: View = {}
        """What the topic of the tallies holds of a former view."""
        self.revisions = RevisionOracle()
        self.fills: list[int | None] = []
        """Of each division: up to where it fills."""
        self.fills_from = 0
        """The step from which the transition under way fills."""
        self.written = 0
        self.sums: list[Sums] = [{}]
        self.ends: dict[Where, int] = {}

    def divide(self, record: Mapping[str, Any]) -> bool:
        """A division is recorded. Returns whether the step is divided again over less input."""
        step, is_cut = record["step"], False
        former = (self.fills[step], self.again[step]) if step < len(self.fills) else (None, {})
        if self.written == step < len(self.divided):
            if AGGREGATE_NUMBER in record["counted"] and SUMS not in self.withheld[step]:
                self._count(record)
            else:
                self._cut(record)
                is_cut = True
        assert step == len(self.divided), f"a division of step {step}, and {len(self.divided)} is next"
        assert step <= self.written + 1, f"step {step} is divided, and step {self.written} is not written"
        ranges = _spans(record["ranges"])
        for where, (start, end) in ranges.items():
            self._begin_with(where, start, step)
            before, stable = self._position(where, step), self._broker.partition(where).stable
            assert before == start <= end, f"step {step}: {where} {start} to {end} after offset {before}"
            assert end <= stable, f"step {step}: {where} is divided up to {end}, stable up to {stable}"
        gone = self.divided[-1].keys() - ranges.keys() if self.divided else set()
        assert not gone or (self.revisions.is_switched(step) and {topic for topic, _ in gone} == {OTHER}), (
            f"step {step} left {gone} out"
        )
        self._withhold(record)
        self._read_again(record, ranges, former[1])
        self._fill(record, former[0])
        self.divided.append(ranges)
        self._seen["divisions"] += 1
        return is_cut

    def _begin_with(self, where: Where, start: int, step: int) -> None:
        """A partition that no division before this one has. What has expired there by then does not count."""
        if (self.divided and where in self.divided[-1]) or self._goes_on(where, step):
            return
        assert start <= self._broker.partition(where).begin, f"step {step} begins with {where} at {start}"
        assert start == 0 or where[0] == OTHER
        self.first[where] = start

    def _goes_on(self, where: Where, step: int) -> bool:
        """Whether only the next project reads the partition, and this is its first step."""
        known = self.revisions
        return known.is_switched(step) and where in known.starts and where not in known.live

    def _position(self, where: Where, step: int) -> int:
        """Where the division of a step has to begin."""
        if self.divided and where in self.divided[-1]:
            return self.divided[-1][where][1]
        return self.read_again[where] if self._goes_on(where, step) else self.first[where]

    @property
    def read_again(self) -> dict[Where, int]:
        """Up to where the transition has read again before the next division."""
        found = dict(self.revisions.starts)
        for ranges in self.again[self.fills_from :]:
            found.update({where: end for where, (_, end) in ranges.items()})
        return found

    def _read_again(
        self,
        record: Mapping[str, Any],
        ranges: Mapping[Where, tuple[int, int]],
        former: Mapping[Where, tuple[int, int]],
    ) -> None:
        """`former`: what an earlier division of the step says. It stays there when the transition is over, and then it means nothing; where the
        step is divided again, it ends no later than the rest of the step."""
        again, step = _spans(record["again"]), record["step"]
        is_over = self.revisions.phase != "filling"
        assert not is_over or _is_part(again, former), f"step {step} reads {again} again after {former}"
        known = self.read_again
        for where, (start, end) in again.items() if self.revisions.phase == "filling" else ():
            before = known[where] if where in known else self.first[where]
            assert before == start <= end, f"step {step}: {where} is read again from {start} to {end} after {before}"
            level = ranges[where][1] if where in ranges else self._broker.partition(where).stable
            assert end <= level, f"step {step}: {where} is read again up to {end}, and the others are at {level}"
            self._seen["read again"] += start < end
        self.again.append(again)

    @property
    def filled(self) -> int:
        """The position before the next division."""
        return max((filled for filled in self.fills[self.fills_from :] if filled is not None), default=0)

    @property
    def drained(self) -> int:
        """Up to where what differs leaves before the next division."""
        found = self.fills[self.revisions.drains_from :]
        return max((drained for drained in found if drained is not None), default=0)

    def _fill(self, record: Mapping[str, Any], former: int | None) -> None:
        """How far a step fills is in its division, and it never goes back. `former`: what an earlier division of the step says. It stays there
        when the transition is over, and then it means nothing."""
        filled = record.get("filled")
        if self.revisions.drain is not None:
            drained = self.drained
            assert drained < self.revisions.drain, f"{filled} after everything has left"
            assert filled is not None and drained <= filled <= self.revisions.drain, f"{filled} after {drained}"
            self.fills.append(filled)
            return
        is_filling = self.revisions.phase == "filling"
        assert is_filling == (filled is not None) or filled == former, f"{filled} while {self.revisions.phase}"
        if filled is not None and is_filling:
            assert self.filled <= filled <= self.revisions.whole, f"{filled} after {self.filled}"
        self.fills.append(filled)

    @property
    def is_in_error(self) -> bool:
        return WRONG in self.sums[-1]

    def _withhold(self, record: Mapping[str, Any]) -> None:
        """The sums are withheld from the step on that finds an error, and released by the first division after the last error is gone. The step
        that finds one counts the error rows of all nodes, so it withholds the tallies too."""
        step, counted = record["step"], set(record["counted"])
        withheld = {SUMS, GROUPS} if AGGREGATE_NUMBER in counted else set()
        if not counted.isdisjoint(self.revisions.tallies(step)):
            withheld.add(TALLIES)
        before = self.withheld[-1] if self.withheld else frozenset()
        assert withheld or step != self.written or not self.is_in_error, f"step {step} does not count what is in error"
        released = set(record["released"])
        is_of_new = self._seen["intents"] and not before - withheld  # nodes that nobody counts after the switch
        assert is_of_new or released == before - withheld, (
            f"step {step}: {released} after {before}, and {withheld} are withheld"
        )
        self.withheld.append(frozenset(withheld))
        self._seen["released"] += SUMS in before - withheld

    def _count(self, record: Mapping[str, Any]) -> None:
        """The step whose output is next is divided again over the same input, because a row is in error. All workers go back after that."""
        step = record["step"]
        found = _spans(record["ranges"])
        assert found == self.divided[step], f"step {step} is divided again over {found}"
        rows = dict(self.sums[step])
        for key, number, weight in self.input_of(step):
            count, total = rows.get(key, (0, 0))
            rows[key] = count + weight, total + number * weight
        assert rows.get(WRONG, (0, 0)) != (0, 0), f"step {step} counts errors, and has none"
        self.forget(step)
        self._seen["counted"] += 1

    def forget(self, step: int) -> None:
        """The divisions from this step on."""
        del self.divided[step:], self.again[step:], self.withheld[step:], self.fills[step:]

    def _cut(self, record: Mapping[str, Any]) -> None:
        """The step whose output is next is divided again over less input: as much as its bytes allow, and never nothing. That voids the
        division after it, of which no state has seen anything (DatabaseOracle.check_not_beyond). So does what it reads again."""
        step = record["step"]
        later = self.divided[step + 1 :]
        new, old = (_spans(record["ranges"]), _spans(record["again"])), (self.divided[step], self.again[step])
        assert new != old
        for found, before in zip(new, old, strict=True):
            assert found.keys() == before.keys()
            assert all(start == before[where][0] and end <= before[where][1] for where, (start, end) in found.items())
            assert found == before or any(start < end for start, end in found.values())
        self.forget(step)
        self._seen["cuts"] += 1
        self._seen["voided"] += len(later)

    def write(self, record: Mapping[str, Any], output: dict[Where, list[tuple[int, Entry]]]) -> None:
        """A step is written, with this output."""
        step = record["step"]
        assert step == self.written, f"step {step} was written, and {self.written} is next"
        assert step < len(self.divided), f"step {step} was written before its division"
        self._bounded(step)
        now = self.revisions.at(step)
        expected = self._expected(step, now)
        found = {where: [(e.key, e.value) for _, e in entries] for where, entries in output.items()}
        assert found == expected, f"step {step}: found {found}, expected {expected}"
        assert bool(record["errors"]) == self.is_in_error, f"step {step}: {record['errors']}"
        assert self.withheld[step] or not self.is_in_error, f"step {step} has rows in error that it does not count"
        self._check_again(record)
        for where, entries in output.items():
            assert all(dict(e.headers)["stepwell.step"] == b"%d" % step for _, e in entries), where
            assert entries[0][0] >= self.ends.get(where, 0), f"step {step}: {where} goes back"
            self.ends[where] = entries[-1][0] + 1
        for part in record["outputs"]:
            where = part["topic"], part["partition"]
            assert part["end"] == self.ends.get(where, 0), f"step {step}: the end of {where} is not {part['end']}"
        assert len(record["outputs"]) == sum(PARTITIONS[topic] for topic in now.outputs)
        self.written += 1
        self._seen["steps of a drain"] += self.revisions.drain is not None
        self.revisions.written(step, self.fills[step])
        self._seen["steps"] += 1

    def _spans_again(self, step: int) -> Mapping[Where, tuple[int, int]]:
        """What a step that is not written reads again. What its division says counts no more when the transition has been given up."""
        return self.again[step] if self.revisions.phase == "filling" and step >= self.fills_from else {}

    def _check_again(self, record: Mapping[str, Any]) -> None:
        """The record of a step says how many messages it has read again, if the transition has not been given up."""
        step = record["step"]
        spans = self._spans_again(step)
        expected = {where: len(self._broker.partition(where).committed(*span)) for where, span in spans.items()}
        found = {(part["topic"], part["partition"]): part["messages"] for part in record["again"]}
        assert _without_zeros(found) == _without_zeros(expected), f"step {step} has read {found} again of {expected}"

    def _bounded(self, step: int) -> None:
        """The step's messages are within the bound, but for the first message of each range, which always gets through. Where messages have
        expired, the coordinator cannot tell how many are too many, while a worker may have fetched them all before."""
        if self._step_bytes is None:
            return
        spans = [*self.divided[step].items(), *self._spans_again(step).items()]
        there = [(self._broker.partition(where), span) for where, span in spans]
        ranges = [partition.committed(*span) for partition, span in there if partition.begin <= span[0]]
        sizes = [[len(e.value or b"") + len(e.key or b"") for _, e in entries] for entries in ranges]
        held = sum(sum(each) for each in sizes if len(each) > 1)
        assert held <= self._step_bytes, f"step {step} holds {sizes} bytes, and {self._step_bytes} are allowed"

    def _expected(self, step: int, project: Project) -> Messages:
        """The messages of a step, and the sums after it, from the input's committed records alone: what the outputs hold differs from what the
        project says by as much."""
        before, sums = self.sums[step], dict(self.sums[step])
        messages: Messages = defaultdict(list)
        for key, number, weight in self.input_of(step):
            count, total = sums.get(key, (0, 0))
            sums[key] = count + weight, total + number * weight
            messages[ROWS, spread(key, PARTITIONS[ROWS])].append((None, message_of((key, number, weight))))
        sums = {key: value for key, value in sums.items() if value != (0, 0)}
        if not project.scale:  # the topic stays as it is
            self.left, self.answered[TALLIES] = {**self.left, **self.answered[TALLIES]}, {}
        for topic, view in self._views(step, project, sums).items():
            if topic in self.withheld[step]:
                continue
            shown = self.answered[topic]
            for row in sorted(shown.keys() | view.keys()):
                if shown.get(row) != view.get(row):
                    messages[topic, spread(row.decode(), PARTITIONS[topic])].append((row, view.get(row)))
                    if topic == TALLIES:
                        self.left.pop(row, None)
            self.answered[topic] = view
        assert len(self.sums) == step + 1 and before is self.sums[step]
        self.sums.append(sums)
        return {where: sorted(found, key=_canonical) for where, found in messages.items()}

    def _views(self, step: int, project: Project, sums: Sums) -> dict[str, View]:
        """What the outputs hold after a step. In a drain a changed view has its new rows below the position, and above it those that it had
        before the switch, and what reads it is computed from that."""
        views, known = views_of(project, sums, self._others(step)), self.revisions
        if known.drain is None or known.former is None:
            return views
        former, end = known.former, (self.fills[step] or 0) >> 48
        if not self.frozen:
            others = self._others(step - 1) if step else {}
            self.frozen = {TALLIES: {}, **views_of(former, self.sums[step], others)}

        def mixed(topic: str) -> View:
            new = {key: value for key, value in views[topic].items() if slot(key.decode()) < end}
            return new | {key: value for key, value in self.frozen[topic].items() if slot(key.decode()) >= end}

        if (project.factor, project.odd) != (former.factor, former.odd):
            views[SUMS] = mixed(SUMS)
            views[GROUPS] = groups_of(project, views[SUMS])
        if project.modulus != former.modulus:
            views[GROUPS] = groups_of(project, views_of(project, sums, {})[SUMS])
            views[GROUPS] = mixed(GROUPS)
        if project.scale and (project.scale, project.other) != (former.scale, former.other):
            views[TALLIES] = mixed(TALLIES)
        return views

    def input_of(self, step: int) -> Iterator[tuple[str, int, int]]:
        """The rows of the first input that a step reads."""
        for where, span in sorted(self.divided[step].items()):
            if where[0] == INPUT:
                yield from self._rows(where, span)

    def _others(self, step: int) -> Sums:
        """The sums over the other topic after a step, from where the project began with it."""
        spans = (
            (where, (self.first[where], end)) for where, (_, end) in self.divided[step].items() if where[0] == OTHER
        )
        return summed(row for where, span in spans for row in self._rows(where, span))

    def _rows(self, where: Where, span: tuple[int, int]) -> Iterator[tuple[str, int, int]]:
        for _, entry in self._broker.partition(where).committed(*span):
            assert entry.value is not None
            yield row_of(entry.value)

    def check_level(self) -> None:
        """New nodes have got all that the project in force has read, of the topics that are read again."""
        read, topics = self.read_again, {topic for topic, _ in self.read_again}
        for where, (_, end) in self.divided[-1].items() if self.divided else ():
            if where[0] in topics and where not in self.revisions.starts.keys() - self.revisions.live:
                at = read[where] if where in read else self.first[where]
                assert at == end, f"a switch while new nodes have {where} up to {at} of {end}"

    def check_drained(self) -> None:
        """All input that is committed is in the output, and the output topics hold what was committed and nothing else."""
        ends = self.divided[-1] if self.divided else {}
        assert self.written == len(self.divided), f"{len(self.divided) - self.written} divisions without output"
        project = self.revisions.in_force
        for topic in (INPUT,) if project is None else project.inputs:
            for number, partition in enumerate(self._broker.topics[topic].partitions):
                at = ends[topic, number][1] if (topic, number) in ends else partition.begin
                left = partition.committed(at, partition.end)
                assert not left, f"{topic}/{number}: {left} was not read"
        for topic in PARTITIONS:
            for partition in self._broker.topics[topic].partitions if topic in self._broker.topics else ():
                steps = [int(dict(e.headers)["stepwell.step"]) for _, e in partition.committed(0, partition.end)]
                assert all(a <= b for a, b in pairwise(steps)), f"{topic}: steps out of order: {steps}"
        views = {topic: self._folded(topic) for topic in (SUMS, GROUPS, TALLIES)}
        assert views == {**self.answered, TALLIES: {**self.left, **self.answered[TALLIES]}}
        if not self.is_in_error and project is not None:
            others = self._others(self.written - 1) if self.written else {}
            expected = views_of(project, self._batch_sums(), others)
            assert {topic: self.answered[topic] for topic in expected} == expected
            assert not self.withheld or not self.withheld[-1]

    def _folded(self, topic: str) -> View:
        """What a reader of the topic has at its end."""
        view: View = {}
        for partition in self._broker.topics[topic].partitions if topic in self._broker.topics else ():
            for _, entry in partition.committed(0, partition.end):
                assert entry.key is not None
                if entry.value is None:
                    view.pop(entry.key, None)
                else:
                    view[entry.key] = entry.value
        return view

    def _batch_sums(self) -> Sums:
        partitions = enumerate(self._broker.topics[INPUT].partitions)
        return summed(row for number, each in partitions for row in self._rows((INPUT, number), (0, each.end)))


def _is_part(some: Mapping[Where, tuple[int, int]], whole: Mapping[Where, tuple[int, int]]) -> bool:
    """Whether these ranges begin where those of `whole` do, and end no later."""
    return all(
        where in whole and start == whole[where][0] and end <= whole[where][1] for where, (start, end) in some.items()
    )


def _spans(parts: Iterable[Mapping[str, Any]]) -> dict[Where, tuple[int, int]]:
    """Of ranges of offsets in a record."""
    return {(part["topic"], part["partition"]): (part["start"], part["end"]) for part in parts}


def _without_zeros(counts: Mapping[Where, int]) -> dict[Where, int]:
    return {where: count for where, count in counts.items() if count}


def _canonical(message: tuple[bytes | None, bytes | None]) -> tuple[object, ...]:
    key, value = message
    return key is not None, key or b"", value is not None, value or b""
