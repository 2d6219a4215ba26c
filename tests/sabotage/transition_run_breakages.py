"""Mistakes in how a run goes from one revision to the next."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CORE, LOOP, MACHINE = "coordinator/core.py", "coordinator/loop.py", "coordinator/transition/machine.py"
STEPPING, VIEWS = "coordinator/stepping/stepping.py", "coordinator/stepping/views_in_error.py"
INPUTS, PROGRAM = "coordinator/stepping/inputs.py", "engine/run/program_document.py"
TEST_MACHINE = "tests/coordinator/transition/test_machine.py"
TEST_FAULTS, TEST_RUNS = "tests/end_to_end/test_transition_faults.py", "tests/end_to_end/test_transitions.py"
TEST_AWAY = (
    "tests/simulator/test_scenarios.py::test_a_broker_that_is_away_for_less_than_a_minute_costs_a_transition_nothing"
)
RECORDED, BATCH = "a step runs what the log says", "the batch answer"

LOST, TEST_LOST = "coordinator/starting/topics/lost_on_the_way.py", "tests/end_to_end/test_lost_topics.py"

TRANSITION_RUNS = (
    Breakage(
        "another-topic-in-a-divided-step",
        "A project stands still although a divided step reads a lost topic, so it reads what another topic of that name has there.",
        "no message of a lost topic is read",
        (
            Edit(
                LOST,
                "if not _has_begun(spec, log) or any(_reads(record, lost) for record in replayed):",
                "if not _has_begun(spec, log):",
            ),
        ),
        (f"{TEST_LOST}::test_a_topic_that_divided_steps_need_stops_the_start[True-b-step.begun]",),
    ),
    Breakage(
        "ends-of-a-project-that-stands-still",
        "A run that ends with its input takes the ends of a project that stands still for those of the next one, so that it reads nothing.",
        BATCH,
        (
            Edit(
                "coordinator/stepping/input_topics.py",
                "        if self._stands_still:\n            return {}\n",
                "        if self._stands_still:\n            return self.next_offsets(log)\n",
            ),
        ),
        (f"{TEST_LOST}::test_the_table_of_an_input_that_is_gone_can_be_dropped[False-1]",),
    ),
    Breakage(
        "given-ahead-of-a-program",
        "A step is given before the workers run its program, because the step before it is not settled yet.",
        RECORDED,
        (
            Edit(
                CORE,
                "if log.program_key(self.step + 1) != self.program or self.is_transition_due(log):",
                "if self.is_transition_due(log):",
            ),
        ),
        (f"{TEST_MACHINE}::test_no_step_is_given_ahead_of_another_program",),
    ),
    Breakage(
        "cleared-before-adopted",
        "After an abort tables are cleared, and the end is recorded, before the workers run the former program.",
        RECORDED,
        (
            Edit(
                CORE,
                "        if log.program_key(self.step) != self.program:\n            return ChangeProgram(self.step)\n"
                "        return self.transition.next(log, self._at_boundary(log))\n",
                "        due = self.transition.next(log, self._at_boundary(log))\n        if due is not None:\n            return due\n"
                "        return ChangeProgram(self.step) if log.program_key(self.step) != self.program else None\n",
            ),
        ),
        (f"{TEST_MACHINE}::test_after_an_abort_the_former_program_is_adopted_before_anything_is_cleared",),
    ),
    Breakage(
        "ended-before-a-checkpoint-is-without-them",
        "The end of a transition is recorded before a checkpoint is without the tables of nodes that are gone.",
        "no number names rows of another node",
        (
            Edit(
                MACHINE,
                'self.checkpoint = "needed" if is_last else None',
                'self.checkpoint = None if is_last else "needed"',
            ),
        ),
        (f"{TEST_MACHINE}::test_a_transition_goes_from_the_intent_to_its_end",),
    ),
    Breakage(
        "known-after-a-switch",
        "What is known of a filling counts in the next phase too, so that a transition goes on with measures of before.",
        "1 division first",
        (
            Edit(
                MACHINE,
                "        self.tell(Measured.switched)\n",
                "",
            ),
        ),
        (f"{TEST_MACHINE}::test_a_transition_goes_from_the_intent_to_its_end",),
    ),
    Breakage(
        "asked-before-a-recovery",
        "A switch or an abort that was asked for is forgotten when a worker is lost.",
        "a command does what it says",
        (Edit(MACHINE, "Transition(self.asked, self.known", "Transition(NO_REQUESTS, self.known"),),
        (f"{TEST_MACHINE}::test_a_recovery_keeps_what_users_have_asked_for_and_nothing_that_was_known",),
    ),
    Breakage(
        "filled-over-dirty-tables",
        "A transition that is resumed is filled while tables of the attempt before are there.",
        BATCH,
        (
            Edit(
                MACHINE,
                'return LogTurn("resume") if isinstance(self.known, AllCleared) else ClearUnusedTables()',
                'return LogTurn("resume")',
            ),
        ),
        (f"{TEST_MACHINE}::test_a_transition_that_is_resumed_is_filled_over_cleared_tables",),
    ),
    Breakage(
        "portions-without-a-least-size",
        "The fixed cost of a portion counts as that of its positions, so the portions shrink for ever.",
        "filling comes to an end",
        (
            Edit(
                "coordinator/transition/portions.py",
                "self._size(self.of_positions, next(self._swings), rows, self.level // PARTS_MAX, most)",
                "self._size(self.of_positions, next(self._swings), rows, 1, most)",
            ),
        ),
        ("tests/coordinator/transition/test_portions.py::test_portions_come_to_an_end_whatever_a_range_costs",),
    ),
    Breakage(
        "levels-without-feeds-in-portions",
        "A level in which nothing is fed is passed in as many portions as any other, so a change that costs nothing takes as long.",
        "filling comes to an end",
        (Edit("coordinator/transition/portions.py", "if not self._is_fed(position):", "if False:"),),
        ("tests/coordinator/transition/test_portions.py::test_a_level_without_feeds_is_passed_in_one_portion",),
    ),
    Breakage(
        "all-messages-are-those-of-the-switch",
        "What new input has changed in other outputs is told as what they received because of the switch.",
        "what users are told",
        (
            Edit(
                "coordinator/transition/report.py",
                "sum(part.messages for part in log.step_records[step].outputs if part.handle in handles)",
                "sum(part.messages for part in log.step_records[step].outputs)",
            ),
        ),
        ("tests/coordinator/transition/test_outputs_of_switch.py::test_only_messages_of_concerned_outputs_are_told",),
    ),
    Breakage(
        "errors-of-given-up-nodes-compared",
        "A replay after an abort misses the error rows of new nodes, which nobody computes any more.",
        "4 replay",
        (
            Edit(
                STEPPING,
                "without_absent_nodes(numbered, log.step_records[step], revision_since)",
                "log.step_records[step]",
            ),
        ),
        (f"{TEST_FAULTS}::test_a_replay_after_an_abort_leaves_the_error_rows_of_new_nodes_out",),
        tells="after its replay rows are in error at no node",
    ),
    Breakage(
        "released-by-the-next-circuit",
        "At a switch an output is not released if nothing in the next circuit says why it was withheld.",
        BATCH,
        (
            Edit(
                VIEWS, "outputs_by_number(before or numbered, log.counted)", "outputs_by_number(numbered, log.counted)"
            ),
        ),
        (f"{TEST_FAULTS}::test_a_corrected_view_is_released_with_what_its_output_has_kept",),
    ),
    Breakage(
        "topics-of-the-document",
        "From the switch on the messages of a source with a pattern are read and belong to no source.",
        BATCH,
        (Edit(PROGRAM, "replace(source, topics=outputs.topics[source.handle])", "source"),),
        (f"{TEST_FAULTS}::test_the_topics_of_a_pattern_are_read_on",),
    ),
    Breakage(
        "started-with-the-former-revision",
        "After a transition new workers are started with the revision with which the run began.",
        RECORDED,
        (
            Edit(
                LOOP,
                "        if record.number != course.start.key.number:\n",
                "        if record.number < course.start.key.number:\n",
            ),
        ),
        (f"{TEST_FAULTS}::test_workers_are_lost_after_the_transition_is_settled",),
    ),
    Breakage(
        "a-switch-waits-for-input",
        "The step of a switch is divided when there is input, which may never come.",
        "a transition comes to an end",
        (Edit(INPUTS, "            or log.revisions.is_to_pass_on(step)\n", ""),),
        (
            "tests/coordinator/stepping/test_inputs.py::test_the_step_of_a_switch_reads_nothing_but_what_it_begins_to_read",
        ),
    ),
    Breakage(
        "filling-waits-for-input",
        "New nodes are filled in steps that have input, and otherwise never.",
        "a transition comes to an end",
        (Edit(INPUTS, "            or self.new_nodes.is_due(log, step)\n", ""),),
        (f"{TEST_RUNS}::test_an_abort_leaves_the_old_project",),
    ),
    Breakage(
        "a-broker-that-restarts-holds-a-switch",
        "What a transition asks of the broker beside the steps has less time than the steps, so a restart of the broker refuses or holds it.",
        "a transition comes to an end",
        (
            Edit(
                "coordinator/transition/transitions.py",
                "Topics(self._files.kafka, timeout_s=AWAY_SECONDS_MAX)",
                "Topics(self._files.kafka)",
            ),
        ),
        (TEST_AWAY,),
    ),
    Breakage(
        "a-broker-that-restarts-ends-a-transition",
        "Workers have less time to read a plan document than to read a step, so a restart of the broker ends a run that changes its project.",
        "a transition comes to an end",
        (
            Edit(
                "io_kafka/clients/reader.py",
                "Topics(self._settings, timeout_s=self._stall_s)",
                "Topics(self._settings)",
            ),
        ),
        (TEST_AWAY,),
    ),
)
