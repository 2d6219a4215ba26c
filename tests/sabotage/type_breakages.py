"""Mistakes in types of columns: texts of declared lengths, intervals of months."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

TEST_LIMITS = "tests/io_kafka/formats/test_text_limits.py"
TEST_NULLS = "tests/end_to_end/test_inner_nulls.py"
TEST_TEXTS = "tests/stepwell/test_text_types.py"

TYPES = (
    Breakage(
        "keys-are-not-padded",
        "A CHAR key of a message is compared as it is spelt, so that one row has two keys.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/decode.py",
                "        keys = keys._replace(columns=fit_columns(keys.columns, source.key, source.limits, everywhere, faults))\n",
                "",
            ),
        ),
        (f"{TEST_LIMITS}::test_a_key_is_padded_as_the_column_is",),
    ),
    Breakage(
        "any-blank-is-too-many",
        "A text that is too long loses whatever stands at its end, not only blanks.",
        "the batch answer",
        (Edit("io_kafka/formats/text_limits.py", "bad = (lengths > size) & ~only_blanks", "bad = bad & ~only_blanks"),),
        (f"{TEST_LIMITS}::test_each_text_is_what_spark_writes",),
    ),
    Breakage(
        "declared-texts-are-not-fitted",
        "A view with a CHAR column stores what its query gives, so that comparisons with padded texts fail.",
        "the batch answer",
        (
            Edit(
                "stepwell/planning/resolver.py",
                "query = query.reorder(schema, flow).fit_texts(declared, flow)",
                "query = query.reorder(schema, flow).fit_texts({}, flow)",
            ),
        ),
        (f"{TEST_TEXTS}::test_a_declared_column_is_checked_and_padded",),
    ),
    Breakage(
        "months-have-64-bits",
        "A sum of year-month intervals goes on beyond 32 bits, where Spark fails.",
        "the batch answer",
        (
            Edit(
                "engine/operators/aggregate_results.py",
                "    return fits & (total >= MONTHS_MIN) & (total <= MONTHS_MAX)\n",
                "    return fits & (total >= MONTHS_MIN)\n",
            ),
        ),
        ("tests/engine/test_aggregate.py::test_a_sum_of_months_has_32_bits",),
    ),
    Breakage(
        "a-number-is-a-number-of-months",
        "A number that is cast to INTERVAL YEAR counts months.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/intervals.py",
                "MONTHS_OF_A_YEAR if target == YEAR else 1",
                "1 if target == YEAR else 1",
            ),
        ),
        ("tests/stepwell/expressions/test_intervals.py::test_interval_of_months_is_sparks",),
    ),
    Breakage(
        "char-is-not-in-the-circuit",
        "A CHAR(3) becomes a CHAR(4) over the state of the former, whose rows have other texts.",
        "no silence",
        (
            Edit(
                "stepwell/lowering/driver.py",
                "for limit in spec.limits if limit.padded)",
                "for limit in spec.limits[:0])",
            ),
        ),
        (f"{TEST_TEXTS}::test_the_state_belongs_to_the_lengths_of_char_and_not_of_varchar",),
    ),
    Breakage(
        "not-null-within-a-source-is-believed",
        "Spark plans as if no field, element or value were null that is declared NOT NULL, and no message is checked for that.",
        "the batch answer",
        (
            Edit(
                "stepwell/project/tables.py",
                "    schema = nullable_within(as_strings(output.schema))\n",
                "    schema = as_strings(output.schema)\n",
            ),
        ),
        (f"{TEST_NULLS}::test_a_null_below_a_column_that_says_not_null_is_seen",),
    ),
    Breakage(
        "not-null-within-a-view-is-that-of-its-first-query",
        "What is below a view's column is NOT NULL if the declaration or the first query says so, whatever the other queries give.",
        "the batch answer",
        (
            Edit(
                "stepwell/planning/query.py",
                "merged.add(column.name, whole.dataType,",
                "merged.add(column.name, column.dataType,",
            ),
        ),
        (f"{TEST_NULLS}::test_a_null_below_a_column_that_says_not_null_is_seen",),
    ),
    Breakage(
        "columns-have-fields-of-one-name",
        "A column is declared that has a struct with two fields which case alone tells apart.",
        "no silence",
        (
            Edit(
                "stepwell/project/tables.py",
                "if twins := _fields_of_one_name(column.dataType):",
                "if (twins := ('', '')) is None:",
            ),
        ),
        ("tests/stepwell/test_tables.py::test_wrong_columns",),
    ),
    Breakage(
        "queries-make-fields-of-one-name",
        "A query makes a struct with two fields which case alone tells apart, and DuckDB gives the first one for both.",
        "the batch answer",
        (
            Edit(
                "stepwell/catalyst/types.py",
                'if found := names_of_one([field["name"] for field in spark["fields"]]):',
                "if (found := ('', '')) is None:",
            ),
        ),
        (
            "tests/stepwell/expressions/test_types.py::test_a_struct_in_which_case_alone_tells_fields_apart_is_refused",
            "tests/stepwell/expressions/test_json.py::test_what_is_not_supported_is_refused_by_name",
        ),
    ),
)
