"""The verdict on every breakage, as text for a terminal and as a page of Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.sabotage.breakage import Breakage
from tests.sabotage.outcomes import Outcome

SAID_CHARACTERS_MAX = 140
"""The part of a failure's first line that is shown, because the line can hold whole tables."""


@dataclass(frozen=True)
class Verdict:
    """`failures`: the first failure of each test that caught it. `silent`: what the other tests did, which should have caught it."""

    breakage: Breakage
    failures: Sequence[Outcome]
    silent: Sequence[str]
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether every test in the breakage's list has caught it."""
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
        "A test that cannot fail proves nothing. So `make sabotage` breaks the code on purpose, in a copy, one mistake at a time, and the suite "
        "must notice each. The breakages are data in `tests/sabotage/`, and a test checks that each still fits the code. A breakage counts as "
        "caught if every test named for it passes on the unbroken code, and fails under the breakage by an assertion, or by an error of ours "
        "that says what is broken.",
        "",
        "Two kinds of mistakes are missing here: those that show only after a loss of power (a test checks that LMDB is asked to sync, but not "
        "that the disk does), and those that make a run hang, which a test would notice only by its deadline.",
        "",
        f"The last full run: {caught} of {len(verdicts)} caught, {seconds:.0f} seconds on two cores.",
        "",
        "| breakage | what it does | breaks | caught by |",
        "|---|---|---|---|",
        *rows,
        "",
    ])  # fmt: skip


def _shown(said: str) -> str:
    """The text without what differs from run to run: folders, and the prefixes of a test's topic names."""
    said = re.sub(r"/(?:tmp|dev/shm)/[^\s':]+", "FOLDER", said)
    said = re.sub(r"\bt[0-9a-f]{12}-", "", said)
    return said if len(said) <= SAID_CHARACTERS_MAX else said[: SAID_CHARACTERS_MAX - 3] + "..."


def _cell(text: str) -> str:
    """The text with Markdown's special characters escaped, for a cell of a table."""
    for mark in "\\|*_<`":
        text = text.replace(mark, f"\\{mark}")
    return text
