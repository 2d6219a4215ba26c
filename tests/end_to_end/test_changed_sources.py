"""A state is continued only with the sources that it was made of, and only into the topics that it was written to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from base.fault import ExitCode, exit_code_of
from coordinator.starting.errors import CircuitChanged
from tests.end_to_end.harness import Playground, Resolved
from tests.end_to_end.threads import threads

SOURCE = "CREATE STREAMING TABLE numbers ({columns}) USING kafka TBLPROPERTIES ('subscribe' = '@{topic}'{more});"
VIEW = """
CREATE MATERIALIZED VIEW sums TBLPROPERTIES ('topic' = '@{out}', {how}) AS
  SELECT k, sum({of}) AS total FROM numbers GROUP BY k;
"""
USUAL = {
    "columns": "k STRING, v INT, w INT",
    "topic": "in",
    "more": "",
    "out": "out",
    "of": "v",
    "how": "'mode' = 'upsert', 'key' = 'k'",
}

REFUSED: list[tuple[dict[str, str], str]] = [
    ({"topic": "other"}, "source numbers: subscribe was @in, and is @other now"),
    # the circuit is the same: the column at this place has another name, and the messages have both
    ({"columns": "k STRING, u INT, w INT", "of": "u"}, "column v was INT, and is not declared now; .*column u was not declared"),
    ({"columns": "k STRING, v BIGINT, w INT"}, "column v was INT, and is BIGINT now"),
    ({"columns": "k STRING NOT NULL, v INT, w INT"}, "column k was STRING, and is STRING NOT NULL now"),
    ({"columns": "k CHAR(5), v INT, w INT"}, r"column k was STRING, and is CHAR\(5\) now"),
    ({"more": ", 'mode' = 'upsert', 'key' = 'k'"}, "mode was append, and is upsert now.*key was not set, and is k now"),
    ({"more": ", 'mode' = 'changelog'"}, "mode was append, and is changelog now"),
    ({"more": ", 'format' = 'csv'"}, "format was json, and is csv now"),
    ({"more": ", 'metadata.partition' = 'v'"}, "column v was INT, and is INT from metadata.partition now"),
    ({"out": "other"}, "output sums: topic was @out, and is @other now"),
    ({"how": "'mode' = 'changelog', 'key' = 'k'"}, r"output sums \(mode was upsert, and is changelog now\)"),
    ({"how": "'mode' = 'upsert', 'key' = 'k', 'format' = 'csv'"}, r"output sums \(format was json, and is csv now\)"),
    ({"how": "'mode' = 'upsert', 'key' = 'k', 'key.format' = 'string'"}, r"output sums \(key.format was not set, and is string now\)"),
    ({"how": "'mode' = 'upsert', 'key' = 'k, total'"}, r"view sums \(changed\), output sums \(key was k, and is k, total now\)"),
]  # fmt: skip

PASSES: list[dict[str, str]] = [
    {"columns": "k STRING, w INT, v INT"},
    {"columns": "x INT, k STRING, v INT, w INT"},
    {"columns": "k STRING, v INT"},
    {"more": ", 'metadata.partition' = 'w'"},
    {"columns": "k STRING COMMENT 'the key', v INT, w INT"},
    {"columns": "k VARCHAR(9), v INT, w INT"},
    {"more": ", 'startingOffsets' = 'latest'"},
    {"more": ", 'on.error' = 'skip'"},
    {"more": ", 'on.error' = 'dead-letter', 'dead.letter.topic' = '@letters'"},
    {"how": "'key' = 'K', 'mode' = 'UPSERT', 'partitions' = '7'"},
]


def project(play: Playground, **changes: str) -> Resolved:
    return play.resolve({"sums.sql": (SOURCE + VIEW).format(**(USUAL | changes))})


def send(play: Playground, *rows: dict[str, Any]) -> None:
    play.send("in", list(rows))


def first_run(play: Playground) -> Resolved:
    play.topic("in")
    play.topic("other")
    send(play, {"k": "a", "v": 1, "w": 100, "u": 7}, {"k": "b", "v": 2, "w": 200, "u": 8})
    resolved = project(play)
    play.run(resolved, threads())
    return resolved


def test_what_gives_other_rows_is_refused_by_name_and_what_does_not_passes(play: Playground) -> None:
    resolved = first_run(play)
    log, written = len(play.read(resolved.spec.log_topic, prefixed=False)), play.read("out")
    for changes, text in REFUSED:
        with pytest.raises(CircuitChanged, match=text.replace("@", play.prefix)) as e:
            play.run(project(play, **changes), threads())
        assert "--full-refresh" in str(e.value) and exit_code_of(e.value) == ExitCode.STATE
    claims = [json.loads(m.value or b"")["kind"] for m in play.read(resolved.spec.log_topic, prefixed=False)[log:]]
    assert set(claims) == {"claim"} and play.read("out") == written, "a refused start wrote something"
    for number, passes in enumerate(PASSES):
        send(play, {"k": "a", "v": 10 * number, "w": 0})
        play.run(project(play, **passes), threads())
    assert play.check(resolved) == {"sums": 2}
    other = project(play, topic="other", of="w")
    play.send("other", [{"k": "c", "v": 1, "w": 5}])
    play.run(other, threads(), full_refresh=True)
    assert play.check(other) == {"sums": 1}
    with pytest.raises(CircuitChanged, match=f"subscribe was {play.prefix}other, and is {play.prefix}in now"):
        play.run(resolved, threads())
