"""Debezium's feeds: values that the database has not sent, keys that change, deletions that are rows, truncated tables and messages of programs.

A database is played beside the pipeline. It writes what Debezium writes, and a second feed in which every message has all values and a
truncation is a deletion of each row. Spark's batch answer is that over the second feed, so nothing that knows of placeholders says what is
right.
"""

from __future__ import annotations

import base64
import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from engine.errors import DataError
from examples.batch import TopicMessage, batch_answer, compare, published
from tests.end_to_end.harness import Playground, Resolved, renamed, step_records
from tests.end_to_end.test_placement import contents, crash_and_replay

P = "__debezium_unavailable_value"
FILES = {
    "feeds.sql": """
CREATE STREAMING TABLE docs (id BIGINT NOT NULL, title STRING, body STRING NOT NULL, data BINARY, tags ARRAY<STRING>, props STRING,
    counts ARRAY<BIGINT>, code CHAR(6))
  USING kafka TBLPROPERTIES ('subscribe' = '@docs', 'mode' = 'changelog', 'key' = 'id', 'truncate' = 'apply');
CREATE STREAMING TABLE flat (id BIGINT NOT NULL, body STRING, doc BIGINT) USING kafka TBLPROPERTIES
  ('subscribe' = '@flat', 'mode' = 'upsert', 'key' = 'id', 'on.error' = 'dead-letter', 'unavailable.value.placeholder' = 'hex:6e6f6e65');

CREATE MATERIALIZED VIEW copied TBLPROPERTIES ('topic' = '@copied', 'mode' = 'upsert', 'key' = 'id') AS SELECT * FROM docs;
CREATE MATERIALIZED VIEW joined TBLPROPERTIES ('topic' = '@joined', 'mode' = 'changelog') AS
  SELECT f.id, f.body AS line, d.body, size(d.tags) AS tags FROM flat f LEFT JOIN docs d ON f.doc = d.id;
CREATE MATERIALIZED VIEW lengths TBLPROPERTIES ('topic' = '@lengths', 'mode' = 'upsert', 'key' = 'body') AS
  SELECT body, count(*) AS n, sum(length(data)) AS octets, max(title) AS title, min(props) AS props FROM docs GROUP BY body;
"""
}
LARGE = {
    "body": P, "data": base64.b64encode(P.encode()).decode(), "tags": [P], "props": json.dumps({P: P}, separators=(",", ":")),
    "counts": [*P.encode()], "code": P,
}  # fmt: skip
"""What stands for each column that has not changed."""


@dataclass
class Database:
    """`sent` and `whole`: the two feeds of one topic, by partition, as pairs of key and value."""

    chosen: random.Random
    partitions: int
    truncates: bool
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    sent: list[list[tuple[Any, Any]]] = field(default_factory=list)
    whole: list[list[tuple[Any, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sent, self.whole = ([[] for _ in range(self.partitions)] for _ in range(2))

    def work(self, changes: int) -> None:
        for _ in range(changes):
            id_ = self.chosen.randrange(12)
            what = self.chosen.random()
            if what < 0.05 and self.truncates:
                self._write(0, None, change("t"), [({"id": gone}, change("d", {"id": gone})) for gone in self.rows])
                self.rows.clear()
            elif what < 0.1:
                self._write(0, {"prefix": "p"}, {"op": "m", "message": {"prefix": "p", "content": "aGk="}}, [])
            elif id_ not in self.rows:
                self.rows[id_] = self._values(id_)
                self._change(id_, change("c", None, self.rows[id_]), change("c", None, self.rows[id_]))
            elif what < 0.3:
                del self.rows[id_]
                self._change(id_, change("d", {"id": id_}), change("d", {"id": id_}))
                if self.chosen.random() < 0.5:
                    self._change(id_, None, None)
            elif what < 0.36 and (free := self._free_keys(id_)):
                new_id = self.chosen.choice(free)
                before, self.rows[new_id] = self.rows.pop(id_), self._values(new_id)
                key = self.chosen.choice([None, {"id": new_id}])
                created = ({"id": new_id}, change("c", None, self.rows[new_id]))
                moved = change("u", before, self.rows[new_id])
                self._write(id_ % self.partitions, key, moved, [({"id": id_}, change("d", {"id": id_})), created])
            else:
                untouched = {name for name in LARGE if self.chosen.random() < 0.6}
                new = self._values(id_)
                self.rows[id_] = {n: self.rows[id_][n] if n in untouched else value for n, value in new.items()}
                shown = {name: LARGE[name] if name in untouched else value for name, value in self.rows[id_].items()}
                self._change(id_, change("u", None, shown), change("u", None, self.rows[id_]))

    def _free_keys(self, id_: int) -> list[int]:
        """Those to which a row can move with a message in the partition of its key."""
        return [key for key in range(12) if key not in self.rows and (key - id_) % self.partitions == 0]

    def _values(self, id_: int) -> dict[str, Any]:
        n = self.chosen.randrange(5)
        return {
            "id": id_, "title": f"t{self.chosen.randrange(9)}", "body": f"body {n}", "data": None if n == 1 else "AAEC"[:4],
            "tags": ["x"] * n, "props": f'{{"k":"{n}"}}', "counts": [n, id_], "code": f"c{n}",
        }  # fmt: skip

    def _change(self, id_: int, sent: Any, whole: Any) -> None:
        self._write(id_ % self.partitions, {"id": id_}, sent, [({"id": id_}, whole)])

    def _write(self, partition: int, key: Any, sent: Any, whole: list[tuple[Any, Any]]) -> None:
        self.sent[partition].append((key, sent))
        self.whole[partition].extend(whole)


def change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"db": "x"}, "op": op, "ts_ms": 1}


def as_messages(partitions: list[list[tuple[Any, Any]]]) -> list[TopicMessage]:
    def octets(value: Any) -> bytes | None:
        return None if value is None else json.dumps(value).encode()

    return [
        TopicMessage(partition, offset, octets(key), octets(value))
        for partition, messages in enumerate(partitions)
        for offset, (key, value) in enumerate(messages)
    ]


def flat_feed(chosen: random.Random, changes: int, known: dict[int, tuple[str, int]]) -> tuple[Any, Any, int]:
    """(what ExtractNewRecordState writes, the same with all values, the number of messages of rows that are unknown)."""
    sent, whole, unknown = [], [], 0
    for _ in range(changes):
        id_, what, doc = chosen.randrange(8), chosen.random(), chosen.randrange(12)
        if what < 0.2:
            known.pop(id_, None)
            deleted = None if chosen.random() < 0.5 else {"id": id_, "body": "none", "doc": doc, "__deleted": "true"}
            both = ({"id": id_}, deleted), ({"id": id_}, None)
        elif what < 0.6:
            body = known[id_][0] if id_ in known else None
            sent.append(({"id": id_}, {"id": id_, "body": "none", "doc": doc, "__deleted": "false"}))
            if body is None:
                unknown += 1
                continue
            known[id_] = (body, doc)
            whole.append(({"id": id_}, {"id": id_, "body": body, "doc": doc}))
            continue
        else:
            known[id_] = (f"b{chosen.randrange(4)}", doc)
            row = {"id": id_, "body": known[id_][0], "doc": doc}
            both = ({"id": id_}, row), ({"id": id_}, row)
        sent.append(both[0])
        whole.append(both[1])
    return sent, whole, unknown


def check(play: Playground, resolved: Resolved, whole: dict[str, list[TopicMessage]]) -> dict[str, int]:
    """Every view is Spark's batch answer over the feeds with all values; its number of rows."""
    expected = batch_answer(resolved.project, {play.prefix + name: messages for name, messages in whole.items()})
    rows = {}
    for view in resolved.project.views:
        assert view.output is not None
        messages = [m.as_input for m in play.read(view.output.topic, prefixed=False)]
        found = compare(view.name, published(play.spark, view, messages), expected[view.name])
        assert found.equal, str(found)
        rows[view.name] = found.rows
    return rows


@pytest.mark.long
@pytest.mark.parametrize(("partitions", "truncates"), [pytest.param(1, True, marks=pytest.mark.soak), (3, False)])
def test_every_view_is_the_answer_over_all_values(play: Playground, partitions: int, truncates: bool) -> None:
    """For any number of workers, and although each run crashes and replays."""
    play.topic("docs", partitions)
    play.topic("flat")
    chosen = random.Random(partitions)
    database, known, flat = Database(chosen, partitions, truncates), dict[int, tuple[str, int]](), ([], [])  # type: ignore[var-annotated]
    resolved = play.resolve(FILES, {"stepwell.step.rows.max": 40, "stepwell.workers": 1})
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    runs = [resolved, renamed(resolved, "-w3", 3)]
    unknown = 0
    for _ in range(2):
        before = [len(messages) for messages in database.sent]
        database.work(200)
        for partition, messages in enumerate(database.sent):
            play.send("docs", messages[before[partition] :], partition)
        sent, whole, more = flat_feed(chosen, 80, known)
        play.send("flat", sent)
        flat[0].extend(sent)
        flat[1].extend(whole)
        unknown += more
        for run in runs:
            crash_and_replay(play, run, in_threads=True)
    rows = check(play, resolved, {"docs": as_messages(database.whole), "flat": as_messages([flat[1]])})
    assert 0 not in rows.values(), f"a view that shows nothing proves nothing: {rows}"
    assert contents(play, runs[1]) == contents(play, runs[0])
    assert len(step_records(play, runs[0])) == len(step_records(play, runs[1])) > 10
    letters = [json.loads(m.value or b"") for m in play.read("flat.dead-letter")]
    assert len(letters) == 2 * unknown > 0, "both pipelines write them"
    for letter in letters:
        assert letter["reason"].startswith(
            "column body: the database has not sent its value (none), and its key has no"
        )
        assert json.loads(letter["value"]) == flat[0][letter["offset"]][1]


KEYED = """
CREATE STREAMING TABLE docs (id BIGINT, body STRING) USING kafka
  TBLPROPERTIES ('subscribe' = '@docs', 'mode' = 'changelog', 'key' = 'id'{});
CREATE MATERIALIZED VIEW copied TBLPROPERTIES ('topic' = '@copied', 'mode' = 'upsert', 'key' = 'id') AS SELECT * FROM docs;
"""


def keyed(play: Playground, more: str = "", workers: int = 2) -> Resolved:
    conf = {"stepwell.step.rows.max": 4, "stepwell.workers": workers}
    return play.resolve({"feeds.sql": KEYED.replace("{}", more)}, conf)


def bodies(play: Playground) -> dict[int, str]:
    found = {json.loads(m.key or b"")["id"]: m.value and json.loads(m.value)["body"] for m in play.read("copied")}
    return {id_: body for id_, body in found.items() if body is not None}


def row(id_: int, body: str, op: str = "u") -> tuple[Any, Any]:
    return {"id": id_}, change(op, None, {"id": id_, "body": body})


def test_a_value_that_no_row_has_stops_the_pipeline_until_the_policy_is_changed(play: Playground) -> None:
    play.topic("docs")
    play.send(
        "docs", [row(1, "a", "c"), row(2, "b", "c"), row(1, P), row(3, "c", "c"), row(2, P), row(4, P), row(3, P)]
    )
    with pytest.raises(DataError) as stopped:
        play.run(keyed(play))
    text = str(stopped.value)
    for part in (
        "source docs",
        f"topic {play.prefix}docs, partition 0, offset 5, step 1",
        "column body",
        P,
        "REPLICA IDENTITY FULL",
    ):
        assert part in text
    assert {m.step for m in play.read("copied")} == {0}
    status = play.run(keyed(play, ", 'on.error' = 'skip'"))
    assert status["skipped"] == {"docs": 1}
    assert bodies(play) == {1: "a", 2: "b", 3: "c"}


def test_a_truncation_stops_the_pipeline_until_it_is_said_what_it_means(play: Playground) -> None:
    """The state stays that of the same circuit."""
    play.topic("docs")
    play.send("docs", [row(1, "a", "c"), row(2, "b", "c"), (None, change("t")), row(3, "c", "c")])
    with pytest.raises(
        DataError, match=r"partition 0, offset 2.*op t: the table was truncated; set 'truncate' = 'apply'"
    ):
        play.run(keyed(play))
    assert play.run(keyed(play, ", 'truncate' = 'apply'"))["skipped"] == {}
    assert bodies(play) == {3: "c"}
    play.send("docs", [row(4, "d", "c"), ({"prefix": "p"}, {"op": "m", "message": {}}), (None, change("t")), row(3, P)])
    assert play.run(keyed(play, ", 'truncate' = 'ignore'"))["skipped"] == {"docs": 2}
    assert bodies(play) == {3: "c", 4: "d"}
    play.send("docs", [(None, change("t")), row(4, "e")])
    assert play.run(keyed(play, ", 'on.error' = 'skip'"))["skipped"] == {"docs": 1}
    assert bodies(play) == {3: "c", 4: "e"}


def test_a_truncation_that_was_applied_is_applied_in_a_replay(play: Playground) -> None:
    """Whatever the project says by then."""
    play.topic("docs")
    play.send("docs", [row(1, "a", "c"), row(2, "b", "c"), (None, change("t")), row(3, "c", "c"), row(4, "d", "c")])
    first = keyed(play, ", 'truncate' = 'apply'")
    with play.running(first) as run:
        run.wait_until(lambda status: status["steps_run"] == 2)
        run.requests.ask("pause")
        run.wait_until(lambda status: status["phase"] == "paused")
        assert play.log(first).checkpoints == ()
        play.send("docs", [(None, change("t")), row(5, "e", "c")])
        status = play.run(keyed(play, ", 'on.error' = 'skip'"), expect_epoch=0)
    assert (status["steps_replayed"], status["skipped"]) == (2, {"docs": 1})
    assert bodies(play) == {3: "c", 4: "d", 5: "e"}


MOVES = """
CREATE STREAMING TABLE docs (id BIGINT NOT NULL, body STRING) USING kafka
  TBLPROPERTIES ('subscribe' = '@docs', 'mode' = 'changelog', 'key' = 'id', 'on.error' = 'dead-letter');
CREATE STREAMING TABLE images (id BIGINT NOT NULL, body STRING) USING kafka TBLPROPERTIES ('subscribe' = '@docs', 'mode' = 'changelog');
CREATE MATERIALIZED VIEW copied TBLPROPERTIES ('topic' = '@copied', 'mode' = 'upsert', 'key' = 'id') AS SELECT * FROM docs;
CREATE MATERIALIZED VIEW present TBLPROPERTIES ('topic' = '@present', 'mode' = 'changelog') AS SELECT * FROM images;
"""


def test_an_update_moves_a_row_between_partitions(play: Playground) -> None:
    """The former row stays where the table has a key, and a letter says so. Without a key, `before` takes it back in any order."""
    play.topic("docs", 2)
    chosen, rows = random.Random(5), dict[int, str]()
    resolved = play.resolve({"feeds.sql": MOVES}, {"stepwell.step.rows.max": 6, "stepwell.workers": 1})
    resolved = replace(resolved, spec=replace(resolved.spec, checkpoint_interval_s=3600.0))
    runs = [resolved, renamed(resolved, "-w3", 3)]
    for _ in range(2):
        sent: list[list[tuple[Any, Any]]] = [[], []]
        for _ in range(40):
            id_, new_id, body = chosen.randrange(9), chosen.randrange(9), f"b{chosen.randrange(3)}"
            if id_ not in rows:
                sent[id_ % 2].append(({"id": id_}, change("c", None, {"id": id_, "body": body})))
                rows[id_] = body
            elif new_id in rows:
                sent[id_ % 2].append(({"id": id_}, change("d", {"id": id_, "body": rows.pop(id_)})))
            else:
                before = {"id": id_, "body": rows.pop(id_)}
                sent[new_id % 2].append(({"id": new_id}, change("u", before, {"id": new_id, "body": body})))
                rows[new_id] = body
        for partition, messages in enumerate(sent):
            play.send("docs", messages, partition)
        for run in runs:
            crash_and_replay(play, run, in_threads=True)
    for run in runs:
        play.check(run)
    assert contents(play, runs[1]) == contents(play, runs[0])
    letters = [json.loads(m.value or b"") for m in play.read("docs.dead-letter")]
    assert letters and all("the update changes the key" in letter["reason"] for letter in letters)
    shown = published(play.spark, resolved.project.views[1], [m.as_input for m in play.read("present")])
    assert {each.id: each.body for each in shown.collect()} == rows


def test_a_key_in_two_partitions_stops_the_pipeline_with_its_place(play: Playground) -> None:
    play.topic("docs", 2)
    for partition in (0, 1):
        play.send("docs", [row(7, "a", "c"), row(8 + partition, "b", "c")], partition)
    with pytest.raises(DataError) as stopped:
        play.run(keyed(play))
    assert "Key {id: 7} has messages in partitions 0 and 1" in str(stopped.value)
    assert stopped.value.place == f"topic {play.prefix}docs, partition 1, offset 0"
