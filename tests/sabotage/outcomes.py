"""A plugin of pytest that records how every test ended. The runner judges by the kind of a failure and not by its text.

It is loaded with `-p tests.sabotage.outcomes`. `OUTCOMES_VARIABLE` names the file, which is a JSON list of `Outcome`s as objects.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import hypothesis
import pytest

from tests.rooms import ROOMS

OUTCOMES_VARIABLE = "SABOTAGE_OUTCOMES"
PROFILE = "sabotage"

Kind = Literal["passed", "assertion", "own error", "crash"]
"""`assertion`: an assertion of the test or of the code that it runs. `own error`: an exception class of ours. `crash`: any other error, and
everything that goes wrong outside of a test's body."""


@dataclass(frozen=True)
class Outcome:
    """`test`: pytest's id. `said`: the class and the first line of the failure."""

    test: str
    kind: Kind
    said: str = ""


# A counter-example need not be small, and it must not matter which of several is found first.
hypothesis.settings.register_profile(
    PROFILE,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)

_outcomes: list[Outcome] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None:
        kind = _kind(call.excinfo.value) if call.when == "call" else "crash"
        _outcomes.append(Outcome(item.nodeid, kind, call.excinfo.exconly().splitlines()[0]))
    elif call.when == "call":
        _outcomes.append(Outcome(item.nodeid, "passed"))
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _outcomes.append(Outcome(report.nodeid, "crash", str(report.longrepr).splitlines()[-1]))


def pytest_sessionfinish() -> None:
    Path(os.environ[OUTCOMES_VARIABLE]).write_text(json.dumps([asdict(outcome) for outcome in _outcomes]))


def _kind(error: BaseException) -> Kind:
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return "assertion"
    return "own error" if type(error).__module__.split(".")[0] in ROOMS else "crash"
