"""Mistakes in Spark's functions of one row, and in its aggregate functions."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

HASHES = "engine/expressions/functions/hashes.py"
LAMBDAS, TEST_ARRAYS = "stepwell/lowering/expressions/lambdas.py", "tests/stepwell/expressions/test_arrays.py"
AGGREGATES = "stepwell/lowering/rules/aggregate_functions.py"
TEST_AGGREGATES = "tests/stepwell/lowering/test_aggregate_functions.py::test_every_function_is_sparks"
SINES = "engine/expressions/functions/sines.py"
MANY_DOUBLES = "tests/stepwell/expressions/test_mathematics.py::test_functions_of_doubles_are_javas_over_many_values"

FUNCTIONS = (
    Breakage(
        "an-angle-is-reduced-by-two-parts",
        "sin near a multiple of pi has few digits that are right.",
        "the batch answer",
        (Edit(SINES, "    for part in (p2, p3, p4):\n", "    for part in (p2,):\n"),),
        (MANY_DOUBLES,),
    ),
    Breakage(
        "large-angles-are-reduced-as-doubles",
        "sin of a number above a million is computed of what its rounding leaves.",
        "the batch answer",
        (Edit(SINES, "SMALL_END = 2.0**20", "SMALL_END = 2.0**200"),),
        (MANY_DOUBLES,),
    ),
    Breakage(
        "a-month-is-whole-on-its-day",
        "datediff in months counts a month whole on its day, whatever the time of day is.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/functions/times.py",
                "    elif end_day < start_day and end_us > start_us:\n",
                "    elif False:\n",
            ),
        ),
        (
            "tests/stepwell/expressions/test_dates.py::test_time_function_is_sparks["
            "timestampdiff(MONTH, timestamp_seconds(1710504000), timestamp_seconds(1705320000 + k))]",
        ),
    ),
    Breakage(
        "try-sum-is-an-error",
        "A sum that leaves its type puts the view in error, although try_sum gives NULL for it.",
        "the batch answer",
        (
            Edit(
                "engine/operators/aggregate_results.py",
                "np.ones_like(result.fits))\n",
                "result.fits)\n",
            ),
        ),
        (
            "tests/stepwell/lowering/test_aggregate_functions.py::test_every_function_is_sparks[beside-by a key-changelog]",
        ),
        tells="ARITHMETIC_OVERFLOW|overflow|does not fit|exceeds",
    ),
    Breakage(
        "a-null-changes-the-hash",
        "hash counts a null as a zero.",
        "the batch answer",
        (
            Edit(
                HASHES,
                "            rows, values = rows[present], values.filter(pa.array(present))\n",
                "            values = fill(values, 0) if pa.types.is_integer(values.type) else values\n",
            ),
        ),
        ("tests/stepwell/expressions/test_encodings.py::test_function_is_sparks[hash(i, s, d)]",),
    ),
    Breakage(
        "the-last-bytes-are-not-numbers",
        "hash of a text takes its last bytes without their sign.",
        "the batch answer",
        (Edit(HASHES, ".view(np.int8)\n", ".view(np.uint8)\n"),),
        ("tests/stepwell/expressions/test_encodings.py::test_function_is_sparks[hash(s)]",),
    ),
    Breakage(
        "clocks-of-zones-have-one-offset",
        "from_utc_timestamp takes the offset of the local time that the moment would be.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/functions/time_zones.py",
                "offset_at_s(zone, us // SECOND_US)",
                "offset_s(zone, us // SECOND_US)",
            ),
        ),
        (
            "tests/stepwell/expressions/test_dates.py::test_time_function_is_sparks[from_utc_timestamp(ts, 'Europe/Paris')]",
        ),
    ),
    Breakage(
        "months-count-from-the-month-before",
        "A sequence by months that begins on the 31st goes on from the last day of a shorter month.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/functions/sequences.py",
                "        time_us = at(len(found))\n",
                "        time_us = _months_later(time_us, step) if monthly else at(len(found))\n",
            ),
        ),
        (
            "tests/stepwell/expressions/test_arrays.py::test_array_function_is_sparks[sequence(add_months(dt, -8), dt, interval 1 month)]",
        ),
    ),
    Breakage(
        "half-of-a-character-is-whole",
        "format_string counts code points where Java counts characters of 16 bits.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/functions/printf.py",
                'return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2',
                "return len(text)",
            ),
        ),
        (
            "tests/stepwell/expressions/test_text_measures.py::test_function_is_sparks[format_string('%10s|%-10s|%.2s', s, s, s)]",
        ),
    ),
    Breakage(
        "comparators-are-told-by-names",
        "A user's comparator is taken for Spark's own if its variables have the names of that one's.",
        "the batch answer",
        (
            Edit(
                LAMBDAS,
                'written == _ASCENDING or (written == _VALUES_ASCEND and not left["nullable"] and not right["nullable"])',
                'body.kind == "If" and (left["name"], right["name"]) == ("left", "right")',
            ),
        ),
        (f"{TEST_ARRAYS}::test_what_is_not_supported_is_refused_by_name",),
    ),
    Breakage(
        "what-is-gathered-is-any-variable",
        "An aggregate whose finish function returns a variable of a lambda around it returns what it gathered.",
        "the batch answer",
        (Edit(LAMBDAS, ' and result["exprId"] == state["exprId"]:', ":"),),
        (
            f"{TEST_ARRAYS}::test_array_function_is_sparks[transform(arr, x -> aggregate(arr, 0L, (a, y) -> coalesce(y, a), a -> x))]",
        ),
    ),
    Breakage(
        "the-first-values-are-there-twice",
        "min_by(DISTINCT x, y, k) takes a value as often as it is there.",
        "the batch answer",
        (Edit(AGGREGATES, 'Call("first_k", rows, written.distinct,', 'Call("first_k", rows, False,'),),
        (f"{TEST_AGGREGATES}[sorted-by a key-changelog]",),
    ),
    Breakage(
        "a-constant-is-no-value",
        "count(DISTINCT 1) counts rows once each, which no node can.",
        "the batch answer",
        (Edit(AGGREGATES, 'one = literal("true", "boolean") if written.distinct else None', "one = None"),),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[count distinct of a constant]",
        ),
    ),
    Breakage(
        "columns-have-no-type",
        "A NULL without a type becomes a column for a plan node.",
        "the batch answer",
        (Edit("stepwell/lowering/context.py", "take_out(with_typed_columns(plan))", "take_out(plan)"),),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[columns without a type: distinct]",
        ),
        tells="Unsupported cast",
    ),
    Breakage(
        "a-column-of-nulls-is-no-column",
        "VALUES with a column without a type are refused.",
        "the batch answer",
        (
            Edit("stepwell/planning/leaves.py", "types = [column_type(", "types = [arrow_type("),
            Edit("stepwell/planning/leaves.py", "UnsupportedType, column_type", "UnsupportedType, arrow_type"),
        ),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[columns without a type: joined]",
        ),
        tells="a column of the type void, which is not supported",
    ),
    Breakage(
        "a-cast-between-intervals-keeps-all",
        "An interval of days has hours.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/casts.py",
                "        return truncate(made, unit)\n",
                "        return made\n",
            ),
        ),
        ("tests/stepwell/expressions/test_dates.py::test_time_function_is_sparks",),
    ),
    Breakage(
        "a-div-of-decimals-keeps-no-sign",
        "The whole part of a quotient of decimals is rounded down, and not toward zero.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/functions/decimals.py",
                "_EXACT.divide_int(Decimal(a), Decimal(b))",
                "Decimal(a) // Decimal(b) - (Decimal(a) < 0)",
            ),
        ),
        ("tests/stepwell/expressions/test_arithmetic.py::test_arithmetic_is_sparks[h div q]",),
    ),
    Breakage(
        "an-interval-of-days-is-written-as-one-of-seconds",
        "The text of an INTERVAL DAY is that of an INTERVAL DAY TO SECOND.",
        "no silence",
        (
            Edit(
                "stepwell/lowering/expressions/casts.py",
                "narrow_interval_within(node.children[0]) if operand.type == DURATION else None",
                "None",
            ),
        ),
        (
            "tests/stepwell/expressions/test_refused_types.py::test_a_refusal_names_types_as_spark_does[concat(dt - dt2, 'x')]",
        ),
    ),
    Breakage(
        "a-half-of-an-interval-is-rounded-to-even",
        "A product of an interval and a number is rounded to the even microsecond where two are as near.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/functions/day_times.py",
                "to_integral_value(decimal.ROUND_HALF_UP)",
                "to_integral_value(decimal.ROUND_HALF_EVEN)",
            ),
        ),
        ("tests/stepwell/expressions/test_dates.py::test_time_function_is_sparks[iv * 0.5D]",),
    ),
    Breakage(
        "nulls-have-no-type",
        "A NULL without a type becomes a column for an aggregate function.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/trees.py",
                'return literal(None, "boolean") if node.kind == "Literal" and node["dataType"] == "void" else None',
                "return None",
            ),
        ),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[aggregates of NULL]",
        ),
        tells="expression Literal is not supported: void",
    ),
    Breakage(
        "signs-of-zeros-within-structs-decide",
        "max and min of structs take -0.0 for less than 0.0, and not what follows it in the struct.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/rules/aggregate_functions.py",
                'rows = struct(("key", normal_key(value, type_)), ("value", value))',
                'rows = struct(("key", value), ("value", value))',
            ),
        ),
        (
            "tests/stepwell/lowering/test_aggregate_functions.py::test_every_function_is_sparks[rows-by a key-changelog]",
        ),
    ),
)
