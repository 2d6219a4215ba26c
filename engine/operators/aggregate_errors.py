"""What a change may not do to an aggregate. Each error names the group."""

from __future__ import annotations

from engine.errors import DataError
from engine.expressions.functions.function import shown_cell
from engine.operators.aggregate_totals import GroupKeys


class NegativeCount(DataError):
    """More rows were retracted from a group than were ever in it."""


WHAT_TO_DO = (
    "The input's changelog retracts rows that it never inserted: check its source, or declare its key. Or a function in Python has given "
    "another result for the same arguments than before."
)


USE_A_WIDER_TYPE = (
    "Spark's ANSI mode fails here too: cast the argument to a wider type, or filter the rows that are wrong."
)


class ResultOverflow(DataError):
    """A sum or an average does not fit the type that Spark gives it. In ANSI mode Spark fails too."""

    is_of_rows = True

    @classmethod
    def of_sum(cls) -> ResultOverflow:
        return cls("A sum in an aggregate exceeds its accumulator.", USE_A_WIDER_TYPE)


def negative_count(keys: GroupKeys, group: int) -> NegativeCount:
    return NegativeCount(
        f"More rows were retracted from group {text_of_group(keys, group)} than were ever in it.", WHAT_TO_DO
    )


def negative_row(row: str) -> NegativeCount:
    return NegativeCount(f"The row {row} was retracted more often than it was inserted.", WHAT_TO_DO)


def text_of_group(keys: GroupKeys, group: int) -> str:
    cells = [shown_cell(column, group) for column in keys.columns.columns]
    return f"({', '.join(cells)}{',' * (len(cells) == 1)})"
