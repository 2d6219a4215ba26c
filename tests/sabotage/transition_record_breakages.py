"""Mistakes in what the step log says of transitions between revisions."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

LOG, VALUE, RULES = (f"io_kafka/step_log/{name}.py" for name in ("state", "value", "rules"))
SNAPSHOTS, RECORDS = "io_kafka/step_log/snapshots.py", "io_kafka/step_log/division_records.py"
REVISION_RULES, REVISION_STATE = "io_kafka/step_log/revision_rules.py", "io_kafka/step_log/revision_state.py"
TEST, TEST_NEXT = "tests/io_kafka/test_revision_rules.py", "tests/end_to_end/test_next_views.py"

TRANSITION_RECORDS = (
    Breakage(
        "switch-beside-input",
        "The step of a switch also reads what waits, so the pause is longer by a step.",
        "a switch is a short pause",
        (
            Edit(
                "coordinator/stepping/inputs.py",
                "division = None if self._reads_nothing_at_switch(log, step) else",
                "division =",
            ),
        ),
        (
            "tests/coordinator/stepping/test_inputs.py::test_the_step_of_a_switch_reads_nothing_but_what_it_begins_to_read",
        ),
    ),
    Breakage(
        "a-pause-ends-with-its-run",
        "A transition that a user has paused goes on at the next start, and its switch is made.",
        "nothing that cannot be taken back without the user",
        (
            Edit(
                "io_kafka/step_log/revision_state.py",
                'return self._with(phase=self.phase.model_copy(update={"is_paused": record.is_paused}))',
                "return self",
            ),
            Edit(REVISION_RULES, "    if phase.is_paused == record.is_paused:\n", "    if False:\n"),
        ),
        ("tests/simulator/test_scenarios.py::test_a_pause_outlives_its_run[resume]",),
    ),
    Breakage(
        "a-switch-while-paused",
        "A transition that is paused makes the switch.",
        "nothing that cannot be taken back without the user",
        (
            Edit(
                "coordinator/transition/machine.py",
                "if phase.is_paused or (is_held and (obstacles or not self.asked.is_switch)):",
                "if is_held and (obstacles or not self.asked.is_switch):",
            ),
        ),
        ("tests/coordinator/transition/test_machine.py::test_nothing_is_due_in_a_replay_or_while_a_step_is_divided",),
    ),
    Breakage(
        "a-second-transition",
        "A transition begins while another one is under way or is not settled, and takes its numbers of nodes.",
        "1 division first",
        (
            Edit(
                REVISION_RULES,
                "        return reason\n    if ground.",
                "        assert reason\n    if ground.",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "a-transition-from-nothing",
        "A transition begins after a full refresh, before the new state belongs to a revision.",
        "1 division first",
        (
            Edit(
                REVISION_RULES,
                "if ground.revisions.in_force is None or not ground.has_layout:",
                "if ground.revisions.in_force is None:",
            ),
        ),
        (
            f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",
            f"{TEST}::test_a_full_refresh_ends_a_transition",
        ),
    ),
    Breakage(
        "a-circuit-exchanged-under-a-step",
        "A transition begins, or switches, while a step of the former circuit is not written.",
        "2 determinism",
        (
            Edit(
                REVISION_RULES,
                "return None if ground.is_drained else",
                "return None if step >= 0 else",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "a-position-that-goes-back",
        "A step fills less than the one before it, so rows reach new nodes twice.",
        "filled state is that of a fresh run",
        (
            Edit(
                REVISION_RULES,
                "if not before <= filled <= passage.intent.whole:",
                "if not 0 <= filled <= passage.intent.whole:",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "filled-beyond-the-whole",
        "A step fills up to a position that the transition does not have.",
        "9 bounded",
        (
            Edit(
                REVISION_RULES,
                "if not before <= filled <= passage.intent.whole:",
                "if not before <= filled:",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "a-step-that-does-not-say-what-it-fills",
        "A division of a transition does not say how far it fills, so a replay cannot fill the same.",
        "2 determinism",
        (
            Edit(
                REVISION_RULES,
                '    if filled is None:\n        return f"of step {step}: it does not say how far it fills',
                "    if filled is None:\n        return None\n    if filled < 0:\n"
                '        return f"of step {step}: it does not say how far it fills',
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "filled-without-a-transition",
        "A division says how far it fills, although its step fills nothing.",
        "1 division first",
        (
            Edit(
                REVISION_RULES,
                'return None if filled is None else f"of step',
                'return None if step >= 0 else f"of step',
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "filled-anew-by-another-policy",
        "A division that is recorded again forgets how far its step fills.",
        "2 determinism",
        (Edit(RECORDS, '"topics": (), **policy', '"topics": (), "filled": None, **policy'),),
        (f"{TEST}::test_a_division_that_is_recorded_again_keeps_how_far_it_fills",),
        tells="step 2",
    ),
    Breakage(
        "a-switch-before-all-is-filled",
        "The next revision comes into force while some rows have not reached its nodes.",
        "filled state is that of a fresh run",
        (
            Edit(
                REVISION_RULES,
                "if ground.filled != phase.intent.whole:",
                "if ground.filled > phase.intent.whole:",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "a-switch-to-another-topic",
        "The next revision takes a topic for one that it has known, although it was made again.",
        "no silence",
        (Edit(REVISION_RULES, "why_not_topic(topic, ground.topics)", "why_not_topic(topic, {})"),),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "an-abort-of-what-is-in-force",
        "A transition is aborted after its switch has written output.",
        "1 division first",
        (
            Edit(
                REVISION_RULES,
                "is_possible = isinstance(phase, Filling | Detached | Switching)",
                "is_possible = phase is not None",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "resumed-without-a-detachment",
        "A transition that is filling begins to fill from nothing again, over what it has filled.",
        "filled state is that of a fresh run",
        (
            Edit(
                REVISION_RULES,
                "            is_possible = isinstance(phase, Detached)",
                "            is_possible = isinstance(phase, Detached | Filling)",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "detached-by-another-step",
        "A transition is detached because of a step that fills nothing.",
        "no silence",
        (
            Edit(
                REVISION_RULES,
                "if not first <= record.step < ground.division_next:",
                "if record.step > ground.division_next:",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "settled-before-tables-are-gone",
        "A transition is settled by a checkpoint that still has the tables, so their numbers are given to other nodes.",
        "1 division first",
        (Edit(REVISION_RULES, "if record.step < phase.since:", "if record.step < 0:"),),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "settled-without-a-checkpoint",
        "A transition is settled by a step that no checkpoint has, so a recovery brings the tables back.",
        "6 two versions",
        (
            Edit(
                REVISION_RULES,
                "if record.step != ground.checkpoint_step:",
                "if ground.checkpoint_step is None:",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "continued-during-a-transition",
        "A changed project continues the state while a transition is under way, and its tables stay.",
        "1 division first",
        (
            Edit(
                REVISION_RULES,
                "        return reason\n    if record.",
                "        assert reason\n    if record.",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "an-aborted-transition-is-replayed",
        "After an abort, a replay fills the nodes of the transition again.",
        "2 determinism",
        (
            Edit(
                REVISION_STATE,
                "return self._with(phase=clearing, passages=others, in_force=before, nodes_gone=division_next)",
                "return self._with(phase=clearing, in_force=before, nodes_gone=division_next)",
            ),
        ),
        (f"{TEST}::test_after_an_abort_the_steps_of_the_transition_run_the_former_revision_alone",),
        tells="it does not say how far it fills",
    ),
    Breakage(
        "a-detached-transition-is-replayed",
        "After a detachment, a replay runs the node that has failed once more.",
        "one view does not stop the others",
        (
            Edit(
                REVISION_STATE,
                "return self._with(phase=detached, passages=others, nodes_gone=division_next)",
                "return self._with(phase=detached, nodes_gone=division_next)",
            ),
        ),
        (f"{TEST}::test_a_transition_that_is_detached_fills_again_from_nothing",),
    ),
    Breakage(
        "resumed-where-it-was",
        "A transition that is resumed goes on at its position, although its tables were cleared.",
        "filled state is that of a fresh run",
        (
            Edit(
                VALUE,
                "return 0 if step == passage.first else self.filled_after(step - 1)",
                "return self.filled_after(step - 1)",
            ),
        ),
        (f"{TEST}::test_a_transition_that_is_detached_fills_again_from_nothing",),
        tells="which is not between",
    ),
    Breakage(
        "the-next-revision-stays-in-force",
        "A switch that was taken back leaves the next revision in force.",
        "2 determinism",
        (
            Edit(
                REVISION_STATE,
                "return self._with(phase=filling, passages=(*others, ready), in_force=before)",
                "return self._with(phase=filling, passages=(*others, ready))",
            ),
        ),
        (f"{TEST}::test_the_revision_in_force_is_the_next_one_from_the_switch_on",),
    ),
    Breakage(
        "the-former-revision-until-the-output",
        "The former revision is in force until the output of the switch is written, so a crash before it divides its step for the wrong one.",
        "2 determinism",
        (
            Edit(
                REVISION_STATE,
                "            in_force=revision,\n",
                "            in_force=before if revision.step else revision,\n",
            ),
        ),
        (f"{TEST}::test_the_revision_in_force_is_the_next_one_from_the_switch_on",),
    ),
    Breakage(
        "a-void-step-of-a-switch-stays",
        "After a switch was taken back, its step is still divided.",
        "1 division first",
        (
            Edit(
                LOG,
                "_without_divisions_from(step), counted",
                "_without_divisions_from(step), divisions=self.divisions, counted",
            ),
        ),
        (f"{TEST}::test_a_switch_that_is_taken_back_leaves_all_as_it_was",),
    ),
    Breakage(
        "topics-of-a-switch-stay",
        "A topic that only the next revision reads stays known after the switch was taken back, and cannot be made again.",
        "no silence",
        (
            Edit(
                LOG,
                "_without_topics((self.topics.keys() | read_again) - set(phase.known))",
                "_without_topics(read_again - self.topics.keys())",
            ),
        ),
        (f"{TEST}::test_a_switch_that_is_taken_back_leaves_all_as_it_was",),
    ),
    Breakage(
        "counted-as-in-a-switch",
        "After a switch was taken back, the error rows of the nodes of the former revision are counted no more.",
        "2 determinism",
        (Edit(LOG, "counted=phase.counted, idle=()", "idle=()"),),
        (f"{TEST}::test_a_switch_that_is_taken_back_leaves_all_as_it_was",),
    ),
    Breakage(
        "growth-hidden-by-a-switch",
        "A topic that has grown before a switch is taken for one that had as many partitions from the beginning.",
        "no silence",
        (
            Edit(
                LOG,
                "**{topic.topic: topic for topic in record.topics if topic.topic not in self.topics}",
                "**{topic.topic: topic for topic in record.topics}",
            ),
        ),
        (f"{TEST}::test_a_topic_that_has_grown_before_the_switch_is_found_by_its_division",),
    ),
    Breakage(
        "switched-for-ever",
        "The log does not notice that the step of a switch is written, so the transition can still be taken back.",
        "2 determinism",
        (
            Edit(
                LOG,
                "        return replace(now, revisions=self.revisions.with_passed_on(record.step, drained), again={})",
                "        return replace(now, again={})",
            ),
        ),
        (f"{TEST}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "the-switch-is-replayed-as-filling",
        "A replay of the first step of the next revision fills, in place of passing on what differs.",
        "2 determinism",
        (
            Edit(
                REVISION_STATE,
                "return self.first <= step and (self.switch is None or step < self.switch)",
                "return self.first <= step and (self.switch is None or step <= self.switch)",
            ),
        ),
        (f"{TEST}::test_each_step_runs_what_the_log_says",),
        tells="does not say how far it fills",
    ),
    Breakage(
        "steps-before-a-switch-run-the-next-revision",
        "A replay of steps between two transitions runs the revision that is in force now.",
        "2 determinism",
        (
            Edit(
                REVISION_STATE,
                "                return PresentProgram(passage.before)\n",
                "                return PresentProgram(self.in_force)\n",
            ),
        ),
        (f"{TEST}::test_each_step_runs_what_the_log_says",),
    ),
    Breakage(
        "a-passage-forgotten-early",
        "The steps of a transition are forgotten while its switch can still be replayed.",
        "2 determinism",
        (
            Edit(
                REVISION_STATE,
                "p.end is None or p.end > step)\n        return self",
                "p.end is None or p.end > step + 1)\n        return self",
            ),
        ),
        (f"{TEST}::test_steps_that_are_forgotten_take_along_what_only_they_need",),
    ),
    Breakage(
        "a-snapshot-without-the-position",
        "A log that begins with a snapshot has forgotten how far new nodes were filled.",
        "filled state is that of a fresh run",
        (Edit(SNAPSHOTS, "log.filled_after(log.steps - 1))", "0)"),),
        (f"{TEST}::test_a_log_that_begins_with_a_snapshot_runs_the_same",),
        tells="which is not between|up to 0, and not up to|contradicts",
    ),
    Breakage(
        "forgotten-with-the-position",
        "The position of a transition is lost when the steps before it are forgotten.",
        "filled state is that of a fresh run",
        (
            Edit(
                LOG,
                "self.revisions.forgotten_below(first, self.filled_after(first - 1))",
                "self.revisions.forgotten_below(first, 0)",
            ),
        ),
        (f"{TEST}::test_steps_that_are_forgotten_take_along_what_only_they_need",),
    ),
    Breakage(
        "new-nodes-cost-a-recovery",
        "Error rows of new nodes cannot be counted from their first step on.",
        "one view does not stop the others",
        (
            Edit(
                RULES,
                "if not now <= before and not log.revisions.has_new_nodes_at(record.step):",
                "if not now <= before:",
            ),
        ),
        (f"{TEST}::test_new_nodes_are_counted_from_their_first_step_on",),
        tells="counts the error rows",
    ),
    Breakage(
        "error-rows-without-a-node",
        "Error rows of nodes that a transition has removed have to be counted for ever.",
        "one view does not stop the others",
        (Edit(REVISION_STATE, "            return step == self.nodes_gone\n", "            return False\n"),),
        (f"{TEST}::test_error_rows_end_with_their_nodes",),
        tells="does not count the error rows",
    ),
    Breakage(
        "a-refresh-goes-on-with-a-transition",
        "A full refresh keeps the transition that was under way, although all tables are gone.",
        "1 division first",
        (
            Edit(
                LOG,
                "revisions=RevisionState(root=self.revisions.root, in_force=self.revision),",
                "revisions=self.revisions,",
            ),
        ),
        (f"{TEST}::test_a_full_refresh_ends_a_transition",),
    ),
    Breakage(
        "recovery-forgets-that-an-input-has-grown",
        "A run that has lost a worker names the partitions in the log that it found at its start.",
        "1 division first",
        (
            Edit(
                "coordinator/stepping/offsets.py",
                "max(i.partitions, known.get(i.topic, i).partitions)",
                "i.partitions",
            ),
        ),
        (
            "tests/coordinator/stepping/test_inputs.py::test_an_input_topic_has_as_many_partitions_as_a_division_has_named",
        ),
    ),
    Breakage(
        "abort-waits-for-the-end-of-a-pause",
        "A transition is not taken back while the run is paused.",
        "1 division first",
        (Edit("coordinator/core.py", "        return aborting or Wait()", "        return Wait()"),),
        (
            "tests/coordinator/transition/test_machine.py::"
            "test_an_abort_needs_no_step_so_it_goes_on_while_the_run_is_paused",
        ),
    ),
    Breakage(
        "stop-loses-an-abort",
        "A run that is asked to stop forgets that it has accepted to take the transition back, and the next run switches.",
        "1 division first",
        (
            Edit(
                "coordinator/core.py",
                "return self._pending_abort(log) or self._stop_action(log)",
                "return self._stop_action(log)",
            ),
        ),
        ("tests/coordinator/transition/test_machine.py::test_a_stop_loses_no_abort_and_begins_nothing",),
    ),
    Breakage(
        "transition-accepted-by-a-run-that-stops",
        "A run that is asked to stop accepts a transition, which it then forgets.",
        "1 division first",
        (
            Edit(
                "coordinator/running/requests_in_force.py",
                "                if core.stopping:\n                    raise stopping()\n",
                "",
            ),
        ),
        ("tests/simulator/test_scenarios.py::test_a_transition_is_refused_once_the_service_was_asked_to_stop",),
    ),
    Breakage(
        "differences-of-the-filling-before",
        "A transition that is filled again is shown with the differences that were measured before.",
        "what users are told",
        (
            Edit(
                "coordinator/transition/machine.py",
                'self.reset_to(NoFindings(), "turned")',
                'self.reset_to(NoFindings(self.differences), "turned")',
            ),
        ),
        (
            "tests/coordinator/transition/test_machine.py::test_what_was_measured_is_seen_until_it_is_measured_again_or_the_transition_turns",
        ),
    ),
    Breakage(
        "intent-before-workers-have-the-documents",
        "The intent is recorded before the workers have read the programs, and the steps wait for that.",
        "no step waits",
        (
            Edit(
                "coordinator/transition/preparation.py",
                "if crew.programs.poll_prefetch():",
                "if crew.programs.poll_prefetch() or True:",
            ),
        ),
        (
            "tests/coordinator/transition/test_preparation.py::test_steps_go_on_until_all_workers_have_read_the_documents",
        ),
    ),
    Breakage(
        "partition-that-began-meanwhile-forgotten",
        "A partition that the pipeline began to read after the transition was planned is never read again.",
        "the batch answer",
        (
            Edit(
                "coordinator/transition/reread_starts.py",
                "sorted({**since, **self.starts}.items())",
                "sorted(self.starts.items())",
            ),
        ),
        (
            "tests/coordinator/transition/test_preparation.py::test_a_partition_that_began_after_the_plan_was_made_is_read_again",
        ),
    ),
    Breakage(
        "run-that-ends-before-what-it-was-to-apply",
        "A run that ends with its input has nothing more to read while a project is prepared, and so does not fill it.",
        "a transition ends",
        (
            Edit(
                "coordinator/core.py",
                "        self.exhausted = not self.goal.divides_input  # it may have something to do without input, or other input\n",
                "",
            ),
        ),
        ("tests/end_to_end/test_transitions.py::test_a_start_applies_the_files_and_ends_with_what_is_there",),
    ),
    Breakage(
        "new-workers-without-the-documents",
        "After a loss, a transition waits for ever for what the lost workers were to read.",
        "a transition ends",
        (
            Edit(
                "coordinator/transition/preparation.py",
                "        self._is_prefetching = False\n\n    def advance",
                "        pass\n\n    def advance",
            ),
        ),
        ("tests/coordinator/transition/test_preparation.py::test_new_workers_are_told_again",),
    ),
    Breakage(
        "transition-without-room",
        "A transition begins on a disk that has no room for its new nodes.",
        "9 bounded",
        (
            Edit(
                "coordinator/transition/disk_space.py",
                "if (here := int(needed * share)) > free:",
                "if (here := 0) > free:",
            ),
        ),
        (
            "tests/coordinator/transition/test_disk_space.py::test_what_fills_has_to_fit_on_each_host",
            "tests/end_to_end/test_full_disk.py::test_a_transition_needs_room_and_goes_on_when_there_is_some",
        ),
    ),
    Breakage(
        "next-view-read-too-early",
        "The views of the next revision are read from a version that was taken before they were filled.",
        "2 determinism",
        (
            Edit(
                "coordinator/checkpoints/upcoming.py",
                "return is_known and self._log.filled_before(step) >= intent.whole and",
                "return is_known and",
            ),
        ),
        (f"{TEST_NEXT}::test_the_views_of_the_next_revision_are_its_batch_answer_before_the_switch",),
    ),
    Breakage(
        "late-view-read-as-the-next-one",
        "A kept view that gets a difference at the switch is read as if it had it.",
        "2 determinism",
        (
            Edit(
                "coordinator/checkpoints/upcoming.py",
                "            if view in late:",
                "            if view in late and not late[view]:",
            ),
        ),
        (f"{TEST_NEXT}::test_the_views_of_the_next_revision_are_its_batch_answer_before_the_switch",),
    ),
    Breakage(
        "next-view-in-error-read",
        "A view of the next revision that is in error is read without its rows in error.",
        "2 determinism",
        (
            Edit(
                "coordinator/checkpoints/upcoming.py",
                "            if view in in_error:",
                "            if view in in_error and step < 0:",
            ),
        ),
        (f"{TEST_NEXT}::test_a_view_of_the_next_revision_that_is_in_error_has_no_answer_and_one_that_is_repaired_has",),
    ),
    Breakage(
        "next-view-hidden-by-a-former-error",
        "The errors of the revision in force hide the views of the next one.",
        "2 determinism",
        (
            Edit(
                "coordinator/checkpoints/view_queries.py",
                "checks_errors=question.next_of is None)",
                "checks_errors=True)",
            ),
        ),
        (f"{TEST_NEXT}::test_a_view_of_the_next_revision_that_is_in_error_has_no_answer_and_one_that_is_repaired_has",),
        tells="it has no answer as of this step",
    ),
    Breakage(
        "transition-begins-while-a-run-finishes",
        "A transition begins while a run finishes the steps of the project before, so the revision of its files cannot follow.",
        "1 division first",
        (
            Edit(
                "coordinator/running/requests_in_force.py",
                "                if core.goal.precedes_revision:\n                    raise still_finishing()\n",
                "",
            ),
        ),
        (
            "tests/simulator/test_scenarios.py::"
            "test_a_transition_is_refused_while_a_run_finishes_the_steps_of_the_project_before",
        ),
        tells="a transition to revision 2 is under way",
    ),
    Breakage(
        "an-abort-ends-with-a-fault",
        "An abort that was accepted is forgotten if the transition is detached before the abort is recorded.",
        "what a user has chosen",
        (Edit("coordinator/transition/machine.py", 'turn="abort" if is_left else None', "turn=None"),),
        (
            "tests/coordinator/transition/test_machine.py::test_an_abort_that_was_accepted_comes_after_a_turn_that_a_fault_has_made",
        ),
    ),
    Breakage(
        "an-abort-waits-for-a-step-that-never-ends",
        "A function of a new view that loops holds the steps of the revision in force, and no abort can be taken.",
        "a transition comes to an end",
        (
            Edit(
                "coordinator/stepping/stuck_filling.py",
                "        if now - self._since > ABORT_SECONDS:\n",
                "        if now < self._since:\n",
            ),
        ),
        (
            "tests/coordinator/stepping/test_stuck_filling.py::test_a_step_is_given_up_as_soon_as_an_abort_has_waited_long_enough",
            "tests/end_to_end/test_transition_faults.py::test_an_abort_ends_a_step_in_which_a_function_never_ends",
        ),
    ),
    Breakage(
        "a-step-that-never-ends-is-given-again",
        "After the workers of a step that never ends were given up, the step is given once more before the abort is recorded.",
        "a transition comes to an end",
        (
            Edit(
                "coordinator/core.py", "is_replaying=self.step + 1 < log.steps)", "is_replaying=self.step < log.steps)"
            ),
        ),
        (
            "tests/coordinator/transition/test_machine.py::test_a_step_that_fills_is_not_given_behind_a_replay_if_an_abort_was_accepted",
        ),
    ),
)
