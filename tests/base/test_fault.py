"""Every fault has an exit code, and the README names them all."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from base.fault import ExitCode, Fault, exit_code_of
from stepwell.errors import OwnMistake

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("base", "faults", "protocols", "storage", "io_kafka", "engine", "coordinator", "stepwell")


def _all_faults() -> list[type[Fault]]:
    for room in ROOMS:
        for module in pkgutil.walk_packages([str(ROOT / room)], f"{room}."):
            if not module.name.endswith(("__main__", "._native")):
                importlib.import_module(module.name)
    found: list[type[Fault]] = []
    waiting = [Fault]
    while waiting:
        subclasses = [kind for kind in waiting.pop().__subclasses__() if kind.__module__.split(".")[0] in ROOMS]
        found += subclasses
        waiting += subclasses
    return found


FAULTS = _all_faults()


def test_there_are_faults_of_every_room_that_has_some() -> None:
    rooms = {kind.__module__.split(".")[0] for kind in FAULTS}
    assert rooms == set(ROOMS) - {"faults", "protocols"}


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: str(kind.__name__))
def test_a_fault_has_an_exit_code_that_means_a_fault(kind: type[Fault]) -> None:
    no_fault = {ExitCode.OK, ExitCode.INTERNAL, ExitCode.USAGE, ExitCode.INTERRUPTED}
    assert kind.exit_code not in no_fault or kind is OwnMistake


@pytest.mark.parametrize(
    ("message", "what_to_do", "text"),
    [
        ("it is down.", "Start it.", "it is down. Start it."),
        ('it answers 401: {"message":"no"}', "Log in.", 'it answers 401: {"message":"no"}. Log in.'),
        ("its answer is not JSON", "Name it.", "its answer is not JSON. Name it."),
        ('it says "It is down."', "Start it.", 'it says "It is down." Start it.'),
        ("it is down", "", "it is down"),
    ],
)
def test_a_message_is_a_sentence_of_its_own_before_the_advice(message: str, what_to_do: str, text: str) -> None:
    assert str(Fault(message, what_to_do)) == text


def test_a_mistake_of_our_own_has_none() -> None:
    assert exit_code_of(AssertionError("step 3 ran twice")) is None


def test_the_readme_names_every_exit_code() -> None:
    text = (ROOT / "README.md").read_text()
    paragraph = text[text.index("Exit codes:") :].split("\n\n")[0]
    named = {int(number) for number in re.findall(r"(?:: |· )(\d+) ", paragraph.replace("\n", " "))}
    assert named == {int(code) for code in ExitCode}
