"""Names of functions: one that is a bare participle says neither what the function does nor what it returns (docs/contributing.md, Names).
Docstrings: one that begins with "Of one run" or "As `foo`" does not say of what it speaks. Classes: a name that two modules have does not say
which of the two is meant, such as an action of the core and the order by which the shell carries it out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rooms import ROOMS

ROOT = Path(__file__).parent.parent

_PARTICIPLE = re.compile(
    r"_*(\w*[^e]ed|begun|chosen|done|drawn|found|given|gone|held|kept|known|left|lost|made|meant|met|paid|said|seen|sent|shown|taken|told|written)"
)

_FRAGMENT = re.compile(r"Of |As of |As `|Likewise\b|That of |Those of |The same ")

EVENTS = {
    "coordinator": {
        "_settled", "adopted", "asked", "bounded", "cleared", "collected", "completed", "copied", "described", "failed", "folded",
        "given", "intended", "measured", "moved", "named", "paused", "planned", "prepared", "recorded", "recovered",
        "recruited", "refused", "requested", "rested", "settled", "sized", "stepped", "stored", "switched", "turned", "unbounded",
        "uploaded", "wanted", "weighed",
    },
    "faults": {"reached"},
    "io_kafka": {"answered", "_answered"},
    "protocols": {"answered", "_installed"},
    "stepwell": {"_received"},
}  # fmt: skip
"""Called when something has happened, most of them in a machine or in one of its phases."""

FIXED = {"engine": {"cached"}}
"""Functions whose names are in the pickles of plans that are in use (engine/python/rebuilt.py)."""

OWN_CLASSES = ("base", "storage", "engine", "coordinator", "stepwell")
"""The rooms whose classes share one space of names. Formats of messages (io_kafka) are called as their specifications call them, and each
protocol has its own messages (protocols)."""


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_is_called_by_a_bare_participle(room: str) -> None:
    participles = {name for name in _functions(room) if _PARTICIPLE.fullmatch(name) and "_" not in name.strip("_")}
    assert participles == EVENTS.get(room, set()) | FIXED.get(room, set())


def test_each_class_has_a_name_of_its_own() -> None:
    modules: dict[str, list[str]] = {}
    for room in OWN_CLASSES:
        for module, name in _classes(room):
            modules.setdefault(name, []).append(module)
    assert {name: places for name, places in modules.items() if len(places) > 1} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_each_docstring_names_its_subject(room: str) -> None:
    assert [place for place, text in _docstrings(room) if _FRAGMENT.match(text)] == []


def test_a_fragment_is_recognised() -> None:
    fragments = (
        "Of one run.",
        "As of InputTopic.",
        "As `ask`, without waiting.",
        "Likewise.",
        "That of keys.",
        "Those of a step.",
        "The same rows.",
    )
    sentences = (
        "Offsets, by partition.",
        "As long as it fills, it waits.",
        "That a block has it is rare.",
        "The samenesses.",
        "Returns the same.",
    )
    assert [text for text in (*fragments, *sentences) if _FRAGMENT.match(text)] == list(fragments)


def _docstrings(room: str) -> Iterator[tuple[str, str]]:
    """The place and the text of each string that stands alone: in a module, a class or a function, and behind a constant or a field."""
    for file in (ROOT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value.value.strip()


def _classes(room: str) -> Iterator[tuple[str, str]]:
    """The module and the name of each class that a module defines for others or for itself."""
    for file in (ROOT / room).rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                yield str(file.relative_to(ROOT)), node.name


def _functions(room: str) -> Iterator[str]:
    """The names of all functions that are no properties."""
    for file in (ROOT / room).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
                map(_makes_property, node.decorator_list)
            ):
                yield node.name


def _makes_property(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Name) and decorator.id in ("property", "cached_property")
