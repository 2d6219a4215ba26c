"""Mistakes in what a transition writes, keeps and removes between the intent and its end."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

STEPPING, OBSTACLES = "coordinator/stepping/stepping.py", "coordinator/transition/switch_obstacles.py"
TRANSITIONS_ = "coordinator/transition/transitions.py"
MACHINE, FILL_CIRCUITS = "coordinator/transition/machine.py", "engine/analysis/fill_circuits.py"
TEST_OBSTACLES, TEST_MACHINE = (
    "tests/coordinator/transition/test_switch_obstacles.py",
    "tests/coordinator/transition/test_machine.py",
)
TEST_FILLING, TEST_WORLDS = "tests/engine/test_filling.py", "tests/simulator/test_scenarios.py"
TRANSITION_FOUND, TEST_TRANSITIONS = (
    "coordinator/starting/project/transition_found.py",
    "tests/end_to_end/test_transitions.py",
)
TEST_AGAIN = "tests/end_to_end/test_reading_again.py"
FILLED, RECORDED = "filled state is that of a fresh run", "a step runs what the log says"
APPLIED = "a change that is asked for is applied, or refused"
ONCE, A_RUNS_ON = "exactly once", "new nodes cannot hurt the revision in force"

TRANSITION_PASSAGES = (
    Breakage(
        "position-not-in-the-division",
        "How far a step fills is what the coordinator knows now, so a replay gives new nodes nothing.",
        FILLED,
        (
            Edit(
                STEPPING,
                "            filled=_feed_positions(program),\n",
                "            filled=_feed_positions(program)\n"
                "            if record.step >= self._writer.state.steps\n"
                "            else (self._writer.state.filled,) * 2,\n",
            ),
        ),
        (f"{TEST_WORLDS}::test_the_steps_of_a_transition_are_replayed",),
    ),
    Breakage(
        "a-switch-with-a-division-pending",
        "The switch does not wait for the steps that are divided.",
        "1 division first",
        (
            Edit(
                MACHINE,
                "return self._of_filled(log, phase) if is_undivided else None",
                "return self._of_filled(log, phase)",
            ),
        ),
        (f"{TEST_MACHINE}::test_nothing_is_due_in_a_replay_or_while_a_step_is_divided",),
    ),
    Breakage(
        "young-output-written-early",
        "The outputs of new views write while they are filled.",
        "nothing of the next revision is written before the switch",
        (
            Edit(
                "engine/analysis/filling_circuit.py",
                "if comparing.found.is_young(index) and not isinstance(comparing.now.nodes[index], Output):",
                "if comparing.found.is_young(index):",
            ),
        ),
        (f"{TEST_WORLDS}::test_a_view_and_an_input_come_and_go",),
        tells=r"releases \('tallies',\)",  # of two outputs with one name
    ),
    Breakage(
        "dead-letters-twice",
        "A malformed message that is read again gets a second dead letter.",
        ONCE,
        (
            Edit(
                "engine/run/sources.py",
                "    if is_read_again(table.handle):  # the revision in force has counted it, and has written its letter\n",
                "    if not table.handle:\n",
            ),
            Edit(
                "coordinator/stepping/new_nodes.py",
                '"skip" if each.on_error == "dead-letter" else each.on_error for each in again',
                "each.on_error for each in again",
            ),
        ),
        (f"{TEST_AGAIN}::test_a_message_that_is_read_again_gets_no_second_dead_letter",),
    ),
    Breakage(
        "twins-are-kept",
        "What only helps a transition stays in the state after the switch.",
        "nothing is left of a transition",
        (
            Edit(
                FILL_CIRCUITS,
                "gone=_numbers_not_kept(found, before, now) | comparing.helpers",
                "gone=_numbers_not_kept(found, before, now)",
            ),
        ),
        (f"{TEST_FILLING}::test_numbers_name_one_node",),
    ),
    Breakage(
        "tables-in-force-are-cleared",
        "After the switch the tables of new nodes are removed, and after an abort those of the revision in force.",
        FILLED,
        (
            Edit(
                TRANSITIONS_,
                "facts.gone if is_switched else facts.young",
                "facts.young if is_switched else facts.gone",
            ),
        ),
        (f"{TEST_WORLDS}::test_an_undisturbed_world_ends_well_and_visits_every_point",),
    ),
    Breakage(
        "switched-although-rows-are-taken-back",
        "The switch does not wait although an append output would have to take rows back.",
        "an append topic is never retracted",
        (
            Edit(
                OBSTACLES,
                "            if each.appends and size.gone:\n",
                "            if each.appends and size.gone < 0:\n",
            ),
        ),
        (f"{TEST_OBSTACLES}::test_rows_of_an_append_output_are_never_taken_back",),
    ),
    Breakage(
        "withheld-rows-are-lost",
        "The switch drops an output that keeps rows, because its view is in error, and another node writes its topic.",
        "no silence",
        (
            Edit(
                OBSTACLES,
                "if number not in stay and (topics[handle] in written or handle in stay.values()):",
                "if number not in stay and topics[handle] not in written and handle in stay.values():",
            ),
        ),
        (f"{TEST_OBSTACLES}::test_what_an_output_has_kept_is_not_lost_with_the_output",),
    ),
    Breakage(
        "kept-rows-lie-elsewhere",
        "The switch releases what an output has kept on workers that the rows which take it back do not reach.",
        "exactly once",
        (
            Edit(
                OBSTACLES,
                "if number in stay and _place_of(before.numbered, number) != _place_of(now.numbered, number):",
                "if number in stay and (_place_of(before.numbered, number) is None) != (_place_of(now.numbered, number) is None):",
            ),
        ),
        (f"{TEST_OBSTACLES}::test_what_an_output_has_kept_is_where_its_rows_come",),
    ),
    Breakage(
        "plan-document-not-compared",
        "Another document is taken for the one that the step log names.",
        RECORDED,
        (
            Edit(
                "io_kafka/step_log/plans.py",
                "return text if digest_of(text) == digest else None",
                "return text",
            ),
        ),
        ("tests/io_kafka/test_plans.py::test_what_is_not_the_document_is_none",),
    ),
    Breakage(
        "files-read-within-a-transition",
        "A run that finds a transition goes on with the project of the files.",
        RECORDED,
        (
            Edit(
                "coordinator/starting/project/beginning.py",
                "    if to_come is not None:\n",
                "    if phase is not None:\n        return Beginning(marked)\n    if to_come is not None:\n",
            ),
        ),
        (f"{TEST_WORLDS}::test_a_run_goes_on_with_a_transition_whatever_is_in_the_files",),
        tells="a transition to revision 2 is under way",
    ),
    Breakage(
        "another-change-dropped",
        "`stepwell run --apply` drops the change in the files in silence, because a transition to another project is under way.",
        APPLIED,
        (Edit(TRANSITION_FOUND, '        if on_change == "apply":\n', "        if on_change is None:\n"),),
        (f"{TEST_TRANSITIONS}::test_another_change_is_refused_at_a_start_that_finds_a_transition",),
    ),
    Breakage(
        "choices-of-another-run",
        "`stepwell run --apply` with choices goes on with a transition that was begun without them.",
        APPLIED,
        (
            Edit(
                TRANSITION_FOUND,
                "    if not is_as_chosen(chosen, choices, files.inputs):",
                "    if is_as_chosen(chosen, choices, files.inputs) is None:",
            ),
        ),
        (f"{TEST_TRANSITIONS}::test_another_change_is_refused_at_a_start_that_finds_a_transition",),
    ),
    Breakage(
        "own-transition-refused",
        "A service that ends in the middle of its own transition cannot be started again with the same choices in another order.",
        APPLIED,
        (Edit(TRANSITION_FOUND, "gradual=choices.gradual).normal()", "gradual=choices.gradual)"),),
        ("tests/coordinator/starting/test_transition_found.py::test_the_choices_of_a_transition_are_known_again",),
    ),
    Breakage(
        "asked-before-the-end",
        "A start that finds a transition to be settled asks for the next one at once, which is refused.",
        APPLIED,
        (
            Edit(
                "coordinator/running/requests_in_force.py",
                "if self.to_apply is not None and not self._transitions.is_under_way:",
                "if self.to_apply is not None:",
            ),
        ),
        (f"{TEST_TRANSITIONS}::test_a_start_applies_another_change_when_the_transition_that_it_finds_is_settled",),
        tells="is under way",
    ),
    Breakage(
        "held-and-nothing-said",
        "`run --available-now --apply` ends with exit code 0 and says nothing of the transition that is held.",
        APPLIED,
        (Edit("stepwell/commands/run.py", '["phase"] in WAITING', '["phase"] == "detached"'),),
        ("tests/stepwell/test_help.py::test_the_last_lines_of_a_run_say_what_is_left_of_a_transition",),
    ),
    Breakage(
        "counted-for-ever-after-an-abort",
        "After an abort a project that computes the same is refused, because error rows of nodes that are gone were counted.",
        "a project that computes the same continues its state",
        (
            Edit(
                "coordinator/starting/project/same_project.py",
                "{*state.counted, *state.nodes_in_error} & {*revision.document.numbers}",
                "{*state.counted, *state.nodes_in_error}",
            ),
        ),
        (f"{TEST_WORLDS}::test_a_project_that_looks_different_goes_on_after_an_abort",),
        tells="CircuitChanged",
    ),
    Breakage(
        "expired-input-of-a-switch-ends-all-runs",
        "Input that only the next project reads is gone in the step of the switch, and each run ends there.",
        A_RUNS_ON,
        (
            Edit(
                "coordinator/transition/step_faults.py",
                "(DataError, *CANNOT_READ)",
                "(DataError,)",
            ),
        ),
        (f"{TEST_WORLDS}::test_a_topic_that_only_the_next_project_reads_expires_and_the_project_in_force_goes_on",),
        tells="OffsetGone",
    ),
    Breakage(
        "switches-that-cannot-run-stay",
        "A switch whose next project has lost a topic is not taken back at a start, so no start can ever go on.",
        "a crash at any instruction leaves the old project or the new one",
        (
            Edit(
                "coordinator/pipeline.py",
                "if fault is None or not self._transitions.turn_after_fault(fault):",
                "if True:",
            ),
        ),
        (
            "tests/end_to_end/test_reading_again.py::test_a_topic_that_goes_between_the_switch_and_its_step_leaves_the_old_project",
        ),
        tells="sales",
    ),
)
