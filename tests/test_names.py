"""Names of functions: one that is a bare participle says neither what the function does nor what it returns (docs/contributing.md, Names)."""

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

EVENTS = {
    "coordinator": {
        "_settled", "adopted", "asked", "bounded", "buried", "cleared", "collected", "completed", "copied", "described", "failed",
        "folded", "given", "intended", "looked", "measured", "moved", "paced", "paused", "prepared", "recorded", "recovered",
        "recruited", "refused", "requested", "rested", "settled", "staffed", "stepped", "stored", "turned", "unbounded",
        "uploaded", "weighed",
    },
    "faults": {"reached"},
    "io_kafka": {"answered", "_answered"},
    "protocols": {"answered", "_installed"},
    "stepwell": {"_claimed", "_received"},
}  # fmt: skip
"""Called when something has happened, most of them in a machine or in one of its phases."""

FIXED = {"engine": {"cached"}}
"""Functions whose names are in the pickles of plans that are in use (engine/python/rebuilt.py)."""


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_is_called_by_a_bare_participle(room: str) -> None:
    participles = {name for name in _functions(room) if _PARTICIPLE.fullmatch(name) and "_" not in name.strip("_")}
    assert participles == EVENTS.get(room, set()) | FIXED.get(room, set())


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
