"""The time of each step of a case, and a query with that time in the place of the clock."""

from __future__ import annotations

START_US = 18321 * 86_400_000_000
"""2020-02-29 00:00 UTC. Tame values of dates and times are near it (values.py), so that rows enter and leave."""

PACE_S = (0, 3599, 1, 0, 1, 82_800, 86_400 - 3_600, 3 * 86_400, 20 * 365 * 86_400)
"""By how many seconds the clock moves before each step, in turn. It stands still, ends an hour and a day, and in the end is after most times."""


def clock_us(step: int) -> int:
    """Whole seconds, as a coordinator gives them to steps."""
    rounds, rest = divmod(step, len(PACE_S))
    return START_US + 1_000_000 * (rounds * sum(PACE_S) + sum(PACE_S[: rest + 1]))


def at(text: str, step: int) -> str:
    """SQL, or the Python code of a DataFrame, as of a step. It has no quotes that the text lacked, because the text may be within quotes."""
    time = f"timestamp_micros({clock_us(step)})"
    for function, value in (
        ("now()", time),
        ("localtimestamp()", f"CAST({time} AS TIMESTAMP_NTZ)"),
        ("current_date()", f"CAST({time} AS DATE)"),
        ("unix_timestamp()", f"unix_seconds({time})"),
    ):
        text = text.replace(function, value)
    return text


def reads_clock(text: str) -> bool:
    return at(text, 0) != text
