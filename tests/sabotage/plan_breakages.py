"""Mistakes in what a plan says of a change."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

BOUNDS, TEST_BOUNDS = "coordinator/revisions/row_bounds.py", "tests/stepwell/test_row_bounds.py"
BOUND = "a bound of the rows that an output gets holds whatever the data are"


def differs(case: str) -> str:
    return f"{TEST_BOUNDS}::test_the_bound_of_what_differs_is_told_only_if_it_holds[{case}]"


ACCEPTED, TEST_COMMANDS = "a switch that accepts rows in error says so", "tests/stepwell/test_revision_commands.py"

REASONS, TEST_REASONS = "coordinator/revisions/first_difference.py", "tests/stepwell/test_reasons.py"
REASON = "a plan says what was changed"

PLANS = (
    Breakage(
        "rows-in-python-are-in-no-plan",
        "createDataFrame of a list keeps its rows in an RDD of Python objects, which no plan shows.",
        "the batch answer",
        (
            Edit(
                "stepwell/planning/resolver.py",
                "refuse_actions(reading), python_rows_in_plans():",
                "refuse_actions(reading):",
            ),
        ),
        ("tests/stepwell/test_python_rows.py::test_a_definition_joins_rows_that_it_has_in_python",),
        tells="rows of an RDD",
    ),
    Breakage(
        "a-bound-over-a-view-that-gets-changes",
        "The rows of a view below that gets changes at the switch are taken to be those of its state before the switch.",
        BOUND,
        (Edit(BOUNDS, " and below not in found.disturbed\n", "\n"),),
        (differs("the view below gets changes"),),
    ),
    Breakage(
        "a-bound-over-other-rows",
        "A view that reads another view than before is taken to have another filter over the same rows.",
        BOUND,
        (Edit(BOUNDS, "found.kept.get(below) == old.inputs[0] and", "below in found.kept and"),),
        (differs("another view is read"),),
    ),
    Breakage(
        "a-bound-over-an-explode",
        "The rows that an explode makes of one row of the state are counted as one.",
        BOUND,
        (
            Edit(
                BOUNDS,
                "case Recomputed(below=below) | Twin(below=below) if isinstance(node, _AT_MOST_ONE):",
                "case Recomputed(below=below) | Twin(below=below):",
            ),
        ),
        (differs("a row of the state is several rows"),),
    ),
    Breakage(
        "what-nobody-has-counted-is-nothing",
        "The rows of a node that no checkpoint has counted are 0 rows.",
        BOUND,
        (
            Edit(
                "coordinator/revisions/comparison.py",
                "(self.facts.rows or {}).get(self.before.numbers[holder])",
                "(self.facts.rows or {}).get(self.before.numbers[holder], 0)",
            ),
        ),
        (f"{TEST_BOUNDS}::test_what_no_checkpoint_has_counted_is_unknown",),
    ),
    Breakage(
        "a-renamed-view-is-any-of-its-definition",
        "Of several views with one definition that were renamed, the topic does not tell which is which.",
        "a renamed view keeps its state",
        (
            Edit("engine/analysis/identity.py", "if self._previous_topics[name] & mine]", "if mine]"),
            Edit("engine/analysis/identity.py", "if not self._previous_topics[name] & every]", "]"),
        ),
        ("tests/engine/test_identity.py::test_of_views_of_one_definition_the_topic_tells_which_was_renamed",),
    ),
    Breakage(
        "errors-of-the-former-project-are-the-switch-s",
        "The views whose rows are in error in the former project too count as put in error by the switch.",
        ACCEPTED,
        (
            Edit(
                "coordinator/transition/switch_obstacles.py",
                "return [each for each in errors if each.node in new]",
                "return [each for each in errors if new]",
            ),
        ),
        ("tests/coordinator/transition/test_switch_obstacles.py::test_the_views_that_a_switch_puts_in_error_are_told",),
    ),
    Breakage(
        "errors-are-accepted-in-silence",
        "The answer of `revision switch` does not name the views that are in error then.",
        ACCEPTED,
        (
            Edit(
                "stepwell/commands/revision.py",
                'if what == "switch" and (wrong := in_error_text(under_way)):',
                'if what == "abort" and (wrong := in_error_text(under_way)):',
            ),
        ),
        (f"{TEST_COMMANDS}::test_requests_for_the_transition_under_way",),
    ),
    Breakage(
        "what-is-left-out-is-not-told",
        "A node that was left out below a view is not the reason for which the view is rebuilt.",
        REASON,
        (Edit(REASONS, "            yield self._of_what_is_left_out(lost)\n", "            pass\n"),),
        (f"{TEST_REASONS}::test_the_reason_is_what_was_changed[DISTINCT]",),
    ),
)
