"""Mistakes in recursions."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

RECURSION, TEST_RECURSION = "engine/operators/recursion.py", "tests/engine/test_recursion.py"

RECURSIONS = (
    Breakage(
        "parts-of-a-recursion-share-a-trace",
        "Two operators in the body of a recursion keep their state in the same traces.",
        "the batch answer",
        (
            Edit(
                "engine/operators/context.py",
                "number = trace_number if self.part is None else self.part.first_trace + trace_number",
                "number = trace_number if self.part is None else min(self.part.first_trace, 1) + trace_number",
            ),
        ),
        ("tests/engine/test_recursion.py::test_a_step_changes_what_the_levels_change",),
    ),
    Breakage(
        "recursion-ends-after-a-round",
        "A change of a table is followed to the next level and not further.",
        "the batch answer",
        (
            Edit(
                RECURSION,
                "        if not change.num_rows:\n            break\n        whole",
                "        if not change.num_rows or final:\n            change = change.slice(0, 0)\n            break\n        whole",
            ),
        ),
        (f"{TEST_RECURSION}::test_a_step_changes_what_the_levels_change",),
    ),
    Breakage(
        "recursion-reads-a-change-twice",
        "A change of another table is given to the body in every round, and counts several times.",
        "the batch answer",
        (Edit(RECURSION, "if place in self._values else rows.slice(0, 0)", "if place in self._values else rows"),),
        (f"{TEST_RECURSION}::test_a_step_changes_what_the_levels_change",),
    ),
    Breakage(
        "recursion-forgets-what-was-made",
        "The rows of a level are counted from those of the step alone, so that a level too many goes unnoticed if it comes step by step.",
        "no silence",
        (Edit(RECURSION, "        self._now = self._stored.copy()\n", "        self._now = self._stored * 0\n"),),
        (f"{TEST_RECURSION}::test_rows_of_many_steps_are_too_many_together",),
    ),
    Breakage(
        "recursion-has-one-level-more",
        "A recursion may have one level more than Spark allows.",
        "the batch answer",
        (Edit(RECURSION, "        if self._now[-1]:\n", "        if self._now[-1] < 0:\n"),),
        (f"{TEST_RECURSION}::test_a_level_beyond_the_limit_is_sparks_error",),
    ),
)
