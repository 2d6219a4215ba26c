"""What producers may do to the inputs: transactions that abort or stay open, and partitions that are added while steps run."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.end_to_end import sums
from tests.end_to_end.harness import Playground, Value, as_bytes


def transaction(play: Playground, name: str, values: list[Value]) -> Producer:
    """An open transaction whose messages have reached the broker."""
    producer = Producer({"bootstrap.servers": play.servers, "transactional.id": play.prefix + name})
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(f"{play.prefix}in", value=as_bytes(value), partition=0)
    assert producer.flush(30) == 0
    return producer


def test_aborted_messages_never_count_and_open_ones_wait(play: Playground) -> None:
    play.topic("in")
    resolved = sums.project(play)
    transaction(play, "one", sums.rows(0, 3)).commit_transaction()
    transaction(play, "two", sums.rows(100, 3)).abort_transaction()
    play.send("in", sums.rows(3, 1))
    open_one = transaction(play, "three", sums.rows(4, 2))
    play.send("in", sums.rows(6, 1))  # behind the open transaction: not stable yet
    assert play.run(resolved)["rows"] == 4
    assert {m.value for m in play.read("out")} and play.log(resolved).pending == ()
    open_one.commit_transaction()
    assert play.run(resolved)["rows"] == 3
    assert play.check(resolved) == {"sums": 3}
    play.check_steps(resolved)


def test_partitions_added_while_steps_run_are_read_from_their_beginning(play: Playground) -> None:
    play.topic("in")
    play.send("in", sums.rows(0, 4))
    resolved = sums.project(play, workers=2).at_pace(growth_seconds=0.05)
    with play.running(resolved) as run:
        run.wait_until(lambda status: status["rows"] == 4)
        play.grow("in", 3)
        for partition in (0, 1, 2):
            play.send("in", sums.rows(10 * partition, 3), partition)
        run.wait_until(lambda status: status["rows"] == 13)
    assert run.fault is None
    assert play.run(resolved)["rows"] == 0  # a restart knows the new partitions
    assert play.check(resolved) == {"sums": 3}
    play.check_steps(resolved)
