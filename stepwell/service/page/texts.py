"""Numbers and times as the page has them, and HTML that nothing can break out of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from base.sizes import size_text

NONE = "–"
"""What stands for a value that is not known."""


def number_text(value: float | None) -> str:
    """Returns a number with three digits: 7, 1.25, 12.3k, 4.56M."""
    if value is None:
        return NONE
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= factor:
            factor = 1e3 if letter == "k" else factor
            return f"{value / factor:.3g}{letter}"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def seconds_text(seconds: float | None) -> str:
    """12 ms, 3.4 s, 5 min, 2.5 h, 3 d."""
    if seconds is None:
        return NONE
    for limit, unit, name in ((1.0, 1e-3, "ms"), (120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172_800.0, 3600.0, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86_400:.3g} d"


def percent_text(part: float) -> str:
    """Several workers together may work more than all the time."""
    return f"{number_text(100 * part) if part >= 1 else format(100 * part, '.2g')} %"


def bytes_text(value: float | None) -> str:
    return NONE if value is None else size_text(int(value))


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, marked: Iterable[int] = ()) -> str:
    """`rows`: of HTML cells. Columns after the first have numbers. `marked`: the numbers of rows that are in error."""
    bad = frozenset(marked)
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    body = "".join(
        f'<tr{" class=bad" if at in bad else ""}><th scope="row">{row[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for at, row in enumerate(rows)
    )
    empty = f'<tr><td colspan="{len(heads)}">nothing yet</td></tr>'
    label = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table><caption>{label}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body or empty}</tbody></table></div>"
    )


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Names and values, the values as HTML."""
    return "<dl>" + "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in rows) + "</dl>"
