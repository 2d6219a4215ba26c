"""A function or a class takes at most five values by position, and further ones by keyword.

The linter holds it for the parameters of functions (PLR0917 in pyproject.toml). It does not see the fields of dataclasses and named tuples, so
here every call of a class of ours in production code is looked at.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

from tests.rooms import ROOMS

ROOT = Path(__file__).parent.parent
POSITIONAL_MAX = 5


@cache
def trees() -> dict[Path, ast.Module]:
    """Of all of production code. They are made in the tests, because each worker of a run imports this file."""
    return {path: ast.parse(path.read_text()) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}


@cache
def ours() -> set[str]:
    return {node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def crowded(tree: ast.Module) -> list[ast.Call]:
    """The calls of classes with too many positional arguments. A class method calls its class `cls`."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if len(call.args) > POSITIONAL_MAX and called(call) in {*ours(), "cls"}]


def test_an_object_is_made_of_five_positional_values_at_most() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno} {called(call)}({len(call.args)})"
        for path, tree in trees().items()
        for call in crowded(tree)
    ]
    assert not found, "name the arguments, or make an object of those that belong together"


def test_a_crowded_call_is_seen() -> None:
    name = sorted(ours())[0]
    for text in (f"{name}(1, 2, 3, 4, 5, 6)", f"module.{name}(1, 2, 3, 4, 5, *rest)", "cls(1, 2, 3, 4, 5, 6, g=7)"):
        assert len(crowded(ast.parse(text))) == 1, text
    assert not crowded(ast.parse(f"{name}(1, 2, 3, 4, 5, f=6)\nnobody_s(1, 2, 3, 4, 5, 6)"))


def test_the_linter_holds_the_same_for_functions() -> None:
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "PLR0917" in lint["select"] and lint["preview"] and lint["explicit-preview-rules"]
    assert lint["pylint"]["max-positional-args"] == POSITIONAL_MAX
    assert "PLR0917" not in lint["ignore"] and "per-file-ignores" not in lint
