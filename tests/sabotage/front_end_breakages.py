"""Mistakes in the front end: what the user wrote is confused with what Spark made of it, or is not said."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

TEST_REFUSALS = "tests/stepwell/lowering/test_refusals.py"

FRONT_END = (
    Breakage(
        "session-windows-run",
        "session_window() is not refused, so that every row becomes a session of its own.",
        "the batch answer",
        (Edit("stepwell/project/refusals.py", "    if _has_session_window(analysed, text):\n", "    if False:\n"),),
        (f"{TEST_REFUSALS}::test_all_that_cannot_be_replayed_in_a_view_is_found_at_once",),
    ),
    Breakage(
        "first-drops-duplicates",
        "A user's own first(x) AS x runs as a dropDuplicates if the query has one elsewhere.",
        "no silence",
        (
            Edit(
                "stepwell/lowering/rules/aggregate.py",
                "            if first is None or not analysed.made_by_spark(expression_id(item)):\n",
                "            if first is None:\n",
            ),
        ),
        (f"{TEST_REFUSALS}::test_a_users_first_beside_a_drop_duplicates_is_still_refused",),
    ),
    Breakage(
        "lost-jvm-is-a-fault-of-the-view",
        "A call that the JVM did not answer passes for an error of the definition at hand.",
        "no silence",
        (
            Edit(
                "stepwell/spark/session.py",
                '        if type(found) is Py4JError and "Trace:" not in str(found):\n',
                "        if False:\n",
            ),
        ),
        ("tests/stepwell/test_jvm.py::test_what_says_that_the_jvm_did_not_answer",),
    ),
    Breakage(
        "own-mistake-blamed-on-the-project",
        "A failure of ours in one view ends with the exit code for a wrong project.",
        "no silence",
        (Edit("stepwell/errors.py", "    exit_code = ExitCode.INTERNAL\n", ""),),
        (f"{TEST_REFUSALS}::test_a_mistake_of_ours_has_its_exit_code_also_among_other_errors",),
    ),
)
