"""Mistakes in how error rows are counted, and in what is withheld meanwhile."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

ERROR_ROWS, OUTPUT = "engine/operators/error_rows.py", "engine/operators/output.py"
VIEWS = "coordinator/stepping/views_in_error.py"
UNIT = "tests/engine/test_error_rows.py"
OPERATORS = "tests/engine/test_errors_of_operators.py"
MESSAGES = "tests/engine/test_rows_without_message.py"
TEST = "tests/end_to_end/test_views_in_error.py"
EVERY = (f"{TEST}::test_every_kind_of_node_counts_its_errors_until_they_end",)

ERRORS = (
    Breakage(
        "error-rows-only-added",
        "A row in error that is retracted counts as another row in error.",
        "the batch answer",
        (Edit(ERROR_ROWS, "weights = sign * zset.weights_of(rows)", "weights = np.abs(zset.weights_of(rows))"),),
        (f"{UNIT}::test_what_is_published_is_the_answer_of_the_last_step_that_had_one",),
    ),
    Breakage(
        "error-rows-without-checksum",
        "Error rows are only numbered, so one that comes and another one that goes look like none.",
        "the batch answer",
        (Edit(ERROR_ROWS, "return not self.rows and not self.checksum", "return not self.rows"),),
        (f"{UNIT}::test_different_rows_that_come_and_go_do_not_look_like_none",),
    ),
    Breakage(
        "held-output-written",
        "An output is written while its view is in error.",
        "the batch answer",
        (
            Edit(OUTPUT, "        trace.append(as_rows(change), key.hashes(change))\n", ""),
            Edit(OUTPUT, "        return zset.empty(types)\n", "        return change\n"),
        ),
        (f"{UNIT}::test_what_is_published_is_the_answer_of_the_last_step_that_had_one",),
    ),
    Breakage(
        "rows-left-out-fail",
        "A row for which the condition is not true is counted as one in error, because a value of it would fail.",
        "the batch answer",
        (
            Edit(
                "engine/expressions/evaluate.py",
                "WHEN {chosen} THEN {fails} ELSE false END",
                "WHEN {fails} THEN true ELSE false END",
            ),
        ),
        (
            "tests/engine/test_failing_rows.py::test_one_query_says_of_each_row_what_it_says_alone[a row that is left out]",
        ),
    ),
    Breakage(
        "a-lack-of-memory-is-an-error-row",
        "A function that has no memory for a moment puts the view in error.",
        "the batch answer",
        (Edit("engine/expressions/functions/__init__.py", "            _noticed.lack = lack\n", ""),),
        ("tests/engine/test_failing_rows.py::test_a_function_without_memory_is_no_error_of_a_row",),
    ),
    Breakage(
        "kept-changes-written-twice",
        "What was kept stays in the state after it was written, and is written again after the next error.",
        "exactly once",
        (Edit(OUTPUT, "    trace.append(as_rows(taken), key.hashes(taken))\n", ""),),
        (f"{UNIT}::test_two_errors_one_after_the_other_write_what_was_kept_once",),
    ),
    Breakage(
        "withheld-rows-stay-where-they-are",
        "The rows of a withheld output are kept on the worker that has read them, in a stage without state.",
        "7 one owner",
        (
            Edit(
                OUTPUT,
                "    if has_state and colocation is not None and set(colocation) <= set(together):\n",
                "    if colocation is None or set(colocation) <= set(together):\n",
            ),
        ),
        (f"{UNIT}::test_only_withheld_outputs_are_in_other_stages",),
    ),
    Breakage(
        "error-rows-of-one-worker",
        "The error rows that one worker tells of replace those of the others.",
        "the batch answer",
        (
            Edit(
                "coordinator/stepping/step_output.py",
                "add_all(result.errors, done.errors)",
                "result.errors.update(done.errors)",
            ),
        ),
        ("tests/coordinator/stepping/test_step_output.py::test_error_rows_of_all_workers_are_added",),
    ),
    Breakage(
        "released-before-the-steps-are-written",
        "A division that is chosen ahead already counts fewer nodes, although a step before it may find error rows.",
        "the batch answer",
        (
            Edit(
                VIEWS,
                "    if not is_drained:\n        return Counting(tuple(node for node in log.counted if numbered.index(node) is not None), ())\n",
                "",
            ),
        ),
        (
            "tests/coordinator/stepping/test_views_in_error.py::test_a_division_ahead_counts_the_nodes_of_the_division_before_it",
        ),
    ),
    Breakage(
        "in-error-for-good",
        "Rows in error that came before a change of the project and go after it leave a checksum, and their view stays in error.",
        "the batch answer",
        (Edit(VIEWS, "return errors.rows == 0 and errors.since < revision_since", "return errors.rows < 0"),),
        (
            "tests/coordinator/stepping/test_views_in_error.py::test_rows_of_before_a_revision_are_over_when_none_is_left",
        ),
    ),
    Breakage(
        "released-by-the-former-name",
        "The step of a switch looks for the outputs to be released by the names that their views had, and a view may be renamed.",
        "exactly once",
        (
            Edit(
                VIEWS,
                "released = {handle for number, handle in outputs_by_number(numbered).items() if number in withheld}",
                "released = set(withheld.values()) & set(outputs_by_number(numbered).values())",
            ),
        ),
        (
            "tests/coordinator/stepping/test_views_in_error.py::test_an_output_that_another_revision_calls_otherwise_is_released_all_the_same",
        ),
    ),
    Breakage(
        "nothing-is-released-without-input",
        "Outputs are released by the next step that has input, which may never come.",
        "the batch answer",
        (
            Edit(
                "coordinator/stepping/inputs.py",
                "            or self.new_nodes.is_release_due(log, log.errors)\n",
                "",
            ),
        ),
        (
            "tests/coordinator/stepping/test_inputs.py::"
            "test_nothing_is_divided_ahead_where_outputs_are_to_be_released_and_a_release_needs_no_input",
            *EVERY,
        ),
    ),
    Breakage(
        "uncounted-nodes-in-the-log",
        "The log takes a division that stops counting nodes which have error rows.",
        "1 division first",
        (
            Edit(
                "io_kafka/step_log/rules.py",
                "    return reason or _why_not_counted(log, record)\n",
                "    return reason\n",
            ),
        ),
        ("tests/io_kafka/test_step_log.py::test_a_division_goes_on_counting_the_nodes_that_have_error_rows",),
    ),
    Breakage(
        "a-view-in-error-is-read",
        "A query reads a view that has no answer, and gets the rows without an error.",
        "no silence",
        (
            Edit(
                "engine/run/contents.py",
                "            if checks_errors and name in in_error:\n",
                "            if checks_errors and not name:\n",
            ),
        ),
        (f"{TEST}::test_the_other_views_go_on_and_nothing_of_the_view_in_error_is_written",),
    ),
    Breakage(
        "rows-left-out-without-a-module",
        "A function that lacks a module or a connection leaves rows out, which may not be in error when they are retracted.",
        "2 determinism",
        (
            Edit(
                "engine/python/calls.py",
                "    if is_of_the_row(made):\n",
                "    if not isinstance(made, ImportError):\n",
            ),
        ),
        ("tests/engine/test_python_calls.py::test_a_function_that_lacks_something_around_it_leaves_no_row_out",),
    ),
    Breakage(
        "results-without-a-conversion-end-the-run",
        "A result of a function in Python that Arrow cannot convert at all ends the run, and the other views with it.",
        "the other views go on",
        (Edit("engine/python/calls.py", "    WrongResult,\n    pa.ArrowNotImplementedError,\n", "    WrongResult,\n"),),
        ("tests/engine/test_python_calls.py::test_a_result_that_has_no_conversion_leaves_out_its_row_alone",),
        tells="FunctionUnusable",
    ),
    Breakage(
        "an-overflow-never-ends",
        "A group whose sum fits again stays counted.",
        "the batch answer",
        (
            Edit(
                "engine/operators/aggregate.py",
                "results_of(plan, old), context.errors, sign=-1)",
                "results_of(plan, old), None, sign=-1)",
            ),
        ),
        EVERY,
        tells="does not fit",
    ),
    Breakage(
        "the-value-before-counts-too",
        "The error rows of a subquery's former value are added instead of subtracted.",
        "the batch answer",
        (
            Edit(
                "engine/operators/scalar.py",
                "_evaluate(node, stored, values.before, context, sign=-1)",
                "_evaluate(node, stored, values.before, context)",
            ),
        ),
        EVERY,
    ),
    Breakage(
        "replayed-errors-not-compared",
        "A replay may leave out other rows than the first run.",
        "2 determinism",
        (
            Edit(
                "io_kafka/step_log/output_progress.py",
                "    if was != now:\n        raise ErrorsDiffer",
                "    if was and not now:\n        raise ErrorsDiffer",
            ),
        ),
        ("tests/io_kafka/test_output_progress.py::test_a_replay_has_the_error_rows_of_the_first_run",),
    ),
    Breakage(
        "views-in-error-of-now-in-an-older-checkpoint",
        "A checkpoint before the replay says of its state which views are in error after the last written step.",
        "no silence",
        (
            Edit(
                VIEWS,
                "    return None if record is None else record.errors\n",
                "    return log.errors if record is None else record.errors\n",
            ),
        ),
        (
            "tests/coordinator/stepping/test_views_in_error.py::test_the_errors_in_a_state_are_those_after_the_step_before_it",
        ),
    ),
    Breakage(
        "keys-that-are-unique-again-stay-counted",
        "A key with several rows is counted, and a key that has one again is not subtracted.",
        "the batch answer",
        (
            Edit(
                "engine/operators/view.py",
                "(after > 1).astype(np.int64) - (before > 1).astype(np.int64)",
                "((after > 1) & (before <= 1)).astype(np.int64)",
            ),
        ),
        (f"{UNIT}::test_keys_with_several_rows_and_subqueries_with_several_rows_are_counted",),
    ),
    Breakage(
        "matches-before-not-subtracted",
        "A row with several matches for one value stays counted when it has one again.",
        "the batch answer",
        (
            Edit(
                "engine/operators/outer_join.py",
                "        _count_several(left, right, context.errors, sign=-1)\n",
                "        pass\n",
            ),
        ),
        (f"{UNIT}::test_rows_with_several_matches_are_counted",),
    ),
    Breakage(
        "pairs-in-error-before-not-subtracted",
        "A semi join adds the pairs that fail in the rows of now and does not subtract those of before.",
        "the batch answer",
        (
            Edit(
                "engine/operators/semi_join.py",
                "touched_hashes, right_trace, context, sign=-1) > 0",
                "touched_hashes, right_trace, context) > 0",
            ),
        ),
        (f"{OPERATORS}::test_pairs_for_which_a_condition_fails_are_counted[anti join]",),
    ),
    Breakage(
        "pairs-in-error-of-rows-counted-once",
        "A semi join counts a pair that fails with the weight of its right row, however often the left row is there.",
        "the batch answer",
        (Edit("engine/operators/semi_join.py", "zset.weights_of(wrong) * of_left)", "zset.weights_of(wrong))"),),
        (f"{OPERATORS}::test_pairs_for_which_a_condition_fails_are_counted[semi join]",),
    ),
    Breakage(
        "pairs-in-error-with-their-numbers",
        "An outer join counts a pair that fails together with the positions of its rows, which another step does not have.",
        "the batch answer",
        (
            Edit(
                "engine/operators/outer_join.py",
                "lambda wrong: zset.project(wrong, range(len(columns)))",
                "lambda wrong: wrong",
            ),
        ),
        (f"{OPERATORS}::test_pairs_for_which_a_condition_fails_are_counted[full join without keys]",),
    ),
    Breakage(
        "frames-in-error-only-added",
        "A row of a window that was in error stays counted.",
        "the batch answer",
        (
            Edit(
                "engine/operators/window.py",
                "zip(computed, (-1, 1), strict=True)",
                "zip(computed, (0, 1), strict=True)",
            ),
        ),
        (f"{OPERATORS}::test_rows_whose_frame_or_sum_exceeds_a_type_are_counted",),
    ),
    Breakage(
        "every-bound-is-computed",
        "A row whose upper bound Spark need not compute is in error.",
        "the batch answer",
        (
            Edit(
                "engine/operators/window_order.py",
                "            wrong |= too_high & (high_before < self.end)\n",
                "            wrong |= too_high\n",
            ),
        ),
        (f"{OPERATORS}::test_rows_whose_frame_or_sum_exceeds_a_type_are_counted",),
    ),
    Breakage(
        "levels-too-many-are-left-out-in-silence",
        "The rows of a level that a recursion may not have are left out and not counted.",
        "the batch answer",
        (
            Edit(
                "engine/operators/recursion.py",
                "    errors.add(rows.filter(beyond), LevelLimit.of(node.levels_max))\n",
                "",
            ),
        ),
        (f"{OPERATORS}::test_a_level_too_many_is_an_error_of_rows_and_rows_too_many_are_not",),
    ),
    Breakage(
        "a-closing-group-ends-the-step",
        "A group that overflows when it closes stops the pipeline although the step counts error rows.",
        "the batch answer",
        (Edit("engine/operators/closing.py", "context.errors, sign=1)", "None, sign=1)"),),
        (f"{OPERATORS}::test_a_group_whose_sum_does_not_fit_counts_when_it_closes",),
        tells="does not fit",
    ),
    Breakage(
        "two-nodes-of-a-body-in-one-trace",
        "A join in a recursion has one trace of its own, and the next node writes into its second one.",
        "7 one owner",
        (Edit("engine/operators/join.py", "        traces_in_recursion=2,\n", "        traces_in_recursion=1,\n"),),
        (
            "tests/engine/test_descriptors.py::test_an_operator_of_a_recursion_uses_as_many_traces_as_its_descriptor_says",
        ),
    ),
    Breakage(
        "rows-without-a-message-kept-unseen",
        "An output that is withheld does not look for rows that have no message, so it is released although it cannot be written.",
        "no silence",
        (
            Edit(
                OUTPUT,
                "    if change.num_rows and not node.written.says_every_row:\n",
                "    if not change.num_rows and not node.written.says_every_row:\n",
            ),
        ),
        (f"{MESSAGES}::test_a_topic_has_the_answer_of_the_last_step_in_which_all_rows_had_messages",),
    ),
    Breakage(
        "rows-without-a-message-counted-as-deletions",
        "An upsert output asks whether a row can be deleted, and not whether it can be written.",
        "the batch answer",
        (
            Edit(
                OUTPUT, "pa.array(np.zeros(rows.num_rows, dtype=bool))", "pa.array(np.ones(rows.num_rows, dtype=bool))"
            ),
        ),
        (f"{MESSAGES}::test_a_topic_has_the_answer_of_the_last_step_in_which_all_rows_had_messages",),
    ),
    Breakage(
        "what-goes-must-have-a-message",
        "A row that leaves an output has to have a message, although it was never written.",
        "the batch answer",
        (Edit(OUTPUT, "pa.array(zset.weights_of(change) > 0)", "pa.array(zset.weights_of(change) != 0)"),),
        (f"{MESSAGES}::test_a_row_without_a_message_ends_a_step_that_withholds_its_output_for_another_reason",),
        tells="column word is NULL",
    ),
    Breakage(
        "what-was-kept-unseen-is-counted-for-ever",
        "An output with a row that was kept and never counted asks for every step to be divided again, and never writes.",
        "9 bounded",
        (
            Edit(
                OUTPUT,
                "DataError if node.handle in context.step.division.withholding.released else RowWithoutMessage",
                "RowWithoutMessage",
            ),
        ),
        (f"{MESSAGES}::test_what_was_kept_and_never_counted_ends_the_run",),
    ),
    Breakage(
        "a-key-of-text-is-said-to-have-nulls",
        "An output whose keys have no form for NULL is said to have a message for every row, so a NULL ends the run.",
        "the batch answer",
        (Edit("io_kafka/formats/written.py", " and self.key_format not in WITHOUT_NULL", ""),),
        (
            "tests/io_kafka/formats/test_table.py::test_a_key_format_without_a_null_has_no_message_for_some_rows[string]",
        ),
    ),
    Breakage(
        "a-join-in-event-time-over-retractions",
        "A join with a watermark is accepted over rows that can be retracted.",
        "the batch answer",
        (Edit("engine/operators/timed_join.py", "is_needed=True,", "is_needed=False,"),),
        ("tests/engine/test_descriptors.py::test_an_operator_that_needs_inputs_that_only_insert_reads_event_time",),
    ),
)
