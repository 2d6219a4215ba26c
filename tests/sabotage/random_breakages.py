"""Mistakes that only a combination of constructs, sources and workers shows: projects that the fuzzer found notice them."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

KEPT = "tests/fuzz/test_fuzz.py::test_a_kept_project_has_sparks_answers"
TEST_OPERATORS = "tests/engine/test_operators.py"
SEMI_JOIN = "engine/operators/semi_join.py"

COMBINATIONS = (
    Breakage(
        "union-lies-where-its-first-input-does",
        "A union says that its rows lie as those of its first input do, so what is above it exchanges nothing.",
        "3 placement independence",
        (
            Edit(
                "engine/operators/linear.py",
                "    alike = all(colocation == inputs[0] for colocation in inputs)",
                "    alike = inputs[0] is not None",
            ),
        ),
        (f"{KEPT}[union-placed-by-its-second-input]",),
    ),
    Breakage(
        "retractions-of-the-first-input-alone",
        "What a join or union takes back because of its second input does not count as taken back.",
        "the batch answer",
        (
            Edit(
                "engine/analysis/retraction.py",
                "next((origins[i] for i in node.inputs if origins[i] is not None), None)",
                "next((origins[i] for i in node.inputs[:1] if origins[i] is not None), None)",
            ),
        ),
        ("tests/engine/test_descriptors.py::test_an_operator_retracts_only_if_its_descriptor_says_so",),
    ),
    Breakage(
        "summary-of-not-in-stays",
        "What NOT IN knows of its right side lies in another slot than its rows, and stays behind when they move.",
        "7 one owner",
        (
            Edit(
                SEMI_JOIN,
                "append(pa.table(delta), np.zeros(1, np.uint64))",
                "append(pa.table(delta), np.full(1, 1 << 63, np.uint64))",
            ),
        ),
        (f"{KEPT}[not-in-while-slots-move]",),
    ),
    Breakage(
        "condition-of-rows-that-never-met",
        "An anti-join evaluates its condition for a row that leaves and one that comes in the same step.",
        "no silence",
        (Edit(SEMI_JOIN, "right_trace, context, asked=~touched_leaves) > 0", "right_trace, context) > 0"),),
        (f"{TEST_OPERATORS}::test_a_row_that_leaves_never_meets_one_that_comes_in_the_same_step[True]",),
        tells="DIVIDE_BY_ZERO",
    ),
    Breakage(
        "keys-to-the-millisecond",
        "Two keys of an upsert topic that differ by a microsecond have the same message key.",
        "whole upsert topics",
        (
            Edit(
                "io_kafka/formats/json_format.py",
                "key, micros=True, patterns=",
                "key, patterns=",
            ),
        ),
        ("tests/io_kafka/formats/test_encode.py::test_keys_that_differ_by_a_microsecond_have_different_texts",),
    ),
    Breakage(
        "a-version-begins-with-its-last-change",
        "AUTO CDC type 2 gives a version of several changes the start of its last one.",
        "the batch answer",
        (
            Edit(
                "stepwell/project/auto_cdc.py",
                "opened = F.when(F.col(_OPENS), sequence).otherwise(F.lag(sequence).over(in_time))",
                "opened = sequence",
            ),
        ),
        (f"{KEPT}[versions-that-agree]",),
    ),
    Breakage(
        "groups-without-a-pair-vanish",
        "A group of which no row has all arguments of count(DISTINCT a, b) is left out.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/rules/aggregate.py",
                "    if keys:\n        found = [Call(",
                "    if False:\n        found = [Call(",
            ),
            Edit(
                "stepwell/lowering/rules/aggregate.py",
                'AggregateCall("count", len(keys) if keys else None, False',
                'AggregateCall("count", None, False',
            ),
        ),
        (
            f"{KEPT}[a-group-without-a-pair-of-values]",
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers"
            "[count distinct of two columns, of no row of some groups]",
        ),
    ),
    Breakage(
        "a-mistake-hides-a-refusal",
        "What fails because something below it was refused is reported as a bug in Stepwell, in place of the refusal.",
        "no silence",
        (
            Edit(
                "stepwell/lowering/driver.py",
                "                if not context.refusals:\n                    raise",
                "                raise",
            ),
        ),
        (
            "tests/stepwell/lowering/test_refusals.py::test_a_refusal_names_the_construct_the_view_and_its_line"
            "[SELECT max_by(a, to_number(s, '999')) AS x, min_by(a, struct(b, b)) AS y FROM t]",
        ),
    ),
    Breakage(
        "what-sparks-optimiser-throws-is-ours",
        "An exception that Spark throws while it folds a constant is reported as a bug in Stepwell.",
        "no silence",
        (
            Edit(
                "stepwell/planning/spark_errors.py",
                "isinstance(error, PySparkException | Py4JJavaError)",
                "isinstance(error, PySparkException)",
            ),
        ),
        ("tests/stepwell/test_plans.py::test_refused_in_sql",),
    ),
)
