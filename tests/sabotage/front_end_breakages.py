"""Mistakes in the front end: what the user wrote is confused with what Spark made of it, or is not said."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

KEPT_PLAN, TEST_KEPT_PLAN = "stepwell/planning/kept_plan.py", "tests/stepwell/test_kept_plan.py"
TEST_REFUSALS = "tests/stepwell/lowering/test_refusals.py"

FRONT_END = (
    Breakage(
        "nulls-within-come-last",
        "Structs and arrays are compared in DuckDB's order, in which nulls within them come last.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/comparison.py",
                "tuple(replace(a, sql=order_value(a.sql, a.type)) for a in arguments)",
                "arguments",
            ),
            Edit(
                "stepwell/lowering/expressions/conditional.py",
                "f\"{order_value('y', type_)} {better} {order_value('x', type_)}\"",
                'f"y {better} x"',
            ),
        ),
        ("tests/stepwell/expressions/test_logic.py::test_logic_is_sparks",),
    ),
    Breakage(
        "session-windows-run",
        "session_window() is not refused where nothing merges it, so that every row becomes a session of its own.",
        "the batch answer",
        (
            Edit(
                "stepwell/project/refusals.py",
                "merged) < len(written) or sorted(made) != sorted(merged)",
                "merged) > len(written) + len(made)",
            ),
        ),
        (f"{TEST_REFUSALS}::test_session_windows_are_refused_where_their_placeholder_would_run",),
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
        (f"{TEST_REFUSALS}::test_a_users_first_beside_a_drop_duplicates_is_an_aggregate",),
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
    Breakage(
        "kept-plan-never-compared",
        "A service runs what was planned before, whatever its definitions say now.",
        "no silence",
        (
            Edit(
                KEPT_PLAN,
                "            differs = not self._make().is_same(self._kept)\n",
                "            self._make()\n            differs = False\n",
            ),
        ),
        (f"{TEST_KEPT_PLAN}::test_definitions_that_depend_on_the_environment_end_the_run",),
    ),
    Breakage(
        "kept-plan-of-other-files",
        "A plan is used although a file of the project has changed.",
        "no silence",
        (
            Edit(
                KEPT_PLAN, "path.read_bytes() if path.stat().st_size <= FILE_BYTES_MAX else _size_and_time(path)", 'b""'
            ),
        ),
        (f"{TEST_KEPT_PLAN}::test_a_change_makes_another_key",),
    ),
    Breakage(
        "damaged-plan-used",
        "A plan is used whose checksum is wrong.",
        "no silence",
        (
            Edit(
                KEPT_PLAN,
                'head.decode(errors="replace") != f"{key} {xxhash.xxh3_128_hexdigest(body)}"',
                'head.decode(errors="replace").split(" ")[0] != key',
            ),
        ),
        (f"{TEST_KEPT_PLAN}::test_a_plan_with_another_checksum_is_not_used",),
    ),
)
