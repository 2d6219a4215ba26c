"""Mistakes in Spark's rules for values written as text, and in what an error says of the row."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CORPUS, ZONES = "tests/base/text/test_corpus.py", "tests/base/text/test_zones.py"
TEST_EXPRESSIONS = "tests/engine/test_expressions.py"

TEXT: tuple[Breakage, ...] = (
    Breakage(
        "zones-of-the-machine",
        "The rules of a zone come from the machine's files.",
        "2 determinism",
        (
            Edit(
                "base/text/zones.py",
                "        return ZoneInfo.from_file(file, key=name)\n",
                "        return ZoneInfo(name)\n",
            ),
        ),
        (f"{ZONES}::test_the_machines_zone_files_are_not_read",),
    ),
    Breakage(
        "zones-are-refused",
        "A timestamp with a zone is refused.",
        "Spark's semantics",
        (Edit("base/text/timestamps.py", '    return _read(text, "used")\n', '    return _read(text, "refused")\n'),),
        (f"{ZONES}::test_the_machines_zone_files_are_not_read",),
    ),
    Breakage(
        "json-ignores-zones",
        "The JSON reader takes a TIMESTAMP_NTZ with a zone, as CAST does and from_json does not.",
        "Spark's semantics",
        (
            Edit(
                "io_kafka/formats/javatext.py",
                '    return timestamps.timestamp_ntz_us(text, zone="refused")\n',
                '    return timestamps.timestamp_ntz_us(text, zone="ignored")\n',
            ),
        ),
        (f"{CORPUS}::test_cast_and_json_differ_only_where_the_list_says",),
    ),
    Breakage(
        "exponent-of-any-length",
        "The exponent of a decimal is computed however long it is.",
        "a row of the data stops the step as an error of the data",
        (Edit("base/text/decimals.py", "        if len(digits) > EXPONENT_DIGITS_MAX:\n", "        if False:\n"),),
        (f"{TEST_EXPRESSIONS}::test_values_beyond_a_limit_have_an_error_of_their_own",),
    ),
    Breakage(
        "row-is-our-mistake",
        "What an expression raises over a row ends the pipeline as a bug in Stepwell.",
        "a row of the data stops the step as an error of the data",
        (Edit("engine/expressions/evaluate.py", "    if fault is None:\n", "    if True:\n"),),
        (f"{TEST_EXPRESSIONS}::test_a_row_that_fails_is_an_error_of_the_data_with_expression_and_value",),
    ),
    Breakage(
        "another-row-is-blamed",
        "The error names the last failing row in place of the first.",
        "errors name the place",
        (
            Edit("engine/expressions/failing_row.py", "front = table.slice(0, half)", "front = table.slice(half)"),
            Edit("engine/expressions/failing_row.py", "else table.slice(half)", "else table.slice(0, half)"),
        ),
        (f"{TEST_EXPRESSIONS}::test_a_row_that_fails_is_an_error_of_the_data_with_expression_and_value",),
    ),
    Breakage(
        "statement-of-other-types",
        "A prepared statement is used for columns of other types than those for which it was prepared.",
        "the batch answer",
        (Edit("engine/expressions/evaluate.py", "key = query, table.schema\n", "key = query, pa.schema([])\n"),),
        (f"{TEST_EXPRESSIONS}::test_one_expression_over_columns_of_two_types_is_two_statements",),
    ),
    Breakage(
        "statements-without-end",
        "A connection keeps every statement that it ever prepared.",
        "bounded",
        (
            Edit(
                "engine/expressions/evaluate.py",
                "        if len(self._statements) >= STATEMENTS_MAX:\n",
                "        if False:\n",
            ),
        ),
        (f"{TEST_EXPRESSIONS}::test_only_so_many_statements_are_kept_and_the_oldest_goes",),
    ),
    Breakage(
        "candidates-behind-a-null-value",
        "IN evaluates its candidates for a value that is null, and one of them fails.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/comparison.py",
                "(CASE WHEN {value.sql} IS NOT NULL THEN {result.sql} END)",
                "(CASE WHEN true THEN {result.sql} END)",
            ),
        ),
        ("tests/stepwell/expressions/test_logic.py::test_logic_is_sparks",),
    ),
    Breakage(
        "division-is-said-never-to-raise",
        "A division is not guarded where Spark would not evaluate it.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/arithmetic.py",
                "    return derive(cast(guarded, type_), type_, dividend, divisor, raises=True)\n",
                "    return derive(cast(guarded, type_), type_, dividend, divisor)\n",
            ),
        ),
        ("tests/stepwell/expressions/test_arithmetic.py::test_arithmetic_is_sparks",),
    ),
)
