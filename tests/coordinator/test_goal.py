"""A new goal cannot be forgotten, because one module alone compares goals, and mypy has it answer each question for each of them."""

from __future__ import annotations

import ast
from pathlib import Path

from coordinator.goal import Goal
from tests.rooms import ROOMS

ROOT = Path(__file__).parent.parent.parent


def test_no_other_module_compares_goals() -> None:
    modules = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    assert [path for path in modules if path.name != "goal.py" and _compares_goals(path.read_text())] == []


def test_a_comparison_is_recognised() -> None:
    for text in ("goal is Goal.SERVE", "goal in (Goal.SERVE, other)", "match goal:\n  case Goal.SERVE: pass"):
        assert _compares_goals(text), text
    assert not _compares_goals("run(goal=Goal.SERVE if goal.divides_input else other)")


def test_each_goal_answers_each_question() -> None:
    questions = [name for name, value in vars(Goal).items() if isinstance(value, property)]
    answers = [tuple(getattr(goal, question) for question in questions) for goal in Goal]
    assert questions and len({*answers}) == len(Goal), "two goals differ in nothing"
    assert all(len({*column}) == 2 for column in zip(*answers, strict=True)), "a question with one answer"


def _compares_goals(text: str) -> bool:
    comparisons = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Compare | ast.MatchValue))
    return any("Goal." in ast.unparse(node) for node in comparisons)
