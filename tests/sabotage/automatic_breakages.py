"""Mistakes in what Stepwell makes of the load when it chooses the number of workers."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

AUTOMATIC, TESTS = "coordinator/automatic", "tests/coordinator/automatic"
TEST_MACHINE, TEST_LOG = f"{TESTS}/test_machine.py", "tests/io_kafka/test_step_log.py"
FOLLOWS, BOUNDED = "workers follow the load", "9 bounded"

AUTOMATIC_LAYOUTS = (
    Breakage(
        "busy-share-taken-for-load",
        "A pipeline that is always busy with small steps is held for overloaded, as by the rate divided by the busy share.",
        FOLLOWS,
        (
            Edit(
                f"{AUTOMATIC}/step_costs.py",
                "return ms * rows / most if per_row is None else max(ms + per_row * (rows - most), per_row * rows, 1e-6)",
                "return ms * rows / most if per_row is None else max(ms * rows / most, per_row * rows, 1e-6)",
            ),
        ),
        (
            f"{TESTS}/test_step_costs.py::test_costs_are_a_line_over_the_rows",
            f"{TEST_MACHINE}::test_many_small_steps_are_not_held_for_a_full_load",
        ),
    ),
    Breakage(
        "barren-workers-kept",
        "More workers that bring nothing are never found out.",
        FOLLOWS,
        (
            Edit(
                f"{AUTOMATIC}/knowledge.py",
                "        if verdict.is_barren:\n            self.barren = verdict\n",
                "        if verdict.is_barren and self.barren is not None:\n            self.barren = verdict\n",
            ),
        ),
        (f"{TEST_MACHINE}::test_workers_that_bring_nothing_are_found_out_undone_and_not_tried_again",),
    ),
    Breakage(
        "trial-by-small-steps",
        "A change is judged by small steps, which more workers make slower.",
        FOLLOWS,
        (
            Edit(
                f"{AUTOMATIC}/knowledge.py",
                "if not tells and not (trial.was_saturated and self.is_saturated):",
                "if not tells and not (trial.was_saturated or rows > 0):",
            ),
        ),
        (f"{TEST_MACHINE}::test_the_machine_rests_after_a_change_by_hand_and_takes_its_number",),
    ),
    Breakage(
        "no-rest-after-a-change",
        "The next change is asked for as soon as the last one has ended.",
        FOLLOWS,
        (Edit(f"{AUTOMATIC}/machine.py", "REST_FACTOR * self.known.took_s", "0.0 * self.known.took_s"),),
        (f"{TEST_MACHINE}::test_the_machine_rests_after_a_change_by_hand_and_takes_its_number",),
    ),
    Breakage(
        "window-of-a-moment",
        "Fewer workers are taken as soon as they would be enough at this moment.",
        FOLLOWS,
        (
            Edit(
                f"{AUTOMATIC}/choice.py",
                "if seen_s < COVERED_PART * window_s or known.now - known.settled_at < window_s:",
                "if seen_s > window_s and known.now - known.settled_at < window_s:",
            ),
        ),
        (
            f"{TEST_MACHINE}::test_idle_workers_leave_after_the_window_and_never_below_the_least",
            f"{TEST_MACHINE}::test_a_pause_of_the_load_shorter_than_the_window_costs_no_change",
        ),
    ),
    Breakage(
        "refusals-forgotten",
        "A number of workers that was refused is asked for again with each sample.",
        BOUNDED,
        (Edit(f"{AUTOMATIC}/machine.py", "if self.known.now < each.until}", "if self.known.now > each.until}"),),
        (
            f"{TEST_MACHINE}::test_a_number_of_workers_that_was_refused_is_not_asked_for_again_at_once",
            f"{TEST_MACHINE}::test_a_change_that_could_not_begin_counts_as_refused",
        ),
    ),
    Breakage(
        "load-recorded-for-ever",
        "The file of the recorded load grows as long as the service runs.",
        BOUNDED,
        (
            Edit(
                f"{AUTOMATIC}/load_file.py",
                "if self._lines >= LINES_MAX + LINES_SPARE:",
                "if self._lines < 0 < LINES_MAX + LINES_SPARE:",
            ),
        ),
        (f"{TESTS}/test_load_file.py::test_the_file_is_bounded",),
    ),
    Breakage(
        "bounds-forgotten-by-a-refresh",
        "A full refresh takes the choice of the number of workers away from Stepwell.",
        "workers follow the load",
        (Edit("io_kafka/step_log/state.py", "            auto=self.auto,\n", "            auto=None,\n"),),
        (f"{TEST_LOG}::test_the_bounds_of_the_number_of_workers_are_those_of_the_last_record_also_after_a_refresh",),
    ),
)
