"""Messages behind a transaction that nobody ends are shown, although no lag counts them."""

from __future__ import annotations

from collections.abc import Iterable

from structlog.testing import capture_logs

from coordinator.status import StatusBoard
from coordinator.stepping.open_transactions import OpenTransactions
from io_kafka.offsets import TopicPartition

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


class Broker:
    """`held`: the last stable offset and the end of each partition."""

    def __init__(self) -> None:
        self.held = {FIRST: (10, 10), SECOND: (5, 5)}

    def end_offsets(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        assert list(names) == ["in"]
        return {where: stable for where, (stable, _) in self.held.items()}

    def high_watermarks(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        return {where: end for where, (_, end) in self.held.items()}


class Looking:
    def __init__(self) -> None:
        self.broker, self.board = Broker(), StatusBoard("p")
        self._transactions = OpenTransactions(self.broker, self.board)  # type: ignore[arg-type]

    def at(self, stable: int, end: int) -> dict[str, int]:
        """What is shown once the first partition is like this."""
        self.broker.held[FIRST] = (stable, end)
        self._transactions.look(["in"])
        found: dict[str, int] = self.board.show()["blocked"]
        return found


def test_what_waits_behind_a_transaction_is_shown_and_told_once() -> None:
    looking = Looking()
    with capture_logs() as logs:
        assert looking.at(10, 10) == {}
        assert looking.at(10, 400) == {}, "it may be decided in a moment"
        assert looking.at(10, 500) == {"in/0": 490}
        assert looking.at(10, 600) == {"in/0": 590}
        assert looking.at(601, 601) == {}
        assert looking.at(601, 700) == {}
    assert [(line["partition"], line["read_up_to"], line["end"]) for line in logs] == [("in/0", 10, 500)]


def test_a_producer_that_goes_on_is_none_of_them() -> None:
    looking = Looking()
    assert [looking.at(at, at + 10) for at in (0, 100, 200)] == [{}, {}, {}]
