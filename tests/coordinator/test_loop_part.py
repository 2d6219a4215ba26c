"""No part of the loop is forgotten, and no moment of a part."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

from coordinator import loop
from coordinator.loop import RunParts
from coordinator.loop_part import LoopPart
from coordinator.running.plan_topic import PlanTopic

ROOM = Path(loop.__file__).parent
MOMENTS = {"recovered", "look", "note_step", "awaits_answers"}


def classes_of_parts() -> dict[str, ast.ClassDef]:
    """All classes of the room that say that they are a part of the loop, by name."""
    nodes = (node for file in ROOM.rglob("*.py") for node in ast.walk(ast.parse(file.read_text())))
    return {
        node.name: node
        for node in nodes
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == LoopPart.__name__ for base in node.bases)
    }


def test_the_loop_asks_every_part_once() -> None:
    hints = get_type_hints(RunParts, vars(loop))
    made: dict[str, Any] = {name: SimpleNamespace(kind=kind) for name, kind in hints.items()}
    asked: Any = RunParts(**made).of_loop(SimpleNamespace(kind=PlanTopic))  # type: ignore[arg-type]
    names = [part.kind.__name__ for part in asked]
    assert sorted(names) == sorted(classes_of_parts()) and len(names) > 1


def test_every_part_says_what_it_does_at_each_moment() -> None:
    """A part that has nothing to do says why. None takes over what another class does."""
    assert set(LoopPart.__abstractmethods__) == MOMENTS
    for name, kind in classes_of_parts().items():
        said = {node.name for node in kind.body if isinstance(node, ast.FunctionDef)}
        assert said >= MOMENTS, f"{name} lacks {MOMENTS - said}"
