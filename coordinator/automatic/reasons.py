"""The reasons of decisions in words, with the numbers that decided."""

from __future__ import annotations


def rows(count: float) -> str:
    """So many rows; three digits are enough for a reader."""
    if count < 1000:
        return f"{count:,.0f} rows"
    magnitude = 10 ** (len(f"{count:.0f}") - 3)
    return f"{round(count / magnitude) * magnitude:,.0f} rows"


def rate(rows_per_s: float) -> str:
    return f"{rows(rows_per_s)}/s"


def time(seconds: float) -> str:
    if seconds == float("inf"):
        return "for ever"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def workers(count: int) -> str:
    return f"{count} worker{'' if count == 1 else 's'}"


def manage(count: int, rows_per_s: float | None) -> str:
    """What so many workers can do."""
    verb = "manages" if count == 1 else "manage"
    amount = "a rate that is not known yet" if rows_per_s is None else f"about {rate(rows_per_s)}"
    return f"{workers(count)} {verb} {amount}"


def needs(count: int, seconds: float) -> str:
    """How long so many workers take for a backlog."""
    if seconds == float("inf"):
        return f"{workers(count)} would never be done with it"
    return f"{workers(count)} would be done with it in {time(seconds)}"
