"""Mistakes in views over the clock: the time of a step, the borders of rows, and what is due when."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CLOCK = "coordinator/stepping/clock.py"
FILTER = "engine/operators/temporal_filter.py"
BOUNDS = "engine/operators/clock_bounds.py"
ROWS = "engine/state/timed_rows.py"
OF_FILTER = "tests/engine/test_temporal_filter.py"
OF_TIME = "tests/coordinator/stepping/test_clock.py"
OF_ROWS = f"{OF_FILTER}::test_a_row_enters_and_leaves_at_its_borders"

THE_CLOCK = (
    Breakage(
        "the-time-of-steps-goes-back",
        "The time of a step is that of the host's clock, also if that has gone back.",
        "2 determinism: a view would have rows again that have left it",
        (
            Edit(
                CLOCK,
                "max(now // self.resolution_us * self.resolution_us, last_us or 0, 0)",
                "max(now // self.resolution_us * self.resolution_us, 0)",
            ),
        ),
        (f"{OF_TIME}::test_the_time_is_rounded_down_and_never_goes_back",),
    ),
    Breakage(
        "a-step-at-each-tick",
        "A pipeline without input takes a step whenever the time is another one.",
        "the promise that nothing happens before the next border",
        (
            Edit(
                CLOCK,
                "if not self.is_known or last_us is None:",
                "if self.reading.is_read or not self.is_known or last_us is None:",
            ),
        ),
        (f"{OF_TIME}::test_nothing_is_due_before_the_next_border",),
    ),
    Breakage(
        "a-border-that-has-passed-is-still-known",
        "The border stays known after a step that has passed it without asking for the next one.",
        "rows leave a view when their time is over",
        (
            Edit(
                CLOCK,
                "self.is_known = self.border_us is None or self.border_us > time_us",
                "self.border_us = None if self.border_us is not None and self.border_us <= time_us else self.border_us",
            ),
        ),
        (f"{OF_TIME}::test_a_border_that_passed_in_a_step_that_was_not_asked_is_unknown_again",),
    ),
    Breakage(
        "the-time-is-lost-when-a-step-is-divided-again",
        "The record of a step that is divided again has no time.",
        "2 determinism",
        (
            Edit(
                "io_kafka/step_log/division_records.py",
                '"topics": (), **policy',
                '"topics": (), "clock_us": None, **policy',
            ),
        ),
        (
            "tests/io_kafka/test_step_log.py::"
            "test_the_time_of_steps_never_goes_back_and_stays_with_a_step_that_is_divided_again",
        ),
    ),
    Breakage(
        "equality-at-the-wrong-side",
        "A row whose time is equal to the clock counts as one that is greater.",
        "the batch answer",
        (
            Edit(
                BOUNDS,
                'if bound.relation in ("<=", "="):\n            until = np.minimum(until, first_times(bound.path, values, more=1))',
                'if bound.relation in ("<=", "="):\n            until = np.minimum(until, first_times(bound.path, values))',
            ),
        ),
        (OF_ROWS,),
    ),
    Breakage(
        "the-ends-of-months-are-not-cut-off",
        "The first day that is a month before a day is sought without regard to shorter months.",
        "the batch answer",
        (Edit(BOUNDS, "return np.minimum(first + number, after)", "return first + number"),),
        (f"{OF_FILTER}::test_the_first_time_at_which_a_function_of_the_clock_reaches_a_value[in a month]",),
    ),
    Breakage(
        "nobody-hears-that-time-has-passed",
        "The time before the step is not told.",
        "the batch answer",
        (
            Edit(
                "engine/operators/clock_value.py",
                "return _told_rows([after, *before], [True, False][: 1 + len(before)])",
                "return _told_rows([after], [True])",
            ),
        ),
        (OF_ROWS,),
    ),
    Breakage(
        "an-idle-pipeline-sleeps",
        "No step is taken without input because time has passed.",
        "rows leave a view when their time is over",
        (
            Edit(
                "coordinator/stepping/inputs.py",
                "            or self.clock.is_due(self._wall_us(), log.clock_us)\n",
                "",
            ),
        ),
        ("tests/coordinator/stepping/test_inputs.py::test_a_step_without_input_comes_when_a_border_is_reached",),
    ),
    Breakage(
        "rows-enter-and-never-leave",
        "A row that has waited is not filed by the time at which it leaves.",
        "the batch answer",
        (
            Edit(
                FILTER,
                "        self._keep_inside(columns, until, weights, rows.column(HASH).to_numpy())\n",
                "",
            ),
        ),
        (OF_ROWS,),
    ),
    Breakage(
        "expired-rows-stay-in-the-state",
        "Rows that have left the view are not forgotten.",
        "9 bounded",
        (Edit(FILTER, "        forget(self.inside, gone)\n", ""),),
        (f"{OF_FILTER}::test_the_state_has_no_row_that_can_match_no_more",),
    ),
    Breakage(
        "the-last-unit-of-time-is-not-searched",
        "The search between two times ends before the unit of the later one.",
        "the batch answer",
        (Edit(ROWS, 'slots | high | _OWN, side="right"', 'slots | high, side="left"'),),
        (f"{OF_FILTER}::test_a_look_between_two_times_opens_the_rows_of_these_alone",),
    ),
    Breakage(
        "a-day-is-no-week",
        "The constant of a comparison is added to the clock instead of taken from it.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/clock.py",
                'path.then(ClockFunction("add", -added[1]))',
                'path.then(ClockFunction("add", added[1]))',
            ),
        ),
        ("tests/stepwell/lowering/test_clock.py::test_views_hold_what_spark_answers_with_the_time_of_the_step",),
    ),
    Breakage(
        "a-filter-that-costs-a-recomputation",
        "Comparisons with the clock are computed as with the value of a subquery.",
        "the cost of a tick is that of the rows that cross a border",
        (
            Edit(
                "stepwell/lowering/context.py",
                "        found = comparison_in(tree, self.values.clocks)\n        if found is None",
                "        found = comparison_in(tree, ())\n        if found is None",
            ),
        ),
        ("tests/stepwell/lowering/test_clock.py::test_a_comparison_of_the_clock_with_a_row_has_borders[a_window]",),
    ),
)
