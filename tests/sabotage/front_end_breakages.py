"""Mistakes in the front end: what the user wrote is confused with what Spark made of it, or is not said."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

KEPT_PLAN, TEST_KEPT_PLAN = "stepwell/planning/kept_plan.py", "tests/stepwell/test_kept_plan.py"
KEPT_DEFINITIONS, KEPT_FOLDER = "stepwell/planning/kept_definitions.py", "stepwell/planning/kept_folder.py"
TEST_KEPT_DEFINITIONS, RESOLVER = "tests/stepwell/test_kept_definitions.py", "stepwell/planning/resolver.py"
TEST_REFUSALS = "tests/stepwell/lowering/test_refusals.py"

FRONT_END = (
    Breakage(
        "nulls-within-come-last",
        "Structs and arrays are compared in DuckDB's order, in which nulls within them come last.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/comparison.py",
                'f"({order_value(left.sql, left.type)} {operator} {order_value(right.sql, right.type)})", BOOL',
                'f"({left.sql} {operator} {right.sql})", BOOL',
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
        "fields-have-no-collation",
        "A collation of a field within a struct is left out, because Spark writes it beside the field's type.",
        "the batch answer",
        (Edit("stepwell/project/refusals.py", '|"__COLLATIONS":\'', "'"),),
        ("tests/stepwell/test_help.py::test_queries_and_results_that_run_nowhere_here",),
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
                KEPT_PLAN, "path.read_bytes() if path.stat().st_size <= FILE_BYTES_MAX else size_and_time(path)", 'b""'
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
    Breakage(
        "kept-definition-over-other-columns",
        "The plans of a view are used although a column that it reads can be null now.",
        "no silence",
        (Edit(KEPT_DEFINITIONS, "_digest(output.name, schema.json())", "_digest(output.name, schema.simpleString())"),),
        (f"{TEST_KEPT_DEFINITIONS}::test_only_what_depends_on_an_edit_is_planned",),
    ),
    Breakage(
        "kept-definition-over-another-inlined-view",
        "The plans of a view are used although a temporary view in them has changed.",
        "no silence",
        (Edit(KEPT_DEFINITIONS, "Input(name, True, _digest(output.name, text))", "Input(name, True, output.name)"),),
        (f"{TEST_KEPT_DEFINITIONS}::test_only_what_depends_on_an_edit_is_planned",),
    ),
    Breakage(
        "kept-definition-with-other-settings",
        "The plans of a view are used although a setting of Spark's has changed.",
        "no silence",
        (Edit(KEPT_DEFINITIONS, '_digest("view", self._session, output.kind,', '_digest("view", output.kind,'),),
        (f"{TEST_KEPT_DEFINITIONS}::test_settings",),
    ),
    Breakage(
        "kept-definition-over-files",
        "The plans of a view are kept although it reads files, and the optimiser has left them out because no row passes the filter.",
        "no silence",
        (Edit(KEPT_DEFINITIONS, "if each.classes & _OF_USERS or", "if"),),
        (f"{TEST_KEPT_DEFINITIONS}::test_an_unchanged_project_is_read_from_the_folder",),
    ),
    Breakage(
        "kept-definition-with-a-captured-name",
        "The plans of a view are used although the session has a function with the name of one that it calls.",
        "no silence",
        (Edit(KEPT_DEFINITIONS, "            self._functions = functions_of_session(definitions.spark)\n", ""),),
        (f"{TEST_KEPT_DEFINITIONS}::test_a_function_with_the_name_of_one_of_sparks",),
    ),
    Breakage(
        "kept-definitions-decide-the-order",
        "Sources and views are in the order in which they were resolved, which depends on the plans that were kept.",
        "no silence",
        (
            Edit(RESOLVER, "        self.sources.sort(key=lambda spec: place[spec.handle.lower()])\n", ""),
            Edit(RESOLVER, "views=in_order(self.views, place)", "views=tuple(self.views)"),
        ),
        (f"{TEST_KEPT_DEFINITIONS}::test_the_order_is_that_of_the_definitions",),
    ),
    Breakage(
        "damaged-definition-used",
        "The plans of a view are read from a file whose checksum is wrong.",
        "no silence",
        (Edit(KEPT_FOLDER, " and checksum == xxhash.xxh3_128_hexdigest(body)", ""),),
        (f"{TEST_KEPT_DEFINITIONS}::test_a_file_that_is_not_whole_is_left_out[the body of another]",),
    ),
    Breakage(
        "kept-definitions-of-another-version",
        "The plans of a view are read although another version of Stepwell has written them.",
        "no silence",
        (Edit(KEPT_FOLDER, "if code == installed_digest():", "if code:"),),
        (f"{TEST_KEPT_DEFINITIONS}::test_a_file_that_is_not_whole_is_left_out[another version]",),
    ),
    Breakage(
        "kept-definitions-grow-without-end",
        "Plans that no definition uses stay.",
        "9 bounded",
        (Edit(KEPT_FOLDER, "unused if is_whole else unused[UNUSED_MAX:]", "[]"),),
        (f"{TEST_KEPT_DEFINITIONS}::test_what_was_not_used_does_not_grow_without_end",),
    ),
    Breakage(
        "error-removes-kept-definitions",
        "One view with an error removes what is kept of those that could not be planned because of it.",
        "speed",
        (Edit(RESOLVER, "kept.save(is_whole=not errors)", "kept.save(is_whole=True)"),),
        (f"{TEST_KEPT_DEFINITIONS}::test_errors_are_those_of_a_project_that_is_planned_afresh",),
    ),
    Breakage(
        "kept-plan-compared-with-kept-definitions",
        "A service compares its kept plan with plans that were kept too.",
        "no silence",
        (
            Edit(
                "stepwell/commands/serve.py",
                "PlanCheck(project, kept, definitions.plan_afresh, is_due",
                "PlanCheck(project, kept, definitions.plan, is_due",
            ),
        ),
        (f"{TEST_KEPT_PLAN}::test_a_kept_plan_is_compared_with_one_that_is_made_afresh",),
    ),
    Breakage(
        "keys-of-joins-as-spark-leaves-them",
        "A key of a join that Spark has not normalised is compared by its bytes.",
        "a view is the batch answer",
        (
            Edit(
                "stepwell/lowering/rules/join_sides.py",
                "    return normal_key(tree, context.type_over_outputs(tree, side))\n",
                "    return tree\n",
            ),
        ),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[doubles not in, in a projection]",
        ),
    ),
    Breakage(
        "zeros-within-lists-as-they-are",
        "A zero with a sign within a struct or an array is another key than one without.",
        "a view is the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/conditional.py",
                "        return convert_parts(operand, type_, _normal_parts)\n",
                "        return operand\n",
            ),
        ),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[nested keys with doubles: not in]",
        ),
    ),
    Breakage(
        "a-script-is-a-syntax-error",
        "A BEGIN ... END in an SQL file is a syntax error, and no text says what to write instead.",
        "an error is told",
        (Edit("stepwell/project/refusals.py", 're.compile(r"^\\s*BEGIN\\b"', 're.compile(r"^BEGINS\\b"'),),
        ("tests/stepwell/test_help.py::test_clauses_of_other_engines[BEGIN SELECT 1; END]",),
    ),
    Breakage(
        "lost-columns-are-found-in-the-leaves",
        "A column that Spark's optimiser has pruned counts as there, because a leaf has it.",
        "an error is told",
        (
            Edit(
                "stepwell/lowering/lost_columns.py",
                "    if node.kind in _LISTS:\n",
                "    if node.kind in ():\n",
            ),
        ),
        (
            "tests/stepwell/lowering/test_refusals.py::test_a_column_that_sparks_optimiser_has_lost_is_a_refusal_and_a_materialized_view_is_the_way_out",
        ),
    ),
)
