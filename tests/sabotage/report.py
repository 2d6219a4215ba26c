"""What became of every breakage, as text for a terminal and as a page of Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.sabotage.breakage import Breakage
from tests.sabotage.outcomes import Outcome

SAID_CHARACTERS_MAX = 140
"""Of a failure's first line: it can hold whole tables."""


@dataclass(frozen=True)
class Verdict:
    """`failures`: of each test that caught it, the first. `silent`: what the tests did that should have caught it and did not."""

    breakage: Breakage
    failures: Sequence[Outcome]
    silent: Sequence[str]
    seconds: float

    @property
    def caught(self) -> bool:
        """By every test that is said to catch it: the list is a promise of each."""
        return bool(self.failures) and not self.silent


def as_text(verdicts: Sequence[Verdict], seconds: float) -> str:
    lines = [f"{'breakage':36} {'breaks':30} caught by: what it said", "-" * 140]
    for verdict in verdicts:
        breakage = verdict.breakage
        first, *rest = [f"{o.test}: {_shown(o.said)}" for o in verdict.failures] + [
            f"NOT CAUGHT by {text}" for text in verdict.silent
        ]
        lines.append(f"{breakage.name:36} {breakage.breaks:30} {first}")
        lines += [f"{'':67} {line}" for line in rest]
    caught = sum(verdict.caught for verdict in verdicts)
    return "\n".join(["", *lines, "", f"{caught} of {len(verdicts)} breakages caught, in {seconds:.0f} s"])


def as_markdown(verdicts: Sequence[Verdict], seconds: float) -> str:
    caught = sum(verdict.caught for verdict in verdicts)
    rows = [
        f"| {v.breakage.name} | {_cell(v.breakage.does)} | {v.breakage.breaks} | "
        + "<br>".join(
            [f"`{o.test}`: {_cell(_shown(o.said))}" for o in v.failures] + [f"**not** {_cell(s)}" for s in v.silent]
        )
        + " |"
        for v in verdicts
    ]
    return "\n".join([
        "# Sabotage",
        "",
        "A test that cannot fail proves nothing. So the code is broken on purpose, in a copy, one mistake at a time, and the suite must notice "
        "each: `make sabotage`. The breakages are data in `tests/sabotage/`, and a test holds that each still fits the code. A breakage "
        "counts as caught where every test named for it passes on the code as it is, and under the breakage fails by an assertion, or by an "
        "error of ours that says what is broken.",
        "",
        "What is not among them: a mistake that shows only where the power is lost (a test holds that LMDB is asked to sync, not that the disk "
        "does), and one that makes a run hang, which a test would notice by its deadline alone.",
        "",
        f"The last full run: {caught} of {len(verdicts)} caught, {seconds:.0f} seconds on two cores.",
        "",
        "| breakage | what it does | breaks | caught by |",
        "|---|---|---|---|",
        *rows,
        "",
    ])  # fmt: skip


def _shown(said: str) -> str:
    """Without what is another at every run: folders, and what the names of a test's topics begin with."""
    said = re.sub(r"/(?:tmp|dev/shm)/[^\s':]+", "FOLDER", said)
    said = re.sub(r"\bt[0-9a-f]{12}-", "", said)
    return said if len(said) <= SAID_CHARACTERS_MAX else said[: SAID_CHARACTERS_MAX - 3] + "..."


def _cell(text: str) -> str:
    """As plain text within a table."""
    for mark in "\\|*_<`":
        text = text.replace(mark, f"\\{mark}")
    return text
