"""The oracle sees each violation: topics written by hand, right but for one step."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.conftest import Broker
from tests.end_to_end.harness import Playground, wait_until
from tests.end_to_end.oracle import Answer, Ends, Messages, Oracle, Story, Violated, Watched

NUMBERS = [("a", 1), ("b", 2), ("a", -1), ("c", 5), ("b", -7), ("a", 4), ("c", -5), ("b", -2)]
"""Two a step. View `sums` (upsert): the total of each key; view `plus` (changelog): the numbers above 0."""

Written = tuple[str, int, bytes | None, bytes | None]
"""Topic, partition, key, value."""


@pytest.fixture
def play(broker: Broker, topic_prefix: str, tmp_path: Any) -> Playground:
    """Without Spark: what the topics mean is said here."""
    return Playground(None, broker.bootstrap_servers, tmp_path, topic_prefix)  # type: ignore[arg-type]


class Forged:
    def __init__(self, play: Playground) -> None:
        self.play = play
        for name in ("log", "in", "sums", "plus", "sums-twin", "plus-twin"):
            play.topic(name, 2 if name.startswith("sums") else 1)
        play.send("in", [{"k": k, "n": n} for k, n in NUMBERS])
        self.ends: Ends = {}
        self.producer = Producer({"bootstrap.servers": play.servers, "transactional.id": play.prefix})
        self.producer.init_transactions()

    def oracle(self) -> Oracle:
        p = self.play.prefix
        views = [Watched("sums", p + "sums", "upsert"), Watched("plus", p + "plus", "changelog")]
        self.watching = Oracle(self.play.servers, p + "log", views)
        return self.watching

    def story(self, wrong: int = -1, act: Callable[[Forged], None] | None = None) -> Forged:
        """All steps, right but for the one that `act` makes."""
        for step in range(len(NUMBERS) // 2):
            if step == wrong and act is not None:
                act(self)
            else:
                self.divide(step)
                self.write(step, right(step))
        return self

    def transaction(self, written: Sequence[Written], step: int, *records: dict[str, Any]) -> None:
        self.producer.begin_transaction()
        self.send(written, step)
        for record in records:
            if record["kind"] == "step":
                record["outputs"] = record["outputs"] or self.parts(written)
            self.producer.produce(self.play.prefix + "log", json.dumps(record).encode())
        assert self.producer.flush(30) == 0
        self.producer.commit_transaction()

    def send(self, written: Sequence[Written], step: int) -> None:
        def note(error: Any, message: Any) -> None:
            assert error is None
            self.ends[message.topic(), message.partition()] = message.offset() + 1

        for topic, partition, key, value in written:
            header = [("stepwell.step", str(step).encode())]
            self.producer.produce(self.play.prefix + topic, value, key, partition, headers=header, on_delivery=note)
        assert self.producer.flush(30) == 0

    def parts(self, written: Sequence[Written], *, count: int = 0, end: int = 0) -> list[dict[str, Any]]:
        """`count`, `end`: added to what is true, for `plus`."""
        counts = Counter((topic, partition) for topic, partition, _, _ in written)
        return [
            {
                "topic": self.play.prefix + topic,
                "partition": partition,
                "messages": counts[topic, partition] + (count if topic == "plus" else 0),
                "end": self.ends.get((self.play.prefix + topic, partition), 0) + (end if topic == "plus" else 0),
            }
            for topic, partition in (("plus", 0), ("sums", 0), ("sums", 1))
        ]

    def division(self, step: int, start: int | None = None, end: int | None = None, epoch: int = 0) -> dict[str, Any]:
        start, end = 2 * step if start is None else start, 2 * step + 2 if end is None else end
        span = {"topic": self.play.prefix + "in", "partition": 0, "start": start, "end": end}
        return {"kind": "division", "epoch": epoch, "step": step, "ranges": [span]}

    def record(self, step: int, read: int = 2, outputs: Any = None) -> dict[str, Any]:
        counted = {"topic": self.play.prefix + "in", "partition": 0, "messages": read}
        return {"kind": "step", "epoch": 0, "step": step, "inputs": [counted], "outputs": outputs}

    def divide(self, step: int, start: int | None = None, end: int | None = None) -> None:
        self.transaction((), step, self.division(step, start, end))

    def write(self, step: int, written: Sequence[Written], read: int = 2) -> None:
        self.transaction(written, step, self.record(step, read))


def totals(end: int) -> dict[str, int]:
    found: Counter[str] = Counter()
    for k, n in NUMBERS[:end]:
        found[k] += n
    return dict(found)


def home(key: str) -> int:
    return ord(key) % 2


def sums(key: str, total: int | None) -> Written:
    value = None if total is None else json.dumps({"k": key, "total": total}).encode()
    return "sums", home(key), json.dumps({"k": key}).encode(), value


def plus(key: str, n: int, gone: bool = False) -> Written:
    row = {"k": key, "n": n}
    return "plus", 0, None, json.dumps({"before": row if gone else None, "after": None if gone else row}).encode()


def right(step: int) -> list[Written]:
    start, end = 2 * step, 2 * step + 2
    before, after = totals(start), totals(end)
    changed = [sums(k, after[k]) for k in sorted(after) if before.get(k) != after[k]]
    return changed + [plus(k, n) for k, n in NUMBERS[start:end] if n > 0]


def batch(inputs: Messages, boundaries: Sequence[Ends]) -> Iterator[dict[str, Answer]]:
    for ends in boundaries:
        end = max(ends.values(), default=0)
        yield {
            "sums": Answer(
                [json.dumps({"total": n * (1 + 1e-14), "k": k}) for k, n in totals(end).items()], frozenset({"total"})
            ),
            "plus": Answer([json.dumps({"n": n, "k": k}) for k, n in NUMBERS[:end] if n > 0]),
        }


def verify(oracle: Oracle, **options: Any) -> Story:
    return oracle.verify(lambda inputs, ends: list(batch(inputs, ends)), **options)


def test_a_right_story_is_right(play: Playground) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story()
        assert list(verify(oracle).steps) == [0, 1, 2, 3]


def cut_with_a_step_divided_after_it(forged: Forged) -> None:
    forged.divide(1, 2, 6)
    forged.divide(2, 6, 8)
    forged.divide(1)
    forged.write(1, right(1))


def test_what_was_divided_after_a_step_that_is_cut_is_void(play: Playground) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story(1, cut_with_a_step_divided_after_it)
        assert list(verify(oracle).steps) == [0, 1, 2, 3]


@dataclass(frozen=True)
class Wrong:
    """`act` makes `step` in place of what is right; the oracle says `found`."""

    found: str
    act: Callable[[Forged], None]
    step: int = 1


def undivided_output(forged: Forged) -> None:
    forged.transaction(right(1), 1)
    plus = forged.play.prefix + "plus", 0
    wait_until(lambda: 1 in {m.step for m in forged.watching.seen[plus]})  # or it would meet both at once
    forged.divide(1)
    forged.transaction((), 1, forged.record(1, outputs=forged.parts(right(1))))


def divided_twice(forged: Forged) -> None:
    forged.divide(1, 2, 3)
    forged.transaction((), 1, forged.division(1, epoch=1))
    forged.write(1, right(1))


def step_back(forged: Forged) -> None:
    forged.divide(1)
    forged.transaction([*right(1), plus("z", 1)], 1, forged.record(1))
    forged.transaction([plus("z", 1, gone=True)], 0)


def moved_key(forged: Forged) -> None:
    forged.divide(3)
    topic, partition, key, value = sums("c", 0)
    forged.write(3, [*(w for w in right(3) if w[2] != key), (topic, 1 - partition, key, value)])


def wrongly(
    *written: Written, start: int | None = None, end: int | None = None, read: int = 2, without: str = ""
) -> Callable[[Forged], None]:
    """Step 1 with more messages, other ranges, or without those of one topic."""

    def act(forged: Forged) -> None:
        forged.divide(1, start, end)
        forged.write(1, [*(w for w in right(1) if w[0] != without), *written], read)

    return act


def misrecorded(count: int = 0, end: int = 0) -> Callable[[Forged], None]:
    def act(forged: Forged) -> None:
        forged.divide(1)
        forged.transaction(right(1), 1)
        forged.transaction((), 1, forged.record(1, outputs=forged.parts(right(1), count=count, end=end)))

    return act


WRONG = {
    "output before its division": Wrong("first: step 1 can be read in .*, and its division can not", undivided_output),
    "division and output at once": Wrong(
        "first: the division of step 1 is in one transaction with its output",
        lambda f: f.transaction(right(1), 1, f.division(1), f.record(1)),
    ),
    "never divided": Wrong("first: step 1 is recorded, and was never divided", lambda f: f.write(1, right(1))),
    "two divisions": Wrong("b: step 1 has two divisions", divided_twice),
    "divided after its output": Wrong(
        "b: step 0 is divided again after its output", lambda f: (f.divide(0), wrongly()(f))[1]
    ),
    "a step twice": Wrong("b: step 0 is recorded where step 1 is due", lambda f: (f.write(0, ()), wrongly()(f))[1]),
    "a gap": Wrong("b: step 1 reads .*in/0 from 3 to 4, and the one before ended at 2", wrongly(start=3, read=1)),
    "read twice": Wrong("b: step 1 reads .*in/0 from 1 to 4, and the one before ended at 2", wrongly(start=1, read=3)),
    "miscounted": Wrong("b: step 1 read 1 messages of .*in/0, where 2 are committed", wrongly(read=1)),
    "lost change": Wrong("c: plus after step 1: 0 too many and 1 missing of .*'5'", wrongly(without="plus")),
    "doubled change": Wrong("c: plus after step 1: 1 too many and 0 missing", wrongly(plus("c", 5))),
    "taken away": Wrong("c: plus, step 1: takes away a row that is not there", wrongly(plus("x", 1, gone=True))),
    "to and fro": Wrong(
        "c: plus, step 1: a row is both added and taken away",
        wrongly(plus("x", 1), plus("x", 1, gone=True)),
    ),
    "a step back": Wrong("d: .*plus/0 offset .*: step 0 after step 1", step_back),
    "too few in the record": Wrong(r"d: .*plus/0 .*: 1 messages of step 1, .*says 0", misrecorded(count=-1)),
    "an end too early": Wrong(r"d: .*plus/0 .*: 0 messages of step 1, .*says 1", misrecorded(end=-1)),
    "a stale row": Wrong("f: sums after step 1", wrongly(without="sums")),
    "a wrong total": Wrong("f: sums after step 1: 1 too many and 1 missing", wrongly(sums("b", 3))),
    "a phantom": Wrong("f: sums after step 1: 1 too many", wrongly(sums("x", 1))),
    "said twice": Wrong("f: sums, step 1, .* says of key .*b.* what was said before", wrongly(sums("b", 2))),
    "no row to delete": Wrong("f: sums, step 1, .* nothing changes", wrongly(sums("x", None))),
    "a key that moved": Wrong("f: sums, step 3, .* key .*c.* was in partition 1 before", moved_key, step=3),
}


def test_every_wrong_step_is_found(play: Playground) -> None:
    """All at once, for most of the time a broker is waited for."""

    def judged(name: str) -> str:
        forged = Forged(replace(play, prefix=f"{play.prefix}{list(WRONG).index(name)}-"))
        with forged.oracle() as oracle:
            forged.story(WRONG[name].step, WRONG[name].act)
            try:
                verify(oracle)
            except Violated as found:
                return str(found)
        return "nothing"

    with ThreadPoolExecutor(8) as threads:
        said = dict(zip(WRONG, threads.map(judged, WRONG), strict=True))
    missed = {name: text for name, text in said.items() if not re.search(WRONG[name].found, text)}
    assert not missed


def test_what_vanishes_afterwards_is_found(play: Playground) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story()
        verify_later = TopicPartition(play.prefix + "plus", 0, 1)
        wait_until(lambda: len(oracle.seen[play.prefix + "plus", 0]) == 4)
        play.admin.delete_records([verify_later])[verify_later].result()
        with pytest.raises(
            Violated, match=r"a: .*plus/0: 4 messages were seen, 3 are there now; for example .*offset=0"
        ):
            verify(oracle)


def test_a_topic_made_anew_is_found(play: Playground) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story()
        wait_until(lambda: len(oracle.seen[play.prefix + "plus", 0]) == 4)
        play.delete_topic("plus")
        play.topic("plus")
        with pytest.raises(Violated, match=r"a: topic .*plus had id "):
            verify(oracle)


def test_input_that_no_step_read_is_found(play: Playground) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story()
        play.send("in", [{"k": "late", "n": 1}])
        with pytest.raises(Violated, match=r"b: 1 committed messages of .*in/0 are in no step; the first has offset 8"):
            verify(oracle)


def test_output_without_a_record_is_found(play: Playground) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story()
        forged.transaction([plus("z", 1)], 4)
        with pytest.raises(Violated, match=r"d: .*plus/0: 1 messages beyond .*, the end that the last record names"):
            verify(oracle)


@pytest.mark.parametrize("alike", [True, False])
def test_other_bytes_than_without_a_crash_are_found(play: Playground, alike: bool) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story()
        for step in range(len(NUMBERS) // 2):
            written = [(f"{topic}-twin", p, key, value) for topic, p, key, value in right(step)]
            if not alike and step == 2:
                written = [(t, p, key, None if value is None else value + b" ") for t, p, key, value in written]
            forged.transaction(written, step)  # with markers at other offsets
        twin = {play.prefix + name: f"{play.prefix}{name}-twin" for name in ("sums", "plus")}
        verify(oracle)
        if alike:
            oracle.verify_twin(twin)
        else:
            with pytest.raises(Violated, match=r"e: .*plus/0: 4 messages, 4 in a run .* index 3, step 2"):
                oracle.verify_twin(twin)


def test_what_is_left_after_all_input_was_taken_back_is_found(play: Playground) -> None:
    forged = Forged(play)
    with forged.oracle() as oracle:
        forged.story()
        story = verify(oracle)
    oracle.check_drained(story, 3, {"sums": 1}, {"sums": 1})
    with pytest.raises(Violated, match="g: plus has 4 rows, and had 0 before") as e:
        oracle.check_drained(story, -1, {"sums": 1}, {})
    assert [text.split(" has")[0] for text in e.value.found] == ["g: sums", "g: plus", "g: the trace of sums"]


def test_boundaries_are_all_or_named_ones(play: Playground) -> None:
    forged = Forged(play)
    asked: list[int] = []

    def answer(inputs: Messages, boundaries: Sequence[Ends]) -> Any:
        asked[:] = [max(ends.values()) // 2 - 1 for ends in boundaries]
        return list(batch(inputs, boundaries))

    with forged.oracle() as oracle:
        forged.story()
        oracle.verify(answer)
        assert asked == [0, 1, 2, 3]
        oracle.verify(answer, sample=0)
        assert asked == [0, 3]
