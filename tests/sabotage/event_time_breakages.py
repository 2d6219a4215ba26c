"""Mistakes in event time: the watermark, what is late, what closes, and what of it leaves the state."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

OPERATORS = "engine/operators"
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
)
