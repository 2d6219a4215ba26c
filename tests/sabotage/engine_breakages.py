"""Mistakes in the engine: hashing and placement, tasks, operators, workers."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

TASKS, CREW = "engine/run/tasks.py", "engine/resident/crew/steps.py"
ROSTER = "engine/resident/roster.py"
REGISTRATION = "engine/resident/registration.py"
LIVENESS, TEST_LIVENESS = "engine/resident/liveness.py", "tests/engine/resident/test_liveness.py"
MOVES, TEST_MOVES = "engine/state/moves.py", "tests/engine/test_moves.py"
TEST_CREW = "tests/engine/resident/test_crew.py"
TEST_ROSTER = "tests/engine/resident/test_roster.py"
MESH, WORKER = "engine/resident/mesh.py", "engine/resident/worker"
HASHING, REGION, AGGREGATE = "engine/rows/hashing.py", "engine/run/stage.py", "engine/operators/aggregate.py"
TEST_REGION, TEST_STAGES, TEST_AGGREGATE = (f"tests/engine/test_{name}.py" for name in ("stage", "stages", "aggregate"))
TEST_PARTIALS, TEST_DESCRIPTORS = "tests/engine/test_partials.py", "tests/engine/test_descriptors.py"
OUTER_JOIN, TEST_OUTER_JOIN = "engine/operators/outer_join.py", "tests/engine/test_outer_join.py"
TEST_AGAINST_SPARK = "tests/stepwell/lowering/test_against_spark.py"
TEST_OPERATORS, END_TO_END = "tests/engine/test_operators.py", "tests/end_to_end"
SCALAR, TEST_SCALAR = "engine/operators/scalar.py", "tests/engine/test_scalar.py"

ENGINE = (
    Breakage(
        "rows-of-some-peers",
        "A stage runs although the rows of one peer have not come.",
        "4 a task may run twice",
        (
            Edit(
                MESH,
                "        self._wait(lambda: len(inbox) == len(self._peers) + 1, None,",
                "        self._wait(lambda: len(inbox) >= max(1, len(self._peers)), None,",
            ),
        ),
        ("tests/engine/resident/test_mesh.py::test_a_stage_takes_one_message_from_each",),
    ),
    Breakage(
        "rows-for-a-stage-that-is-over",
        "A peer's second message of a stage that is over goes unnoticed.",
        "4 a task may run twice",
        (Edit(MESH, "        if is_over or peer in inbox", "        if peer in inbox"),),
        ("tests/engine/resident/test_mesh.py::test_a_second_message_of_a_stage_is_refused",),
    ),
    Breakage(
        "no-memory-is-a-mistake",
        "A worker whose memory does not suffice ends the run, as a bug in Stepwell would.",
        "goes on",
        (Edit(f"{WORKER}/coordinator_link.py", "faults.lost_without_memory(error, self._worker) or error", "error"),),
        (f"{END_TO_END}/test_fences.py::test_a_worker_without_memory_is_replaced",),
        tells="WorkerMistake",
    ),
    Breakage(
        "a-step-beyond-arrow-is-a-mistake",
        "A worker whose step has more than an array can hold ends the run with a stack trace.",
        "a clear error",
        (Edit("engine/resident/faults.py", "    if _is_beyond_arrow(error):\n        return True\n", ""),),
        ("tests/engine/resident/test_faults.py::test_arrow_says_so_in_the_words_that_are_looked_for",),
    ),
    Breakage(
        "the-hash-of-the-key-alone",
        "State is filed by the hash of its key, although the rows lie on their worker by some columns of it.",
        "7 one owner",
        (
            Edit(
                HASHING,
                "    return with_slots_of(_combine([hashed[i] for i in colocation], length, 0), _combine(hashed, length, 0))",
                "    return _combine(hashed, length, 0)",
            ),
        ),
        (
            f"{TEST_MOVES}::test_all_state_of_a_worker_lies_in_its_slots[2]",
            f"{TEST_AGGREGATE}::test_all_state_of_a_group_is_in_its_slot",
        ),
    ),
    Breakage(
        "pieces-are-filed-without-a-cut",
        "Rows that arrive from another worker are filed in a bucket that ends before them, or the bucket below reaches into them.",
        "7 one owner",
        (
            Edit(
                MOVES,
                "    below = max((first for first in runs.numbers if first <= edge), default=edge)",
                "    below = edge",
            ),
        ),
        (f"{TEST_MOVES}::test_rows_are_found_where_their_slots_lie[1000]",),
    ),
    Breakage(
        "moved-rows-stay-behind",
        "The source of a move keeps the rows that it gave away.",
        "7 one owner",
        (
            Edit(
                MOVES,
                "                runs.delete(first, number)\n\n\ndef _cut_around",
                "                continue\n\n\ndef _cut_around",
            ),
        ),
        (f"{TEST_MOVES}::test_rows_are_found_where_their_slots_lie[1000]",),
    ),
    Breakage(
        "slots-are-not-compared",
        "A worker runs a step whose rows belong to slots that its database does not have.",
        "7 one owner",
        (
            Edit(
                TASKS,
                "if (owned := transaction.get_owned()) != placed:",
                "if not (owned := transaction.get_owned()).ranges:",
            ),
        ),
        (f"{TEST_CREW}::test_a_worker_whose_database_has_other_slots_runs_no_step",),
    ),
    Breakage(
        "answers-of-some-workers",
        "A step is written although one worker has not answered yet.",
        "2 determinism",
        (
            Edit(
                ROSTER,
                "        while unanswered:\n",
                "        while len(unanswered) > (len(asked) > 1):\n",
            ),
        ),
        (f"{TEST_ROSTER}::test_a_step_is_over_when_its_last_worker_has_answered",),
    ),
    Breakage(
        "an-answer-is-no-progress",
        "A worker is given up as soon as the one for which it has waited for long has answered.",
        "9 bounded",
        (Edit(ROSTER, "            if len(left) < len(unanswered):\n", "            if not asked:\n"),),
        (f"{TEST_ROSTER}::test_a_worker_that_has_waited_for_a_slow_one_is_not_given_up_when_that_has_answered[20-]",),
    ),
    Breakage(
        "hash-of-python",
        "Strings are hashed by Python's `hash`, which differs from process to process.",
        "2 determinism",
        (
            Edit(
                HASHING,
                "    table = np.fromiter(map(xxhash.xxh3_64_intdigest, distinct), dtype=np.uint64, count=len(distinct))\n",
                "    table = np.fromiter((hash(d) % (1 << 64) for d in distinct), dtype=np.uint64, count=len(distinct))\n",
            ),
        ),
        ("tests/engine/test_zset.py::test_hashes_never_change",),
    ),
    Breakage(
        "minus-zero-is-another-key",
        "-0.0 and 0.0 are two keys.",
        "2 determinism",
        (Edit(HASHING, "values + np.array(0.0, dtype=values.dtype))", "values)"),),
        (
            "tests/engine/test_zset.py::test_hashes_never_change",
            "tests/engine/test_accumulators.py::test_canonical_reaches_into_structs_and_lists",
        ),
    ),
    Breakage(
        "every-nan-its-own-key",
        "NaNs of different bits are different keys.",
        "2 determinism",
        (
            Edit(
                HASHING,
                "    plain = np.where(np.isnan(values), np.array(np.nan, dtype=values.dtype), values +",
                "    plain = np.where(np.isnan(values), values, values +",
            ),
        ),
        ("tests/engine/test_accumulators.py::test_canonical_reaches_into_structs_and_lists",),
    ),
    Breakage(
        "doubles-rounded-each-step",
        "Sums of doubles are rounded at every step, not once.",
        "2 determinism",
        (
            Edit(
                "engine/accumulators/doubles.py",
                "    return normalise(merge(*parts))\n",
                "    sums = normalise(merge(*parts))\n"
                "    count = int(groups.max(initial=-1)) + 1\n"
                "    if not finite.all() or not np.isfinite(rounded := round_sums(sums, count)).all():\n"
                "        return sums\n"
                "    return normalise(_explode_finite(rounded, np.ones(count, np.int64), np.arange(count)))\n",
            ),
        ),
        ("tests/engine/test_accumulators.py::test_sums_of_doubles_are_exact_whatever_the_order_and_the_batches",),
    ),
    Breakage(
        "blobs-in-order-of-arrival",
        "A task reads its exchange messages in the order in which they arrived.",
        "2 determinism",
        (
            Edit(
                "engine/run/exchange.py",
                "    return sorted(messages, key=lambda message: message.source)\n",
                "    return list(messages)\n",
            ),
        ),
        (f"{TEST_REGION}::test_rows_that_a_stage_passes_on_are_the_same_bytes_in_any_order_of_arrival",),
    ),
    Breakage(
        "task-of-any-step",
        "A task runs whatever step the state is at.",
        "4 a task may run twice",
        (
            Edit(
                TASKS,
                "            if not self._follows(at := transaction.get_step()):\n",
                "            if (at := transaction.get_step()) < 0:\n",
            ),
        ),
        (f"{END_TO_END}/test_fences.py::test_a_step_that_a_worker_has_run_is_not_run_again",),
    ),
    Breakage(
        "error-elsewhere-ignored",
        "A task goes on and changes its state although another task of the step has failed.",
        "4 a task may run twice",
        (
            Edit(
                MESH,
                "        if any(message.broken for message in inbox.values()):\n",
                "        if all(message.broken for message in inbox.values()):\n",
            ),
        ),
        (f"{TEST_CREW}::test_bad_data_on_one_worker_stops_the_step_on_all_and_changes_no_state",),
        tells="WorkerMistake",
    ),
    Breakage(
        "facts-by-their-position",
        "What an operator may know is told apart by its place in a long call.",
        "few hands",
        (
            Edit(
                REGION,
                "StepContext(task.run, task.step, store=store, node=index, found=found, errors=counted)",
                "StepContext(task.run, task.step, store, index, found, counted)",
            ),
        ),
        ("tests/test_positional_arguments.py::test_an_object_is_made_of_five_positional_values_at_most",),
    ),
    Breakage(
        "every-worker-owns-the-empty-key",
        "Every worker takes rows without a key for its own.",
        "7 one owner",
        (
            Edit(
                REGION,
                "        owns_keyless = placement.keyless_worker == worker\n",
                "        owns_keyless = True\n",
            ),
        ),
        (f"{TEST_STAGES}::test_any_number_of_workers_gives_the_same_messages",),
    ),
    Breakage(
        "constants-on-every-worker",
        "Every worker puts out the rows of a constant table.",
        "3 placement independence",
        (
            Edit(
                "engine/operators/linear.py",
                "    if not context.is_first or not context.step.owns_keyless:\n",
                "    if not context.is_first:\n",
            ),
        ),
        (f"{TEST_STAGES}::test_constants_are_output_once_with_any_number_of_workers",),
    ),
    Breakage(
        "retractions-not-said",
        "The descriptor of a semi-join does not say that an anti-join takes rows back.",
        "no silence",
        (
            Edit(
                "engine/operators/semi_join.py",
                "    if not node.anti:\n        return None\n",
                "    if node.inputs:\n        return None\n",
            ),
        ),
        (f"{TEST_DESCRIPTORS}::test_an_operator_retracts_only_if_its_descriptor_says_so",),
    ),
    Breakage(
        "exchange-not-asked-for",
        "The descriptor of Distinct leaves its input where it is.",
        "3 placement independence",
        (
            Edit(
                "engine/operators/distinct.py",
                "    arrange=lambda node, inputs: by_key(tuple(range(len(node.types))), inputs[0]),\n",
                "    arrange=lambda node, inputs: by_key((), ()),\n",
            ),
        ),
        (f"{TEST_DESCRIPTORS}::test_every_operator_gets_the_rows_it_needs_on_any_number_of_workers",),
    ),
    Breakage(
        "place-by-half-of-a-key",
        "A distinct says that its rows lie by its last column alone.",
        "3 placement independence",
        (
            Edit(
                "engine/operators/distinct.py",
                "    arrange=lambda node, inputs: by_key(tuple(range(len(node.types))), inputs[0]),\n",
                "    arrange=lambda node, inputs: replace(by_key(tuple(range(len(node.types))), None), colocation=(len(node.types) - 1,)),\n",
            ),
            Edit(
                "engine/operators/distinct.py",
                "from engine.operators.arrangement import by_key\n",
                "from dataclasses import replace\n\nfrom engine.operators.arrangement import by_key\n",
            ),
        ),
        (f"{TEST_DESCRIPTORS}::test_the_rows_of_an_operator_lie_where_its_descriptor_says",),
    ),
    Breakage(
        "unique-key-made-up",
        "The descriptor of a union says that its rows are as unique as those of its first input.",
        "no silence",
        (
            Edit(
                "engine/operators/linear.py",
                "    arrange=_arrange_union,\n    output=PLAIN_OUTPUT,\n",
                "    arrange=_arrange_union,\n    output=OutputFacts(\n        unique_key=lambda node, inputs: (0,),\n"
                "        comes_without_input=lambda node: False,\n        counts_errors=lambda node: False,\n    ),\n",
            ),
        ),
        (f"{TEST_DESCRIPTORS}::test_no_two_rows_have_the_unique_key_of_a_descriptor",),
    ),
    Breakage(
        "order-lost-below-a-limit",
        "A Sort is left out although a LIMIT above it takes the first rows of its order.",
        "no silence",
        (Edit("stepwell/lowering/rules/order.py", "    context.unread_orders[id(sort)] = reader.kind\n", ""),),
        ("tests/stepwell/lowering/test_order.py::test_a_rule_of_a_limit_that_lowers_the_sort_is_an_error",),
    ),
    Breakage(
        "place-read-from-the-text",
        "Whether an error names its view and step already is read from its text, which may quote any value.",
        "no silence",
        (
            Edit(
                REGION,
                "                error.locate(owner=name_of(task.plan.circuit, index), step=task.step.division.number, node=index)\n",
                "                if 'step' not in error.message:\n"
                "                    error.locate(owner=name_of(task.plan.circuit, index), step=task.step.division.number, node=index)\n",
            ),
        ),
        (f"{TEST_REGION}::test_a_value_that_contains_view_or_step_does_not_hide_the_place",),
    ),
    Breakage(
        "routed-by-the-whole-row",
        "An exchange routes rows by all their columns, so one key lives on several workers.",
        "7 one owner",
        (Edit(REGION, "hash_keys(table, channel.key))", "hash_keys(table, range(table.num_columns - 1)))"),),
        (f"{TEST_STAGES}::test_any_number_of_workers_gives_the_same_messages",),
    ),
    Breakage(
        "exchange-left-out",
        "The left side of a join stays where it is, whatever places the right side.",
        "3 placement independence",
        (
            Edit(
                "engine/operators/arrangement.py",
                "Arrangement((None if inputs[0] == left else left, ",
                "Arrangement((None, ",
            ),
        ),
        (f"{TEST_STAGES}::test_any_number_of_workers_gives_the_same_messages",),
    ),
    Breakage(
        "one-retraction-lost",
        "An aggregate forgets to take back the old row of one group in a step.",
        "the batch answer",
        (
            Edit(
                AGGREGATE,
                "    gone = np.flatnonzero(existed & ~(exists & same))\n",
                "    gone = np.flatnonzero(existed & ~(exists & same))[1:]\n",
            ),
        ),
        (f"{TEST_AGGREGATE}::test_aggregate_equals_the_simple_evaluation_after_every_step",),
    ),
    Breakage(
        "extreme-gone-at-first-retraction",
        "A maximum that came twice is gone when one of the two is taken back.",
        "the batch answer",
        (
            Edit(
                "engine/state/extremes.py",
                "            there = total > 0\n",
                "            there = np.minimum.reduceat(weights[order], starts) > 0 if len(starts) else total > 0\n",
            ),
        ),
        ("tests/engine/test_extremes.py::test_the_extreme_of_every_key_before_and_after",),
    ),
    Breakage(
        "segments-of-other-keys",
        "The rows of a key that has the hash of another key are searched as if they were that key's.",
        "the batch answer",
        (Edit("engine/state/segments.py", "    if is_own.all():\n", "    if is_own.any():\n"),),
        ("tests/engine/test_extremes.py::test_the_extreme_of_every_key_before_and_after",),
    ),
    Breakage(
        "extremes-as-if-nothing-retracts",
        "Running extremes are kept although the input can retract.",
        "the batch answer",
        (
            Edit(
                AGGREGATE,
                "    append_only = all(context.append_only)\n",
                "    append_only = True\n",
            ),
        ),
        (f"{TEST_AGGREGATE}::test_aggregate_equals_the_simple_evaluation_after_every_step",),
    ),
    Breakage(
        "products-are-rounded",
        "The sum of squares loses the digits that a double cannot hold, so that a small variance beside a large mean is noise.",
        "the batch answer",
        (
            Edit(
                "engine/accumulators/co_moments.py",
                "    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low\n",
                "    return product, (a_high + a_low + b_high + b_low) * 0.0\n",
            ),
        ),
        (f"{TEST_AGGREGATE}::test_aggregate_equals_the_simple_evaluation_after_every_step",),
    ),
    Breakage(
        "lists-before-as-after",
        "What a function of all values gave before a change is computed from the values after it.",
        "the batch answer",
        (
            Edit(
                "engine/operators/aggregate_stored_values.py",
                "    before, _ = sorted_values(argument.type, keys.count, *stored)\n",
                "    before, _ = sorted_values(argument.type, keys.count, *(stored if len(groups) == 0 else both))\n",
            ),
        ),
        (f"{TEST_AGGREGATE}::test_aggregate_equals_the_simple_evaluation_after_every_step",),
    ),
    Breakage(
        "descending-as-ascending",
        "ORDER BY ... DESC within a struct sorts as ASC.",
        "the batch answer",
        (
            Edit(
                "engine/accumulators/order_bytes.py",
                "fields.append(invert(written) if field.name.startswith(DESCENDING) else written)",
                "fields.append(written)",
            ),
            Edit(
                "engine/accumulators/order_bytes.py",
                "reader = self._reverse if field.name.startswith(DESCENDING) else self",
                "reader = self",
            ),
        ),
        ("tests/engine/test_order_bytes.py::test_bytes_are_in_the_order_of_the_values_and_give_them_back",),
    ),
    Breakage(
        "firsts-of-several-rows",
        "first(a) and first(b) beside each other are of two rows.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/rules/aggregate_calls.py",
                "        arguments = tuple(beside.get(_row(part), {}).values())\n",
                "        arguments = (function.children[0],)\n",
            ),
        ),
        ("tests/stepwell/lowering/test_aggregate_functions.py::test_every_function_is_sparks",),
    ),
    Breakage(
        "zeros-without-signs",
        "min and max of a group that holds -0.0 alone are 0.0.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/rules/aggregate.py",
                "signed = isinstance(FUNCTIONS[call.function], ExtremeFunction) and",
                "signed = False and",
            ),
        ),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[zeros with signs: groups]",
        ),
    ),
    Breakage(
        "zeros-of-frames-without-signs",
        "min and max of a frame that holds -0.0 alone are 0.0.",
        "the batch answer",
        (
            Edit(
                "engine/operators/window_aggregates.py",
                "        self.raw = one_nan(values)\n",
                "        self.raw = canonical(values)\n",
            ),
        ),
        ("tests/engine/test_window.py::test_the_extremes_of_zeros_keep_their_signs",),
    ),
    Breakage(
        "order-of-a-subquery-forgotten",
        "first and collect_list over rows with ORDER BY take another order.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/rules/ordered_rows.py",
                "    named = zip(keys, sort_orders(order), strict=True)\n",
                "    named = zip(keys[:0], sort_orders(order)[:0], strict=True)\n",
            ),
        ),
        ("tests/stepwell/lowering/test_aggregate_functions.py::test_every_function_is_sparks",),
    ),
    Breakage(
        "join-forgets-new-pairs",
        "A join misses the pairs of rows that came on both sides in one step.",
        "the batch answer",
        (
            Edit("engine/operators/join.py", "    right_trace.append(as_rows(right), right_hashes)\n", ""),
            Edit(
                "engine/operators/join.py",
                "    left_trace.append(as_rows(left), left_hashes)\n",
                "    left_trace.append(as_rows(left), left_hashes)\n"
                "    right_trace.append(as_rows(right), right_hashes)\n",
            ),
        ),
        (f"{TEST_OPERATORS}::test_join",),
    ),
    Breakage(
        "null-rows-before-the-condition",
        "A row counts as matched by an equal key, although no row satisfies the rest of an outer join's condition.",
        "the batch answer",
        (
            Edit(
                OUTER_JOIN,
                "        stored_at, changed_at = (kept.column(len(columns) + i).to_numpy() for i in (0, 1))\n",
                "",
            ),
        ),
        (f"{TEST_OUTER_JOIN}::test_outer_join",),
    ),
    Breakage(
        "a-match-that-left-is-not-counted",
        "An outer join retracts the row with NULLs, and does not put it back when the last match has left.",
        "the batch answer",
        (Edit(OUTER_JOIN, "    left.store_gains(one)\n", ""),),
        (f"{TEST_OUTER_JOIN}::test_outer_join", f"{TEST_OUTER_JOIN}::test_an_outer_join_of_a_table_with_itself"),
    ),
    Breakage(
        "null-keys-are-lost",
        "An outer join drops the rows whose keys have a NULL, as an inner join does.",
        "the batch answer",
        (
            Edit(
                OUTER_JOIN,
                "            unable = only(changes[number], ~able)\n",
                "            unable = change.slice(0, 0)\n",
            ),
        ),
        (f"{TEST_OUTER_JOIN}::test_outer_join",),
    ),
    Breakage(
        "a-full-join-lies-by-its-left-key",
        "The descriptor says that the rows of a full join lie by the left key, which is NULL in rows that have only a right side.",
        "3 placement independence",
        (
            Edit(
                OUTER_JOIN,
                "    return Arrangement(arrangement.exchanges, None) if node.full else arrangement\n",
                "    return arrangement\n",
            ),
        ),
        (
            f"{TEST_OUTER_JOIN}::test_operators_above_an_outer_join_see_whole_keys_on_any_number_of_workers",
            f"{TEST_DESCRIPTORS}::test_the_rows_of_an_operator_lie_where_its_descriptor_says",
        ),
    ),
    Breakage(
        "two-values-of-a-subquery",
        "A subquery that stands for a value gives two rows and no error.",
        "the batch answer",
        (
            Edit(
                OUTER_JOIN,
                "        if (stored.pairs > stored.weights).any():\n",
                "        if (stored.pairs > 2 * stored.weights).any():\n",
            ),
        ),
        (f"{TEST_OUTER_JOIN}::test_a_second_match_of_a_subquery_that_stands_for_a_value_is_an_error",),
    ),
    Breakage(
        "deduplicate-by-arrival",
        "Of rows that are alike, the first of the step is kept where the least should be.",
        "2 determinism",
        (
            Edit(
                "engine/operators/distinct.py",
                "    after = _least(node, zset.consolidate(zset.add([stored, delta])))\n",
                "    after = _least(node, zset.add([delta, stored]))\n",
            ),
        ),
        (f"{TEST_OPERATORS}::test_deduplicate_keeps_one_row_of_every_key_by_content_alone",),
    ),
    Breakage(
        "two-rows-of-a-key",
        "An upsert view may hold two rows of one key.",
        "whole upsert topics",
        (
            Edit(
                "engine/operators/view.py",
                "    doubled = np.flatnonzero(after > 1)\n",
                "    doubled = np.flatnonzero(after > 2)\n",
            ),
        ),
        (f"{TEST_OPERATORS}::test_a_view_with_two_rows_of_a_key_is_refused_before_it_changes",),
    ),
    Breakage(
        "no-tombstone",
        "A key that vanishes leaves its last row in the upsert topic.",
        "the batch answer",
        (Edit("engine/operators/output.py", "    chosen = came | ~replaced[group]\n", "    chosen = came\n"),),
        (f"{TEST_OPERATORS}::test_the_last_messages_of_an_upsert_topic_are_the_table",),
    ),
    Breakage(
        "colliding-keys-are-one",
        "Rows whose keys have one hash count as rows of one key, so that one of two keys loses its message.",
        "the batch answer",
        (
            Edit(
                "engine/operators/keys.py",
                "    if (tied & new[1:]).any():",
                "    if (tied & ~tied).any():",
            ),
        ),
        ("tests/engine/test_keys.py::test_keys_whose_hashes_collide_are_told_from_each_other",),
    ),
    Breakage(
        "replaced-row-stays",
        "A new message of a key is inserted beside the row that it replaces.",
        "the batch answer",
        (
            Edit(
                "engine/operators/last_by_key.py",
                "zset.add([new.cast(old.schema), zset.negate(old)])",
                "zset.add([new.cast(old.schema), old.slice(0, 0)])",
            ),
        ),
        (f"{TEST_OPERATORS}::test_last_by_key",),
    ),
    Breakage(
        "merges-without-bound",
        "A bucket of a trace grows, and is merged whole, without an end.",
        "9 bounded",
        (
            Edit(
                "engine/state/trace.py",
                "        if everything and merged.num_rows > BUCKET_ROWS_MAX * (1 + len(self._buckets) // BUCKETS_SMALL):\n",
                "        if False:\n",
            ),
        ),
        ("tests/engine/test_trace.py::test_a_bucket_that_outgrows_its_bound_is_split",),
    ),
    Breakage(
        "buckets-of-one-size",
        "The buckets of a large trace are as small as those of a small one, and a step opens more and more runs.",
        "9 bounded",
        (Edit("engine/state/trace.py", " * (1 + len(self._buckets) // BUCKETS_SMALL):\n", ":\n"),),
        ("tests/engine/test_trace.py::test_buckets_and_their_bound_grow_with_the_root_of_the_rows",),
    ),
    Breakage(
        "every-worker-reads-all",
        "Every worker reads the ranges of all of them.",
        "3 placement independence",
        (
            Edit(
                TASKS,
                "        mine = ranges_of_worker(given.ranges, task.placement, task.worker)\n",
                "        mine = [span for span in given.ranges if span.length and ranges_of_worker]\n",
            ),
        ),
        (f"{END_TO_END}/test_partitions.py::test_two_workers_and_three_partitions",),
        tells="was read by another worker too",
    ),
    Breakage(
        "freeze-of-one-worker",
        "All workers but the first say that they have frozen their changes, and have not.",
        "6 two versions",
        (
            Edit(
                f"{WORKER}/checkpoint_orders.py",
                "        self._set_aside(order)\n",
                "        if self.state.number == 0:\n            self._set_aside(order)\n",
            ),
        ),
        (
            f"{END_TO_END}/test_checkpoints.py::test_a_checkpoint_that_all_workers_have_counts_though_the_run_ended_before_it_said_so",
        ),
    ),
    Breakage(
        "freeze-at-any-step",
        "A freeze does not look which step the state is at.",
        "6 two versions",
        (
            Edit(
                f"{WORKER}/checkpoint_orders.py",
                "            elif (step := transaction.get_step()) != order.version.step:\n",
                "            elif (step := transaction.get_step()) < 0:\n",
            ),
        ),
        (f"{END_TO_END}/test_checkpoints.py::test_a_state_of_another_step_is_not_frozen",),
        tells="WorkerMistake",
    ),
    Breakage(
        "new-partition-read-by-nobody",
        "A partition that came after the placement was made belongs to no worker.",
        "7 one owner",
        (
            Edit(
                "engine/model/placement.py",
                "else self.workers[partition % len(self.workers)]",
                "else -1",
            ),
        ),
        ("tests/engine/test_sources.py::test_every_range_is_read_by_one_worker",),
    ),
    Breakage(
        "source-keeps-its-own-schema",
        "The rows of a source keep the decoder's NOT NULL marks.",
        "3 placement independence",
        (
            Edit(
                "engine/run/sources.py",
                "zset.as_schema(_decode(index, table, records, given, report), schema)",
                "_decode(index, table, records, given, report)",
            ),
        ),
        ("tests/engine/test_sources.py::test_which_partitions_have_rows_does_not_matter",),
        tells="Schema at index 1 was different",
    ),
    Breakage(
        "workers-without-gaps",
        "A partition that came later is read by the worker of its number, as if the workers' numbers had no gaps.",
        "7 one owner",
        (
            Edit(
                "engine/model/placement.py",
                "else self.workers[partition % len(self.workers)]",
                "else partition % len(self.workers)",
            ),
        ),
        ("tests/engine/test_sources.py::test_a_partition_that_came_later_than_the_placement_is_read_by_one_worker",),
    ),
    Breakage(
        "messages-of-early-stages-lost",
        "A worker does not send the output that its first stage has computed.",
        "the batch answer",
        (
            Edit(
                TASKS,
                "        self._outcome.add(result)\n        self._outcome.read_ms",
                "        self._outcome.read_ms",
            ),
        ),
        (f"{END_TO_END}/test_divisions.py::test_a_pipeline_without_state_goes_on_from_its_checkpoint",),
    ),
    Breakage(
        "output-not-exchanged",
        "The output of a view that stores nothing is encoded where its rows are, so that a row that changes its worker is written twice.",
        "2 determinism",
        (
            Edit(
                "engine/operators/output.py",
                "        return Arrangement((None,), colocation)\n    return Arrangement((together,), together)\n\n\ndef arrange_withheld",
                "        return Arrangement((None,), colocation)\n    return Arrangement((None,), colocation)\n\n\ndef arrange_withheld",
            ),
        ),
        (f"{TEST_STAGES}::test_a_row_that_leaves_one_worker_and_comes_on_another_gives_no_message",),
    ),
    Breakage(
        "equal-rows-written-once",
        "A changelog without a key has one message for rows that are equal.",
        "the batch answer",
        (
            Edit(
                "engine/operators/output.py",
                "np.repeat(np.arange(len(weights)), np.abs(weights))",
                "np.arange(len(weights))",
            ),
        ),
        (f"{TEST_OPERATORS}::test_a_changelog_without_a_key_has_a_message_for_each_of_equal_rows",),
    ),
    Breakage(
        "step-without-state-not-repeated",
        "A worker without state refuses to run a step again that was too large for another one.",
        "9 bounded",
        (
            Edit(
                f"{WORKER}/step_orders.py",
                "        if not state.setup.plan.has_state and step ==",
                "        if not state.setup.plan.stages and step ==",
            ),
        ),
        (
            f"{END_TO_END}/test_divisions.py::test_a_step_without_state_that_is_too_large_on_one_worker_is_run_again_by_all",
        ),
        tells="WorkerMistake",
    ),
    Breakage(
        "an-order-without-an-answer-is-imported",
        "A method of a worker may give no answer to an order, and the coordinator waits until it gives the worker up.",
        "9 bounded",
        (
            Edit(
                f"{WORKER}/handlers.py",
                "        assert not issubclass(order, Order), ",
                "        assert issubclass(order, Message), ",
            ),
        ),
        ("tests/engine/resident/test_messages.py::test_a_method_whose_result_does_not_answer_its_order_is_noticed",),
    ),
    Breakage(
        "stateless-step-not-stored",
        "A pipeline without state makes checkpoints that do not say which step is next.",
        "6 two versions",
        (
            Edit(
                f"{WORKER}/checkpoint_orders.py",
                "            if not state.setup.plan.has_state:\n                transaction.set_step",
                "            if state.setup.plan.stages == 0:\n                transaction.set_step",
            ),
        ),
        (f"{END_TO_END}/test_divisions.py::test_a_pipeline_without_state_goes_on_from_its_checkpoint",),
        tells="RecoveryFailed.*the checkpoint is for step",
    ),
    Breakage(
        "silence-without-end",
        "A worker that gives no sign of life is never given up.",
        "9 bounded",
        (Edit(LIVENESS, "            if silent_s > self.limits.silence_s:\n", "            if silent_s < 0:\n"),),
        (f"{TEST_LIVENESS}::test_a_silent_worker_is_given_up_however_much_the_others_say",),
    ),
    Breakage(
        "frozen-worker-waited-for",
        "A worker that makes no progress is waited for, as long as it lives.",
        "9 bounded",
        (Edit(LIVENESS, "min(stuck_s.values()) <= progress_s:", "True:"),),
        (f"{TEST_LIVENESS}::test_a_worker_that_makes_no_progress_while_all_others_wait_is_frozen",),
    ),
    Breakage(
        "pings-count-as-progress",
        "A worker that waits makes progress whenever it takes a ping, so the worker that it waits for is never given up.",
        "9 bounded",
        (Edit(LIVENESS, "seen.progress[2] if beat.waiting else beat.cpu_ms", "beat.cpu_ms"),),
        (f"{TEST_LIVENESS}::test_a_worker_that_waits_makes_no_progress_by_taking_pings",),
    ),
    Breakage(
        "parts-of-a-frame-not-heard",
        "A worker whose heartbeats wait behind a large frame counts as silent.",
        "9 bounded",
        (Edit(LIVENESS, "        if bytes_arrived != seen.bytes_arrived:\n", "        if False:\n"),),
        (f"{TEST_LIVENESS}::test_a_worker_that_sends_a_large_frame_is_not_silent",),
    ),
    Breakage(
        "silence-judged-in-quiet-moments",
        "A silent worker is noticed only while no other worker says anything.",
        "9 bounded",
        (
            Edit(
                ROSTER,
                '        self._judge(self._liveness.find_silent(now), "waiting for it")\n',
                '        if event is None and seconds == 0.0:\n            self._judge(self._liveness.find_silent(now), "waiting for it")\n',
            ),
        ),
        (f"{TEST_CREW}::test_a_silent_worker_is_given_up_while_many_others_live",),
    ),
    Breakage(
        "strangers-without-end",
        "Whoever connects may stay, with any number of connections.",
        "9 bounded",
        (Edit("engine/resident/strangers.py", "        if len(self._since) >= COUNT_MAX:\n", "        if False:\n"),),
        (f"{TEST_CREW}::test_strangers_are_few_and_do_not_stay",),
    ),
    Breakage(
        "answers-of-any-term",
        "The coordinator takes the answers of workers of another term.",
        "5 fences",
        (Edit(ROSTER, "                if frame.term == self._term:\n", "                if frame:\n"),),
        (f"{TEST_CREW}::test_an_answer_of_another_term_is_not_taken",),
    ),
    Breakage(
        "token-not-compared",
        "Whoever connects to the coordinator may become a worker.",
        "5 fences",
        (
            Edit(
                REGISTRATION,
                "not isinstance(message, Register) or not same_token(message.token, self._token):",
                "not isinstance(message, Register):",
            ),
        ),
        (f"{TEST_CREW}::test_who_does_not_know_the_token_becomes_no_worker",),
    ),
    Breakage(
        "lengths-trusted",
        "A frame may be as long as its first bytes say.",
        "9 bounded",
        (
            Edit(
                "engine/resident/frames.py",
                "        if head_bytes > head_max or body_bytes > body_max:\n",
                "        if head_bytes < 0 or body_bytes < 0:\n",
            ),
        ),
        ("tests/engine/resident/test_frames.py::test_a_prefix_of_another_program_or_beyond_the_bounds_is_rejected",),
    ),
    Breakage(
        "unequal-libraries",
        "A worker may have other libraries than the coordinator.",
        "2 determinism",
        (Edit(REGISTRATION, "        if message.fingerprint != own:\n", "        if not message.fingerprint:\n"),),
        (f"{TEST_CREW}::test_workers_with_other_libraries_are_refused",),
    ),
    Breakage(
        "probe-finds-one-row-per-hash",
        "Of several rows of one key in a run, a probe finds the first.",
        "the batch answer",
        (Edit("engine/state/trace.py", "[after != low].any():  # one row", "[after != low].all():  # one row"),),
        ("tests/engine/test_trace.py::test_a_probe_finds_all_rows_of_a_key_beside_keys_with_one",),
    ),
    Breakage(
        "limbs-never-carry",
        "The limbs of sums that a join keeps grow without end, until they wrap.",
        "9 bounded",
        (Edit("engine/state/merging.py", '        if how == "carry":\n', '        if how == "never":\n'),),
        (f"{TEST_PARTIALS}::test_a_history_is_one_partial_per_group_and_its_limbs_are_carried",),
    ),
    Breakage(
        "stored-partials-not-met",
        "A row that arrives later than the partials is not joined with the stored sums.",
        "the batch answer",
        (
            Edit(
                "engine/operators/partials.py",
                "    if right.num_rows:\n        joined",
                "    if False:\n        joined",
            ),
        ),
        (f"{TEST_PARTIALS}::test_a_sum_that_no_double_holds_is_joined_with_a_row_of_high_weight",),
    ),
    Breakage(
        "sums-of-sums-wrap",
        "Sums times weights are added in 64 bits although they can exceed them.",
        "the batch answer",
        (
            Edit(
                "engine/accumulators/integers.py",
                "heaviest >= _EXACT_BELOW:\n        return _sum",
                "heaviest < 0:\n        return _sum",
            ),
        ),
        (f"{TEST_PARTIALS}::test_limbs_whose_intermediate_sums_exceed_int64_are_added_exactly",),
    ),
    Breakage(
        "extremes-before-a-join",
        "Aggregates that are not linear are taken before a join too.",
        "the batch answer",
        (Edit("stepwell/lowering/eager_aggregation.py", "if call.distinct or not isinstance", "if not isinstance"),),
        (f"{TEST_AGAINST_SPARK}::test_sums_are_taken_before_a_join_where_they_may_be[distinct over a join]",),
    ),
    Breakage(
        "empty-aggregate-not-derived",
        "The one row of an aggregate without keys is missing from its view while it counts nothing.",
        "the batch answer",
        (Edit(AGGREGATE, " if plan.group else np.full(1, context.reads_keyless)\n", "\n"),),
        (f"{TEST_AGAINST_SPARK}::test_a_lowered_query_holds_what_spark_answers[no groups]",),
    ),
    Breakage(
        "key-not-watched",
        "A view over an aggregate stores nothing, although two of its rows may have its key.",
        "no silence",
        (Edit("engine/analysis/content.py", "    if view.key:\n", "    if False:\n"),),
        (f"{TEST_AGAINST_SPARK}::test_a_view_over_an_aggregate_stores_nothing_unless_its_key_must_be_watched",),
    ),
    Breakage(
        "stranger-before-successor",
        "A run that slept takes its successor's output for a stranger's, and does not say who replaced it.",
        "5 fences",
        (Edit("coordinator/starting/topics/same_topics.py", "    writer.log.confirm()\n    own = ", "    own = "),),
        (
            "tests/simulator/test_scenarios.py::test_a_run_that_slept_while_another_ran_ends_as_fenced_and_names_it[log.committed]",
        ),
        tells="holds messages, and the step log does not know",
    ),
    Breakage(
        "preloaded-under-another-environment",
        "A process that has imported its modules under other variables than Spark's daemon takes its place.",
        "the batch answer",
        (
            Edit(
                "engine/resident/preload.py",
                "all(environment.get(name) == os.environ.get(name) for name in AT_IMPORT)",
                "bool(environment)",
            ),
        ),
        ("tests/engine/resident/test_preload.py::test_a_daemon_with_another_environment_does_the_work_itself",),
    ),
    Breakage(
        "daemon-outlives-its-substitute",
        "Spark's daemon waits as long as any worker lives, although nobody forks workers any more.",
        "no silence",
        (
            Edit(
                "engine/resident/preload.py",
                "    os.register_at_fork(after_in_child=connection.close)",
                "    os.register_at_fork(after_in_child=lambda: None)",
            ),
        ),
        ("tests/engine/resident/test_preload.py::test_the_daemon_ends_with_the_process_in_its_place",),
    ),
    Breakage(
        "value-sent-to-one-worker",
        "The value of a subquery stays on its worker, so the rows of the others have none.",
        "3 placement independence",
        (
            Edit(
                REGION,
                "        return [(worker, table) for worker in workers]\n",
                "        return [(task.worker, table)]\n",
            ),
        ),
        (f"{TEST_SCALAR}::test_any_number_of_workers_has_the_rows_of_one",),
        tells="there are rows and no value",
    ),
    Breakage(
        "rows-of-the-old-value-stay",
        "When the value of a subquery changes, the rows of the value before are not taken back.",
        "the batch answer",
        (
            Edit(
                SCALAR,
                "    return zset.consolidate(zset.add([after, zset.negate(before)]))\n",
                "    return zset.consolidate(after)\n",
            ),
        ),
        (f"{TEST_SCALAR}::test_rows_are_those_of_the_value_after_the_step",),
    ),
    Breakage(
        "first-of-two-rows",
        "A subquery that has two rows after a step gives one of them as its value.",
        "no silence",
        (Edit(SCALAR, "    if rows > 1:\n", "    if rows > 2:\n"),),
        (f"{TEST_SCALAR}::test_two_rows_at_the_end_of_a_step_are_an_error",),
    ),
    Breakage(
        "two-rows-within-a-step",
        "A row of a subquery that comes and goes within one step counts as a second row.",
        "the batch answer",
        (
            Edit(
                SCALAR,
                "    rows = int(zset.weights_of(content).sum())\n",
                "    rows = content.num_rows\n",
            ),
            Edit(SCALAR, "_one_row(zset.consolidate(zset.add([old, delta])), ", "_one_row(zset.add([old, delta]), "),
        ),
        (f"{TEST_SCALAR}::test_a_value_is_told_in_every_step_and_twice_if_it_changes",),
        tells="SCALAR_SUBQUERY_TOO_MANY_ROWS",
    ),
    Breakage(
        "negative-copies",
        "EXCEPT ALL gives a row a negative weight where the right side has more of it.",
        "the batch answer",
        (
            Edit(
                "engine/operators/linear.py",
                "np.maximum(fill(delta.column(node.times), 0).to_numpy(), 0)",
                "fill(delta.column(node.times), 0).to_numpy()",
            ),
        ),
        (f"{TEST_SCALAR}::test_replicate_multiplies_weights",),
    ),
    Breakage(
        "failing-predicate-before-its-guard",
        "A predicate that can fail is evaluated before the subquery's value that guards it.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/values.py",
                "            return not fragment_of(tree, resolve).raises\n",
                '            return fragment_of(tree, resolve).sql != ""\n',
            ),
        ),
        (f"{TEST_AGAINST_SPARK}::test_a_lowered_query_holds_what_spark_answers[value that guards a division]",),
        tells="DIVIDE_BY_ZERO",
    ),
    Breakage(
        "pandas-in-every-process",
        "The first array that is made imports pandas, in every worker.",
        "memory",
        (Edit("base/pandas_later.py", "    if PANDAS in sys.modules or any(", "    if sys.modules or any("),),
        ("tests/base/test_pandas_later.py::test_nothing_of_ours_imports_pandas",),
    ),
    Breakage(
        "pandas-unknown-to-arrow",
        "Arrow does not know the objects of a pandas that a definition imports, and takes a NaN of a series for a number.",
        "no silence",
        (
            Edit(
                "base/pandas_later.py",
                "        lib._pandas_api.compat  # noqa: B018  its value is not wanted: it asks\n",
                "        assert lib\n",
            ),
        ),
        ("tests/base/test_pandas_later.py::test_who_imports_pandas_has_it_as_usual_and_arrow_knows_it",),
    ),
)
