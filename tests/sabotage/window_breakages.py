"""Mistakes in windows: the operator, its order and frames, and what they are lowered to."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

WINDOW, WINDOW_ORDER, WINDOW_AGGREGATES = (
    f"engine/operators/window{name}.py" for name in ("", "_order", "_aggregates")
)
TEST_WINDOW, TEST_WINDOWS = "tests/engine/test_window.py", "tests/stepwell/lowering/test_windows.py"
TEST_AGAINST_SPARK = "tests/stepwell/lowering/test_against_spark.py"
RULE, LIMIT_RULE = "stepwell/lowering/rules/window.py", "stepwell/lowering/rules/window_limit.py"
SORT_KEYS = "stepwell/lowering/rules/sort_keys.py"
TEST_FRAMES = "tests/stepwell/lowering/test_window_aggregates.py::test_every_function_of_frames_is_sparks"
TEST_RUNNING = (f"{TEST_FRAMES}[running]",)

WINDOWS = (
    Breakage(
        "values-of-other-rows-stay",
        "A window gives out the rows that came or went, and not those whose values they changed.",
        "the batch answer",
        (
            Edit(
                WINDOW,
                "    gone[old[same]] = False\n    come[new[same]] = False\n",
                "    gone[old] = False\n    come[new] = False\n",
            ),
        ),
        (f"{TEST_WINDOW}::test_ranks_and_values_of_other_rows",),
    ),
    Breakage(
        "ties-in-the-order-of-arrival",
        "Rows that tie in the order of a window are ordered otherwise than by the whole row.",
        "2 determinism",
        (
            Edit(
                WINDOW_ORDER,
                "    places = np.lexsort((*reversed([*keys, *more]), partition)).astype(np.int64, copy=False)\n",
                "    places = np.lexsort((-np.arange(len(partition)), *reversed([*keys, *more]), partition))\n",
            ),
        ),
        (f"{TEST_WINDOW}::test_ranks_and_values_of_other_rows",),
    ),
    Breakage(
        "frames-reach-into-the-next-partition",
        "A frame that ends some rows behind the row does not end with its partition.",
        "the batch answer",
        (
            Edit(
                WINDOW_ORDER,
                "np.minimum(self.here + int(frame.high) + 1, self.end)",
                "np.minimum(self.here + int(frame.high) + 1, self.count)",
            ),
        ),
        (f"{TEST_WINDOW}::test_values_and_totals_of_frames",),
    ),
    Breakage(
        "a-distance-from-null",
        "In a window the frame of a row whose ORDER BY is null begins at the first row of the partition.",
        "the batch answer",
        (Edit(WINDOW_ORDER, "        result = peers.copy()\n", "        result = self.start.copy()\n"),),
        (f"{TEST_WINDOW}::test_the_frame_of_a_null_at_a_distance_is_the_nulls",),
    ),
    Breakage(
        "sliding-sums-in-doubles",
        "The sum of a frame is the difference of two rounded sums.",
        "the batch answer",
        (
            Edit(
                WINDOW_AGGREGATES,
                "        exploded = doubles.explode(numbers, ones, each * plan.digit_sums + shared.digits)\n"
                "        to.digits = doubles.merge(to.digits, _sums_of_frames(argument, exploded, plan.digit_sums))\n",
                "        rounded = np.concatenate([[0.0], np.cumsum(numbers)])\n"
                "        numbers = rounded[argument.high] - rounded[argument.low]\n"
                "        numbered = np.arange(len(numbers)) * plan.digit_sums + shared.digits\n"
                "        exploded = doubles.explode(numbers, np.ones(len(numbers), np.int64), numbered)\n"
                "        to.digits = doubles.merge(to.digits, exploded)\n",
            ),
        ),
        (f"{TEST_WINDOW}::test_sums_of_sliding_frames_are_exact_and_forget_what_has_left_the_frame",),
    ),
    Breakage(
        "no-partition-of-nulls",
        "Rows whose PARTITION BY is null have no aggregate of their partition.",
        "the batch answer",
        (
            Edit(
                RULE,
                'attribute(key.id, "", None), True)',
                'attribute(key.id, "", None), False)',
            ),
        ),
        (f"{TEST_AGAINST_SPARK}::test_a_lowered_query_holds_what_spark_answers[whole partitions]",),
    ),
    Breakage(
        "bounds-in-months-go-back",
        "The bound of a frame at a distance of months goes back where a later row's month is shorter.",
        "the batch answer",
        (
            Edit(
                WINDOW_ORDER,
                "np.maximum.accumulate(bounds) if isinstance(distance, Months) else bounds",
                "bounds",
            ),
        ),
        (f"{TEST_AGAINST_SPARK}::test_a_lowered_query_holds_what_spark_answers[totals at a distance of months]",),
    ),
    Breakage(
        "ranks-cut-ties",
        "WHERE rank() <= k keeps k rows, although more rows tie for the last place.",
        "the batch answer",
        (Edit(LIMIT_RULE, 'if function == "RowNumber":', 'if function != "DenseRank":'),),
        (
            f"{TEST_AGAINST_SPARK}::test_a_lowered_query_holds_what_spark_answers[rows of the first ranks, by doubles and without partitions]",
        ),
    ),
    Breakage(
        "limits-of-partitions-left-out",
        "A Window reads whole partitions although only the first rows of each can pass the filter above it.",
        "9 bounded",
        (
            Edit(
                LIMIT_RULE,
                '    if function == "RowNumber":\n',
                '    if function:\n        return rows\n    if function == "RowNumber":\n',
            ),
        ),
        (f"{TEST_WINDOWS}::test_a_step_costs_the_first_rows_of_a_partition_and_not_the_partition[rank]",),
    ),
    Breakage(
        "months-without-a-json-form",
        "A circuit with a frame at a distance of months has no JSON form, so the first start of its project ends with an error.",
        "no silence",
        (Edit("engine/model/circuit.py", "        | Months\n", ""),),
        ("tests/engine/test_circuit.py::test_bounds_at_a_distance_of_months_are_in_the_json_form",),
    ),
    Breakage(
        "ties-unsaid",
        "dry-run does not say that a window orders rows that tie otherwise than Spark.",
        "no silence",
        (Edit(SORT_KEYS, "    for name in dict.fromkeys(readers):\n", "    for name in ():\n"),),
        (f"{TEST_WINDOWS}::test_dry_run_says_what_sparks_order_of_ties_decides_and_what_meets_on_one_worker",),
    ),
    Breakage(
        "repeated-values-of-frames-are-counted",
        "approx_count_distinct over a frame counts a value as often as it is there.",
        "the batch answer",
        (
            Edit(
                WINDOW_AGGREGATES,
                "    return call.distinct or isinstance(",
                "    return isinstance(",
            ),
        ),
        TEST_RUNNING,
    ),
    Breakage(
        "filters-of-first-values-left-out",
        "first(x) FILTER (WHERE ...) over a frame is the first value of all its rows.",
        "the batch answer",
        (
            Edit(
                RULE,
                "filters = function.tree.children[1:] if function.tree is not inner else ()",
                "filters: tuple[TreeNode, ...] = ()",
            ),
        ),
        TEST_RUNNING,
    ),
    Breakage(
        "lists-of-frames-in-the-order-of-values",
        "collect_list over a frame has its values in their own order, and not in that of the rows.",
        "the batch answer",
        (
            Edit(
                WINDOW_AGGREGATES,
                "    if isinstance(function, ValuesFunction) and function.follows_rows:\n",
                "    if False:\n",
            ),
        ),
        TEST_RUNNING,
    ),
    Breakage(
        "portions-of-frames-overlap",
        "Where the frames of a step are read in portions, the last one of a portion is read again in the next.",
        "the batch answer",
        (
            Edit(
                WINDOW_AGGREGATES,
                "        begin = end\n",
                "        begin = max(end - 1, begin + 1) if end < len(low) else end\n",
            ),
        ),
        TEST_RUNNING,
    ),
    Breakage(
        "squares-of-frames-kept",
        "The squares of which the variance of a frame is made are those of all rows up to its end.",
        "the batch answer",
        (
            Edit(
                WINDOW_AGGREGATES,
                "        totals = argument.sums(column)\n",
                "        totals = argument.sums(column) if number[0] == 0 else np.cumsum(np.append(column, 0))[argument.high - 1]\n",
            ),
        ),
        (f"{TEST_FRAMES}[the last rows]",),
    ),
    Breakage(
        "distinct-values-of-partitions-counted-beside-others",
        "approx_count_distinct over a whole partition counts all values if another function reads the partition.",
        "the batch answer",
        (
            Edit(
                RULE,
                "call.function in _TOTALS and call.part is None and not call.distinct",
                "call.function in _TOTALS and call.part is None",
            ),
            Edit(RULE, "        distinct=of is not None and of.distinct,\n", ""),
        ),
        TEST_RUNNING,
    ),
    Breakage(
        "a-constant-gives-its-place-away",
        "A window that a constant orders has the order of the rows below, so that rows which tie have different ranks.",
        "the batch answer",
        (
            Edit(
                RULE,
                "(orders.own, orders.inherited) if orders.given else",
                "(orders.own, orders.inherited) if orders.own else",
            ),
        ),
        (
            f"{TEST_AGAINST_SPARK}::test_a_lowered_query_holds_what_spark_answers[windows that a constant orders, over sorted rows]",
        ),
    ),
)
