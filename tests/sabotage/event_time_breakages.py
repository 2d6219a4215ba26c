"""Mistakes in event time: the watermark, what is late, what closes, and what of it leaves the state."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

OPERATORS = "engine/operators"
IDLE = "coordinator/stepping/idle.py"
TEST = "tests/engine/test_event_time.py"
AGAINST_STREAMS = "tests/stepwell/lowering/test_event_time.py"

EVENT_TIME = (
    Breakage(
        "late-by-the-watermark-after-the-step",
        "Rows are late by the watermark that their own step has moved.",
        "the answer of Structured Streaming",
        (
            Edit(
                f"{OPERATORS}/event_time.py",
                "late = valid & (times <= mark.before)",
                "late = valid & (times <= mark.after)",
            ),
        ),
        (f"{AGAINST_STREAMS}::test_every_step_puts_out_what_spark_does[tumbling]",),
    ),
    Breakage(
        "the-greatest-of-several-watermarks",
        "Of several inputs, the one that is ahead decides.",
        "the answer of Structured Streaming",
        (
            Edit(
                f"{OPERATORS}/event_time.py",
                "max(each) if node.greatest else min(each)",
                "min(each) if node.greatest else max(each)",
            ),
        ),
        (f"{TEST}::test_a_watermark_is_the_least_of_its_inputs_and_never_goes_back",),
    ),
    Breakage(
        "closed-groups-stay-in-the-state",
        "The accumulators of a group stay when it has been put out.",
        "9 bounded",
        (
            Edit(
                f"{OPERATORS}/closing.py",
                "        forget(trace, rows_of_groups(trace, keys.columns, keys.hashes))",
                "        forget(trace, rows_of_groups(trace, keys.columns, keys.hashes).slice(0, 0))",
            ),
        ),
        (f"{TEST}::test_the_state_does_not_grow_with_the_input[groups]",),
    ),
    Breakage(
        "a-key-is-forgotten-at-its-time",
        "dropDuplicatesWithinWatermark forgets a key at the time of its row, and not the delay later.",
        "the answer of Structured Streaming",
        (
            Edit(
                f"{OPERATORS}/timed_deduplicate.py",
                "pa.array(times + node.lifetime_us, mask=~valid)",
                "pa.array(times, mask=~valid)",
            ),
        ),
        (f"{TEST}::test_a_key_is_in_the_output_once_until_it_is_forgotten",),
    ),
    Breakage(
        "rows-with-a-match-go-out-alone-too",
        "A row of an outer side goes out with NULLs although it has been in a pair.",
        "the answer of Structured Streaming",
        (
            Edit(
                f"{OPERATORS}/timed_join.py",
                "paired = matches.totals(gone.num_rows) > 0",
                "paired = matches.totals(gone.num_rows) < 0",
            ),
        ),
        (f"{TEST}::test_a_join_forgets_rows_that_nothing_can_match_and_tells_then_of_those_without_a_match",),
    ),
    Breakage(
        "a-row-of-a-join-is-forgotten-too-early",
        "The offset of a bound is left out, so that a row is forgotten before the last row that can match it.",
        "the answer of Structured Streaming",
        (
            Edit(
                "stepwell/lowering/rules/join_times.py",
                "return SideTime(mine, column, offset)",
                "return SideTime(mine, column, min(offset, 0))",
            ),
        ),
        (f"{AGAINST_STREAMS}::test_every_step_puts_out_what_spark_does[left join]",),
    ),
    Breakage(
        "a-watermark-goes-back-when-an-idle-input-comes-back",
        "The watermark that has gone on without an idle input is forgotten.",
        "the promise that a watermark never goes back",
        (Edit(f"{OPERATORS}/event_time.py", "    if after > of_all:", "    if after < of_all:"),),
        (f"{TEST}::test_a_watermark_leaves_idle_inputs_out_and_stays_where_it_has_been_when_they_come_back",),
    ),
    Breakage(
        "an-input-is-idle-although-it-has-rows",
        "An input becomes idle although its messages come or wait.",
        "the meaning of stepwell.watermark.idle.after",
        (Edit(IDLE, "0.0 if each in active else silent(s)", "silent(s)"),),
        (
            "tests/coordinator/stepping/test_idle.py::"
            "test_an_input_is_idle_when_it_has_been_silent_for_so_long_and_active_with_the_next_row",
        ),
    ),
    Breakage(
        "a-pause-makes-inputs-idle",
        "All time between two looks counts as silence.",
        "the promise that an outage makes nothing idle",
        (
            Edit(
                IDLE,
                "return before + passed if passed <= most else min(before, most)",
                "return before + passed if passed <= most else min(before + passed, after_s)",
            ),
        ),
        ("tests/coordinator/stepping/test_idle.py::test_a_time_in_which_nobody_looks_makes_nothing_idle_alone",),
    ),
    Breakage(
        "a-copy-of-a-watermark-stays-behind",
        "The copy of a watermark, by which new nodes are filled, follows from their rows alone.",
        "the answer of a new view",
        (
            Edit(
                "engine/analysis/history_inputs.py",
                "        if original is not None and isinstance",
                "        if original is None and isinstance",
            ),
        ),
        (
            f"{TEST}::test_a_new_view_beside_an_idle_input_closes_what_has_been_closed",
            f"{TEST}::test_a_changed_view_beside_an_idle_input_takes_back_what_has_been_closed",
        ),
    ),
    Breakage(
        "messages-are-read-again-by-the-times-of-a-load",
        "Messages are read again by their timestamps, whatever these say of event time.",
        "the history of a new view",
        (
            Edit(
                "coordinator/loop.py",
                "RereadOrder(topics.offsets_since, groups)",
                "RereadOrder(topics.offsets_since)",
            ),
        ),
        ("tests/end_to_end/test_event_time.py::test_a_topic_that_was_loaded_is_read_again_as_it_was_read",),
    ),
    Breakage(
        "a-watermark-follows-a-feed",
        "The watermark of a new table moves with rows that come from the state in the order of their hashes.",
        "the history of a new view",
        (Edit("engine/run/stage.py", "if division.gives_content else frozenset()", "if False else frozenset()"),),
        ("tests/end_to_end/test_event_time.py::test_a_table_over_a_stored_one_has_its_whole_history",),
    ),
    Breakage(
        "nothing-happens-when-an-input-becomes-idle",
        "What an idle input holds back waits for the next message.",
        "the meaning of stepwell.watermark.idle.after",
        (
            Edit(
                "coordinator/stepping/inputs.py",
                "            or self._is_idleness_due(log, step)\n",
                "",
            ),
        ),
        (
            "tests/coordinator/stepping/test_inputs.py::test_a_step_without_input_comes_once_when_an_input_has_become_idle",
        ),
    ),
    Breakage(
        "inputs-are-idle-while-new-nodes-are-filled",
        "The watermarks of new nodes go on without rows that are still read again for them.",
        "the answer of a changed view",
        (
            Edit(
                "coordinator/stepping/inputs.py",
                "return self._idle.idle if log.revisions.passage_that_fills(step) is None else ()",
                "return self._idle.idle if log.revisions.passage_that_fills(step) is None else self._idle.idle",
            ),
        ),
        ("tests/coordinator/stepping/test_inputs.py::test_no_input_is_idle_while_new_nodes_are_filled",),
    ),
    Breakage(
        "other-rows-at-another-topic",
        "A kept table over event time is computed once more for another topic, which then has other rows than its readers.",
        "views of one project agree",
        (
            Edit(
                "coordinator/revisions/output_plans.py", "if index in below - {self.node.inputs[0]})", "if index in ())"
            ),
        ),
        (
            "tests/stepwell/test_planned.py::test_a_kept_table_over_event_time_gets_no_other_topic_than_its_kept_readers_have_read",
        ),
    ),
    Breakage(
        "new-readers-of-event-time-read-a-twin",
        "A new view over a kept table over event time is filled with what the table would put out today, and so has a key twice.",
        "views of one project agree",
        (
            Edit(
                "engine/analysis/contradictions.py",
                "if isinstance(nodes[take.node], View) and not is_output:",
                "if isinstance(nodes[take.node], View) and is_output:",
            ),
        ),
        (
            "tests/stepwell/test_planned.py::test_a_new_reader_of_a_kept_table_over_event_time_has_the_rows_that_all_have",
        ),
    ),
    Breakage(
        "open-windows-are-rebuilt-for-new-readers",
        "A new view that has a deduplication in common with a kept one rebuilds it, although both have one state.",
        "nothing is rebuilt without need",
        (
            Edit(
                "engine/analysis/contradictions.py",
                "isinstance(node, ClosingAggregate) or (",
                "isinstance(node, TimedDeduplicate) and (",
            ),
        ),
        ("tests/stepwell/test_planned.py::test_new_views_share_what_has_the_same_state_however_it_was_read[windows]",),
    ),
)
