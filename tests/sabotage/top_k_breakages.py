"""Mistakes in top-k: the order, the cursors, what is read and stored, and the rule of LIMIT."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

PREFIXES, TOP_K = "engine/state/prefixes.py", "engine/operators/top_k.py"
SORT_BYTES, ORDER_BYTES = "engine/accumulators/sort_bytes.py", "engine/accumulators/order_bytes.py"
RELATION, ORDER = "stepwell/lowering/relation.py", "stepwell/lowering/rules/order.py"
RULE, WINDOW_ROWS = "stepwell/lowering/rules/window.py", "stepwell/lowering/rules/window_rows.py"
TEST_INHERITED = "tests/stepwell/lowering/test_inherited_order.py"
TEST_TOP_K, TEST_SPARK = "tests/engine/test_top_k.py", "tests/stepwell/lowering/test_top_k.py"
TEST_ORDER, TEST_DESCRIPTORS = "tests/stepwell/lowering/test_order.py", "tests/engine/test_descriptors.py"

TOP_K_BREAKAGES = (
    Breakage(
        "a-row-takes-one-place",
        "A row of weight 3 takes one place among the first rows.",
        "the batch answer",
        (
            Edit(
                PREFIXES,
                "    return np.minimum(np.maximum(room, 0), weights)",
                "    return np.minimum(np.minimum(np.maximum(room, 0), 1), weights)",
            ),
        ),
        (f"{TEST_TOP_K}::test_the_first_rows_of_every_key",),
    ),
    Breakage(
        "no-refill-from-below",
        "A row that leaves the first rows is not replaced by the next one.",
        "the batch answer",
        (Edit(PREFIXES, "near & (self._back | ~is_open)", "near & self._back"),),
        (f"{TEST_TOP_K}::test_the_first_rows_of_every_key",),
    ),
    Breakage(
        "negative-weights-take-places",
        "A row that was retracted before it was inserted takes away the place of another one.",
        "the batch answer",
        (
            Edit(
                PREFIXES,
                "np.maximum(stored + change.weights[asked], 0) - np.maximum(stored, 0)",
                "change.weights[asked] + 0 * stored",
            ),
        ),
        (f"{TEST_TOP_K}::test_a_row_that_is_retracted_before_it_is_inserted_is_not_there",),
    ),
    Breakage(
        "half-a-class-is-read",
        "The class of rows at which a run was cut off counts as complete.",
        "2 determinism",
        (
            Edit(
                PREFIXES, "return outward > frontier[found.key], score", "return outward >= frontier[found.key], score"
            ),
        ),
        (f"{TEST_TOP_K}::test_a_class_of_rows_is_read_as_a_whole_before_its_first_row_is_chosen",),
    ),
    Breakage(
        "ties-by-arrival",
        "Rows that tie are told apart by their place in the change, and not by their hash.",
        "2 determinism",
        (
            Edit(
                TOP_K,
                "sort_bytes(keys, hash_columns(columns, delta.num_rows))",
                "sort_bytes(keys, np.arange(delta.num_rows, dtype=np.uint64))",
            ),
        ),
        (f"{TEST_TOP_K}::test_the_first_rows_of_every_key",),
    ),
    Breakage(
        "all-first-rows-are-read",
        "A step reads all rows before the cursor, and not only those that it passes.",
        "9 bounded",
        (Edit(PREFIXES, "np.maximum(located.low[some], left - width)", "located.low[some]"),),
        (f"{TEST_TOP_K}::test_a_step_reads_what_moves_and_not_what_is_kept",),
    ),
    Breakage(
        "rows-that-cannot-come-back-are-kept",
        "Over an input that only inserts, the rows behind the first ones are stored.",
        "9 bounded",
        (Edit(TOP_K, "if append_only else change)", "if append_only and not node.count else change)"),),
        (f"{TEST_TOP_K}::test_an_append_only_input_leaves_the_first_rows_alone_in_the_state",),
    ),
    Breakage(
        "a-change-in-a-bucket-that-is-not-open",
        "A changed row counts as the next one although rows of a bucket that has not been read may come before it.",
        "the batch answer",
        (Edit(PREFIXES, " & (np.abs(self._steps) <= self._opened)", ""),),
        (f"{TEST_TOP_K}::test_the_first_rows_when_they_are_spread_over_many_buckets",),
    ),
    Breakage(
        "small-integers-are-not-spread",
        "Integers are spread by their first bytes, which are equal for all small ones, so that a bucket cannot be split.",
        "9 bounded",
        (
            Edit(
                SORT_BYTES,
                "    elif order.has_codes(leading) and not pa.types.is_floating(leading):",
                "    elif len(raw) < 0:",
            ),
        ),
        (f"{TEST_TOP_K}::test_no_merge_touches_all_rows_of_a_top_k_without_keys",),
    ),
    Breakage(
        "large-decimals-are-spread-out-of-order",
        "The halves of a large decimal are rounded on their own and added.",
        "the batch answer",
        (
            Edit(
                SORT_BYTES,
                "np.where((high == 0) | (high == -1), small, high.astype(np.float64) * 2.0**64)",
                "np.where(high == 0, small, -high.astype(np.float64) * 2.0**64)",
            ),
        ),
        (f"{TEST_SPARK}::test_the_bytes_of_a_value_of_any_type_are_in_sparks_order",),
    ),
    Breakage(
        "a-limit-is-said-to-grow",
        "A LIMIT over an input that only inserts is said to retract nothing.",
        "the batch answer",
        (Edit(TOP_K, 'return None if node.count is None else "a row', 'return None if node.bounds else "a row'),),
        (f"{TEST_DESCRIPTORS}::test_an_operator_retracts_only_if_its_descriptor_says_so",),
    ),
    Breakage(
        "descending-nulls-turn",
        "The mark of a null is inverted together with the values of a descending key.",
        "the batch answer",
        (
            Edit(
                SORT_BYTES,
                "_NULL_FIRST if nulls_first else _NULL_LAST",
                "_NULL_FIRST if nulls_first == ascending else _NULL_LAST",
            ),
        ),
        (f"{TEST_SPARK}::test_the_bytes_of_a_value_of_any_type_are_in_sparks_order",),
    ),
    Breakage(
        "a-text-ends-without-a-mark",
        "The bytes of a text are those of a longer text's beginning, and what follows them decides.",
        "the batch answer",
        (Edit(ORDER_BYTES, '    return join_parts(escaped, b"\\x00\\x01")\n', "    return escaped\n"),),
        (f"{TEST_SPARK}::test_the_bytes_of_a_value_of_any_type_are_in_sparks_order",),
    ),
    Breakage(
        "a-dropped-key-is-lost",
        "A sort key that a projection above the Sort drops no longer sorts.",
        "the batch answer",
        (
            Edit(
                RELATION,
                "        keys = tuple(replace(key, id=kept.get(key.id, key.id)) for key in self.keys)\n",
                "        keys = tuple(replace(key, id=kept[key.id]) for key in self.keys if key.id in kept)\n",
            ),
        ),
        (f"{TEST_ORDER}::test_a_limit_has_the_order_of_the_sort_below_it",),
    ),
    Breakage(
        "an-order-is-lost-in-silence",
        "An ORDER BY is left out if a node that makes rows stands between it and its LIMIT.",
        "no silence",
        (Edit(ORDER, "_is_lost(node.children[0]):\n            _refuse", "False:\n            _refuse"),),
        (f"{TEST_ORDER}::test_an_order_that_would_have_to_pass_a_node_that_makes_rows_is_refused",),
        tells="leaves out the order",
    ),
    Breakage(
        "an-order-stays-below-a-window",
        "The latest row of a key, by a LIMIT in a subquery that refers to the query around it, is an arbitrary row.",
        "the batch answer",
        (
            Edit(
                WINDOW_ROWS,
                "    rows = context.materialise_in_order(replace(child, order=order)).revealed\n",
                "    order = None\n    rows = context.materialise_in_order(replace(child, order=order)).revealed\n",
            ),
        ),
        (f"{TEST_INHERITED}::test_the_order_of_a_subquery_decides_as_in_spark[the latest row]",),
    ),
    Breakage(
        "ties-decide-ranks",
        "The order below a window decides which rows tie in the window's own order, so that rank() has no ties.",
        "the batch answer",
        (
            Edit(
                RULE,
                "(orders.own, orders.inherited) if orders.given else (orders.inherited, ())",
                "(orders.both, ())",
            ),
        ),
        (f"{TEST_INHERITED}::test_the_order_of_a_subquery_decides_as_in_spark[rows that tie]",),
    ),
    Breakage(
        "an-order-of-other-groups",
        "The order of the rows of a partition is taken for that of all rows.",
        "no silence",
        (Edit(ORDER, "    return order if all(canonical", "    return order if True or all(canonical"),),
        (f"{TEST_INHERITED}::test_an_order_that_cannot_reach_its_reader_is_refused",),
    ),
    Breakage(
        "the-first-duplicate-is-any",
        "dropDuplicates over rows with ORDER BY keeps another row than the first one.",
        "the batch answer",
        (Edit("stepwell/lowering/rules/deduplicate.py", "    if order:\n", "    if order and not keys:\n"),),
        (f"{TEST_INHERITED}::test_the_order_of_a_subquery_decides_as_in_spark[dropDuplicates of the first rows]",),
    ),
)
