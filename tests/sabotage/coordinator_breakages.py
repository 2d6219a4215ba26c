"""Mistakes in the coordinator: what is next, the loop, the start and the recovery."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CORE, PIPELINE = "coordinator/core.py", "coordinator/pipeline.py"
COMPLETION, OPENING = "coordinator/checkpoints/completion.py", "coordinator/starting/workers/opening.py"
CHECKPOINTS = "coordinator/checkpoints/machine.py"
USABLE_VERSIONS = "coordinator/starting/workers/usable_versions.py"
REDIVIDING = "coordinator/stepping/redividing.py"
FOUND_DATABASES = "coordinator/starting/workers/found_databases.py"
BINDING, TEST_BINDING = "coordinator/starting/workers/binding.py", "tests/coordinator/starting/test_binding.py"
INPUTS, STEPPING, RECOVERIES = (
    "coordinator/stepping/inputs.py",
    "coordinator/stepping/stepping.py",
    "coordinator/running/recoveries.py",
)
TEST_INPUTS, TEST_RECOVERIES = (
    "tests/coordinator/stepping/test_inputs.py",
    "tests/coordinator/running/test_recoveries.py",
)
POSITIONS, TEST_POSITIONS = "coordinator/starting/topics/positions.py", "tests/coordinator/starting/test_positions.py"
HOLDER, TEST_HOLDER = "stepwell/service/holder.py", "tests/stepwell/test_holder.py"
SAME_PROJECT, SAME_TOPICS = "coordinator/starting/project/same_project.py", "coordinator/starting/topics/same_topics.py"
LEAF_DIFFERENCES, TEST_LEAVES = (
    "coordinator/revisions/leaf_differences.py",
    "tests/coordinator/revisions/test_leaves.py",
)
IDLE_WAIT, DOORBELL = "coordinator/stepping/idle_wait.py", "io_kafka/clients/doorbell.py"
TEST_LOG_STATE = "tests/io_kafka/test_step_log.py"
CHANGED_SOURCES = "tests/end_to_end/test_changed_sources.py"
TEST_CORE, END_TO_END = "tests/coordinator/test_core.py", "tests/end_to_end"

COORDINATOR = (
    Breakage(
        "expired-input-is-told-to-a-replaced-run",
        "A run that was replaced finds its input expired, and tells its user to rebuild the state.",
        "one writer",
        (Edit(PIPELINE, "    StoreFault,\n    OffsetGone,\n    UnknownTopic,\n)", "    StoreFault,\n)"),),
        ("tests/simulator/test_scenarios.py::test_a_run_that_slept_until_its_input_had_expired_ends_as_fenced",),
        tells="OffsetGone",
    ),
    Breakage(
        "an-inbox-is-not-ended",
        "A run ends while a request for other bounds waits, whose user waits for the whole time.",
        "no silence",
        (Edit("coordinator/requests.py", "        self.automatic.end()\n", ""),),
        ("tests/coordinator/test_requests.py::test_nobody_waits_in_an_inbox_of_a_run_that_is_over",),
    ),
    Breakage(
        "part-of-the-loop-forgotten",
        "The loop does not ask the part that stores checkpoints, so nothing is stored.",
        "no silence",
        (
            Edit(
                "coordinator/loop.py",
                "self.automatic, self.transitions, self.storing\n",
                "self.automatic, self.transitions\n",
            ),
        ),
        ("tests/coordinator/test_loop_part.py::test_the_loop_asks_every_part_once",),
    ),
    Breakage(
        "silence-never-ends",
        "A pipeline that was idle once looks for input rarely for ever after.",
        "input is found soon",
        (Edit(STEPPING, "            self._quiet.end()\n", "            pass\n"),),
        ("tests/coordinator/stepping/test_idle_wait.py::test_an_idle_pipeline_looks_ten_times_a_second",),
    ),
    Breakage(
        "silence-delays-the-workers",
        "While nothing comes, the loop looks rarely for the answers of workers that copy or fold.",
        "input is found soon",
        (Edit(STEPPING, "PAUSE_SECONDS_MIN if awaits_answers else pause_s", "pause_s"),),
        ("tests/coordinator/stepping/test_idle_wait.py::test_an_idle_pipeline_looks_ten_times_a_second",),
    ),
    Breakage(
        "bell-rings-for-ever",
        "After a ring for which there is nothing to read, the bell listens again at once, and rings again.",
        "an idle pipeline costs little",
        (Edit(IDLE_WAIT, "if not self._has_listened:", "if True:"),),
        ("tests/coordinator/stepping/test_idle_wait.py::test_a_bell_makes_the_looks_rare_after_a_silence",),
    ),
    Breakage(
        "bell-relied-on-for-the-time",
        "A pipeline that reads the clock relies on a bell that knows only of messages.",
        "a step is due when time has passed",
        (
            Edit(
                IDLE_WAIT,
                "(offsets := silent_offsets()) is None:",
                "(offsets := silent_offsets() or {}) is None:",
            ),
        ),
        ("tests/coordinator/stepping/test_idle_wait.py::test_a_bell_is_not_relied_on_where_it_does_not_listen",),
    ),
    Breakage(
        "bell-hears-what-is-not-committed",
        "The bell reads uncommitted messages, so it rings before there is anything to read.",
        "input is found soon",
        (
            Edit(
                DOORBELL,
                '    "enable.partition.eof": False,\n',
                '    "enable.partition.eof": False,\n    "isolation.level": "read_uncommitted",\n',
            ),
        ),
        ("tests/io_kafka/test_doorbell.py::test_it_rings_once_for_what_is_committed",),
    ),
    Breakage(
        "bell-keeps-its-first-place",
        "The bell does not notice that it is to listen elsewhere.",
        "input is found soon",
        (Edit(DOORBELL, "return not self._has_ended and self._wanted is wanted", "return not self._has_ended"),),
        ("tests/io_kafka/test_doorbell.py::test_it_listens_elsewhere_as_soon_as_it_is_told",),
    ),
    Breakage(
        "output-before-division",
        "The core lets a step run whose division is not in the log yet.",
        "1 division first",
        (
            Edit(
                CORE,
                "        if self.step < self._step_limit(log):\n",
                "        if self.step <= self._step_limit(log):\n",
            ),
        ),
        (f"{TEST_CORE}::TestRun",),
    ),
    Breakage(
        "core-loads-a-database",
        "The core takes a plain class from a module that also loads LMDB.",
        "2 determinism",
        (Edit(CORE, "from base.version import VersionId\n", "from storage.description import VersionId\n"),),
        ("tests/test_rooms.py::test_decisions_are_made_without_io",),
    ),
    Breakage(
        "replay-without-checkpoints",
        "While steps that the log has are replayed, no checkpoint is begun.",
        "6 two versions",
        (
            Edit(
                CORE,
                "        return self.checkpoints.begin(self.step, log) if self.checkpoints.is_freeze_due else None\n",
                "        is_due = self.checkpoints.is_freeze_due and not self.is_replaying(log)\n"
                "        return self.checkpoints.begin(self.step, log) if is_due else None\n",
            ),
        ),
        (f"{TEST_CORE}::test_a_checkpoint_within_a_replay_holds_the_steps_until_there",),
    ),
    Breakage(
        "version-by-bare-number",
        "The versions of all workers are compared by their numbers, not by identity.",
        "6 two versions",
        (
            Edit(
                "base/common_version.py",
                "    shared = set.intersection(*(set(held) for held in versions.values())) if versions else set()\n",
                "    numbers = set.intersection(*({v.version for v in held} for held in versions.values()))\n"
                "    shared = {v for held in versions.values() for v in held if v.version in numbers}\n",
            ),
        ),
        (f"{TEST_CORE}::test_versions_are_compared_by_identity_not_by_number",),
    ),
    Breakage(
        "stop-without-checkpoint",
        "A run that is stopped ends without the checkpoint that it owes.",
        "6 two versions",
        (
            Edit(
                CORE,
                "        if not self.is_replaying(log) and (self.step > self.version.step or self._has_moved(log)):\n",
                "        if False:\n",
            ),
        ),
        (f"{TEST_CORE}::test_a_stop_waits_for_its_checkpoint",),
    ),
    Breakage(
        "state-ahead-of-the-log",
        "Databases are opened at a step whose output the log does not have.",
        "6 two versions",
        (Edit(USABLE_VERSIONS, "    if step > log.steps:\n", "    if False:\n"),),
        (
            f"{END_TO_END}/test_checkpoints.py::test_a_checkpoint_of_what_is_not_committed_cannot_be_recorded_nor_opened",
        ),
        tells="whose output is not committed",
    ),
    Breakage(
        "freeze-before-the-intent",
        "The core lets databases be frozen before the log has the intent of the checkpoint.",
        "6 two versions",
        (
            Edit(
                CHECKPOINTS,
                "        return Freeze(version) if log.intent == version else LogIntent(version)\n",
                "        return Freeze(version)\n",
            ),
        ),
        (f"{TEST_CORE}::test_the_freeze_waits_until_the_log_has_the_intent",),
    ),
    Breakage(
        "step-settled-before-its-output",
        "The core takes a step for settled although the log does not have its output.",
        "6 two versions",
        (
            Edit(
                CORE,
                "        assert step == self.ran == self.step < log.steps, ",
                "        assert step == self.ran == self.step, ",
            ),
        ),
        (f"{TEST_CORE}::test_a_step_is_settled_when_the_log_has_its_output",),
    ),
    Breakage(
        "given-ahead-of-its-division",
        "The workers get the next step before its division is in the log.",
        "1 division first",
        (
            Edit(
                CORE,
                "if self.running is None and ahead < self._step_limit(log) and not self._needs_drained_boundary(log):",
                "if self.running is None and not self._needs_drained_boundary(log):",
            ),
        ),
        (f"{TEST_CORE}::TestRun", f"{TEST_CORE}::test_the_workers_run_the_next_step_while_the_last_one_is_written"),
    ),
    Breakage(
        "boundary-never-drained",
        "The workers get the next step although a checkpoint, a pause or a stop waits for a boundary.",
        "9 bounded",
        (
            Edit(
                CORE,
                "if self.running is None and ahead < self._step_limit(log) and not self._needs_drained_boundary(log):",
                "if self.running is None and ahead < self._step_limit(log):",
            ),
        ),
        (
            f"{TEST_CORE}::test_what_needs_a_boundary_waits_until_no_step_is_under_way",
            f"{TEST_CORE}::test_every_short_sequence_of_requests_is_obeyed_at_drained_boundaries",
        ),
    ),
    Breakage(
        "boundary-within-a-step",
        "A checkpoint begins while the workers run a step that they were given ahead.",
        "6 two versions",
        (
            Edit(
                CORE,
                "        if not self.drained:\n            return self._next_while_steps_run(log)\n"
                "        checkpoint = self._checkpoint_action(log)\n"
                "        if checkpoint is not None:\n            return checkpoint\n",
                "        checkpoint = self._checkpoint_action(log) if self.ran is None else None\n"
                "        if checkpoint is not None:\n            return checkpoint\n"
                "        if not self.drained:\n            return self._next_while_steps_run(log)\n",
            ),
        ),
        (f"{TEST_CORE}::test_every_short_sequence_of_requests_is_obeyed_at_drained_boundaries",),
    ),
    Breakage(
        "step-waits-for-the-one-before",
        "The workers get no step before the last one is settled, so they wait while its output is written.",
        "latency of a small step",
        (
            Edit(
                CORE,
                "            return Give(ahead, ahead < log.steps)\n",
                "            return Settle(self.ran, self.ran < log.steps)\n",
            ),
        ),
        (f"{TEST_CORE}::test_the_workers_run_the_next_step_while_the_last_one_is_written",),
    ),
    Breakage(
        "positions-stay-behind",
        "Where the next division starts is not looked up in the log.",
        "exactly once",
        (
            Edit(
                "coordinator/stepping/offsets.py",
                "    return {partition: divided.get(partition, start) for partition, start in starts.items()}\n",
                "    return dict(starts)\n",
            ),
        ),
        (f"{TEST_INPUTS}::test_divisions_follow_each_other_by_what_the_log_says",),
        tells="BrokenStepLog.*but should start at",
    ),
    Breakage(
        "a-backlog-by-equal-shares",
        "A backlog that a query with event time reads is divided by equal shares of its partitions, so most of its rows are late.",
        "the batch answer",
        (Edit("coordinator/stepping/dividing.py", "return self._by_time(fair, ends)", "return fair"),),
        (
            "tests/coordinator/stepping/test_dividing.py::test_no_row_of_an_uneven_backlog_is_late",
            f"{END_TO_END}/test_event_time.py::test_a_backlog_of_days_in_uneven_partitions_has_no_late_row[3]",
        ),
    ),
    Breakage(
        "topics-of-one-query-apart",
        "Topics that a query reads with a common watermark are cut at different times.",
        "the batch answer",
        (
            Edit(
                "coordinator/stepping/dividing.py",
                "        for other in [group for group in groups if group.topics & made.topics]:\n",
                "        for other in [group for group in groups if group.topics == made.topics]:\n",
            ),
        ),
        ("tests/coordinator/stepping/test_dividing.py::test_topics_are_together_if_a_query_reads_both",),
    ),
    Breakage(
        "a-loaded-history-by-time",
        "Nobody notices that event time runs away from timestamps, so a history that was loaded later is read partition by partition.",
        "the batch answer",
        (Edit("coordinator/stepping/time_relation.py", "PACE_MAX = 4\n", "PACE_MAX = 1 << 40\n"),),
        ("tests/coordinator/stepping/test_dividing.py::test_a_history_that_was_loaded_later_is_read_evenly",),
    ),
    Breakage(
        "a-loaded-topic-by-the-time-of-its-load",
        "Partitions that were loaded one after the other within the delay are read one after the other.",
        "the batch answer",
        (
            Edit(
                "io_kafka/clients/time_bound.py",
                "return found.low_ms <= last_ms and",
                "return found.low_ms > last_ms and",
            ),
        ),
        ("tests/coordinator/stepping/test_dividing.py::test_what_was_written_within_the_delay_is_read_in_proportion",),
    ),
    Breakage(
        "division-ahead-of-a-partial-step",
        "The next division is chosen ahead of the output although less than a whole step waits.",
        "latency of a small step",
        (
            Edit(
                INPUTS,
                "            if division is None or not dividing.is_full(division, limits):\n",
                "            if division is None:\n",
            ),
        ),
        (
            f"{TEST_INPUTS}::test_whole_steps_are_divided_ahead_and_less_is_not",
            f"{END_TO_END}/test_divisions.py::test_over_a_backlog_the_next_divisions_stand_in_the_outputs_transaction",
        ),
    ),
    Breakage(
        "announced-before-the-log-has-it",
        "The topics of a division count as named although its record did not get into the log.",
        "no silence",
        (
            Edit(
                INPUTS,
                "        topics, policy = self.topics.to_announce, self.policy\n",
                "        topics, policy = self.topics.to_announce, self.policy\n        self.topics.note_announced()\n",
            ),
        ),
        (f"{TEST_INPUTS}::test_the_topics_are_named_once_in_a_run",),
    ),
    Breakage(
        "replay-by-todays-policy",
        "A replay treats malformed messages as the project says now, not as the division recorded.",
        "2 determinism",
        (
            Edit(
                STEPPING,
                "        crew.steps.give(self._step_input(crew, under_way))\n        core.given(",
                "        given = self._step_input(crew, under_way)\n"
                '        crew.steps.give(StepInput(**{**vars(given), "on_error": dict(self._spec.on_error)}))\n        core.given(',
            ),
        ),
        (f"{END_TO_END}/test_bad_input.py::test_dead_letters_are_replayed_where_the_policy_has_changed_since",),
        tells="DigestMismatch",
    ),
    Breakage(
        "policy-of-yesterday",
        "A step without output runs by the policy that an earlier run recorded, whatever the project says now.",
        "malformed messages",
        (
            Edit(
                REDIVIDING,
                "        if recorded == policy:\n",
                "        if record is not None:\n",
            ),
        ),
        (f"{END_TO_END}/test_bad_input.py::test_after_a_stop_another_policy_lets_the_recorded_step_go_on",),
        tells="DataError.*malformed message",
    ),
    Breakage(
        "expected-epoch-dropped",
        "The loop does not hand on which holder was found silent.",
        "5 fences",
        (Edit(PIPELINE, "start(claimant, expect_epoch=expect_epoch)", "start(claimant)"),),
        (f"{END_TO_END}/test_fences.py::test_a_coordinator_that_was_replaced_is_fenced_and_output_stays_exactly_once",),
    ),
    Breakage(
        "recreated-topic-accepted",
        "A topic that was deleted and created again passes for the one that was read.",
        "no silence",
        (Edit(SAME_TOPICS, "        if name in recreated:\n", "        if False:\n"),),
        (f"{END_TO_END}/test_bad_input.py::test_a_topic_that_was_made_anew_is_told_apart",),
        tells="OffsetGone|BrokenStepLog|DigestMismatch",
    ),
    Breakage(
        "changed-circuit-accepted",
        "A changed project runs on the state of the former one.",
        "no silence",
        (
            Edit(
                "coordinator/starting/project/same_circuit.py",
                "    if fingerprint == circuit.fingerprint:\n",
                "    if fingerprint:\n",
            ),
        ),
        (f"{END_TO_END}/test_fences.py::test_a_changed_project_is_told_by_its_view",),
    ),
    Breakage(
        "failed-folds-not-counted",
        "A fold that fails is begun again by each recovery, as long as steps are written.",
        "9 bounded",
        (
            Edit(
                "coordinator/checkpoints/checkpointing.py",
                "        if self.is_folding and may_be_the_cause:\n            self.failed_in_a_row += 1\n",
                "",
            ),
        ),
        (f"{END_TO_END}/test_checkpoints.py::test_folds_that_fail_during_a_step_end_the_run",),
    ),
    Breakage(
        "log-cut-above-a-checkpoint",
        "The step log is truncated by the user's window alone, below which a worker may still have to replay.",
        "6 two versions",
        (
            Edit(
                "coordinator/checkpoints/truncation.py",
                "state.truncation_point(min(earliest, state.steps - kept))",
                "state.truncation_point(state.steps - kept)",
            ),
        ),
        ("tests/coordinator/checkpoints/test_truncation.py::test_a_truncated_log_begins_at_a_snapshot_and_goes_on",),
    ),
    Breakage(
        "input-not-compared",
        "A replay does not look whether it reads what was read the first time.",
        "no silence",
        (
            Edit(
                STEPPING,
                "            compare_inputs(step, result.inputs, log.step_records[step].inputs)\n",
                "",
            ),
        ),
        (
            f"{END_TO_END}/test_bad_input.py::test_input_that_reads_otherwise_is_an_error_even_where_the_output_is_the_same",
        ),
    ),
    Breakage(
        "added-partition-skipped",
        "A partition that was added to a topic begins where the source's option says, perhaps at its end.",
        "exactly once",
        (
            Edit(
                POSITIONS,
                'wish = "earliest" if joins or partition.topic in read_before else source.starting_offsets',
                "wish = source.starting_offsets",
            ),
        ),
        (f"{TEST_POSITIONS}::test_what_the_log_knows_wins_and_a_partition_that_came_later_begins_at_its_first_offset",),
    ),
    Breakage(
        "last-table-decides",
        "Of two tables over one topic the last one decides where it is read from.",
        "exactly once",
        (
            Edit(
                POSITIONS,
                "            positions[partition] = min(chosen, positions.get(partition, chosen))\n",
                "            positions[partition] = chosen\n",
            ),
        ),
        (f"{TEST_POSITIONS}::test_of_two_tables_over_one_topic_the_earlier_decides",),
    ),
    Breakage(
        "recoveries-without-end",
        "A run recovers from the same fault again and again.",
        "9 bounded",
        (
            Edit(
                RECOVERIES,
                '        return f"the checkpoint before step {steps}" if folds_failed >= RECOVERIES_MAX else None\n',
                "        return None\n",
            ),
        ),
        (
            f"{TEST_RECOVERIES}::test_a_step_is_no_progress_of_a_checkpoint",
            f"{END_TO_END}/test_checkpoints.py::test_folds_that_fail_during_a_step_end_the_run",
        ),
    ),
    Breakage(
        "completion-not-recorded",
        "A recovery opens a checkpoint that every worker has and does not record that it is complete.",
        "6 two versions",
        (Edit(COMPLETION, "    if writer.state.intent == version:\n", "    if False:\n"),),
        (
            f"{END_TO_END}/test_checkpoints.py::"
            "test_a_checkpoint_that_all_workers_have_counts_though_the_run_ended_before_it_said_so[1]",
        ),
        tells="BrokenStepLog.*would leave a gap",
    ),
    Breakage(
        "generation-forgotten",
        "Databases of before a full refresh pass for those after it.",
        "no silence",
        (
            Edit(
                "coordinator/starting/workers/database_names.py",
                'f"{self.log_id}/{self.generation}/{self.worker}/',
                'f"{self.log_id}/0/{self.worker}/',
            ),
        ),
        ("tests/coordinator/starting/test_refresh.py::test_outputs_are_rebuilt_from_the_input_that_is_there_now",),
        tells="StateLost",
    ),
    Breakage(
        "rand-accepted",
        "A view may call rand().",
        "2 determinism",
        (Edit("stepwell/project/refusals.py", ' "Rand": "rand()",\n', "\n"),),
        ("tests/stepwell/test_plans.py::test_what_cannot_be_replayed_is_refused",),
    ),
    Breakage(
        "completion-without-all-workers",
        "A checkpoint counts as complete though a worker does not have it.",
        "6 two versions",
        (
            Edit(
                CHECKPOINTS,
                '        assert latest == version, self.making.with_story(f"after checkpoint {version} the workers share {latest}")\n',
                "",
            ),
        ),
        (f"{TEST_CORE}::test_a_checkpoint_that_a_worker_lacks_is_not_complete",),
    ),
    Breakage(
        "lost-database-made-anew",
        "A database that is missing is made anew, empty, beside those that have the state.",
        "no silence",
        (
            Edit(
                BINDING,
                "        if expected.is_fresh and tasks.give",
                "        if tasks.give",
            ),
        ),
        (f"{END_TO_END}/test_lost_state.py::test_a_deleted_database_stops_the_run",),
        tells="NoCommonVersion",
    ),
    Breakage(
        "changed-database-not-bound-again",
        "Databases that were bound by an old report, and have no version in common, end the run.",
        "9 bounded",
        (Edit(OPENING, "        if changed:\n", "        if False and changed:\n"),),
        ("tests/coordinator/test_start.py::test_a_database_that_has_changed_since_it_was_reported_is_bound_again",),
        tells="NoCommonVersion",
    ),
    Breakage(
        "database-made-after-the-first-intent",
        "A database that is away is made again although the others may have opened the first checkpoint.",
        "6 two versions",
        (
            Edit(
                "coordinator/starting/workers/expected_databases.py",
                "not state.checkpoints and state.intent is None and",
                "not state.checkpoints and",
            ),
        ),
        (
            "tests/simulator/test_scenarios.py::"
            "test_a_database_that_is_away_after_the_first_intent_is_not_created_again",
        ),
        tells="NoCommonVersion",
    ),
    Breakage(
        "copy-that-others-do-not-fit",
        "Of two copies of a database the largest is bound, whatever version the other workers have.",
        "6 two versions",
        (
            Edit(
                BINDING,
                "        usable = [copy for copy in pool if latest in copy.versions] or list(pool)\n",
                "        usable = list(pool)\n",
            ),
        ),
        (f"{TEST_BINDING}::test_of_two_copies_the_one_is_bound_that_has_what_all_have",),
    ),
    Breakage(
        "held-database-made-again",
        "A database that no free task can reach is created on another host, while the log is fresh.",
        "7 one owner",
        (
            Edit(BINDING, "            missing[number] = tuple(hosts)\n", "            continue\n"),
            Edit(
                BINDING,
                "    for number in sorted(pools.keys() - chosen.keys()):\n",
                "    for number in sorted(births.keys() - tasks.given.keys()):\n",
            ),
            Edit(BINDING, "births[n]) for n in chosen})", "births[n]) for n in chosen.keys() - created})"),
        ),
        (f"{TEST_BINDING}::test_while_the_log_is_fresh_a_database_that_is_held_is_not_created_again",),
    ),
    Breakage(
        "held-by-number",
        "A database counts as up to date if its version has the number of the last checkpoint, whichever checkpoint it is.",
        "6 two versions",
        (
            Edit(
                FOUND_DATABASES,
                "births.get(found.worker) == found.birth and v in found.versions for",
                "births.get(found.worker) == found.birth and found.versions[-1].version >= v.version for",
            ),
        ),
        (f"{TEST_BINDING}::test_what_a_database_is_for_a_run",),
    ),
    Breakage(
        "steps-of-a-copy-forgotten",
        "After a start, the steps below the version that was opened are forgotten, although a copy elsewhere may need them.",
        "6 two versions",
        (
            Edit(
                COMPLETION,
                "return min([version.step, max(checkpoints, default=EMPTY).step, *",
                "return min([version.step, *",
            ),
        ),
        (f"{TEST_BINDING}::test_steps_that_a_copy_on_another_host_may_replay_are_kept",),
    ),
    Breakage(
        "empty-database-taken-for-the-lost-one",
        "A database without any step is opened although the log has checkpoints.",
        "no silence",
        (
            Edit(
                FOUND_DATABASES,
                "return Standing.BLANK if found.versions == (EMPTY,) else Standing.STALE",
                "return Standing.STALE",
            ),
        ),
        (f"{TEST_BINDING}::test_what_a_database_is_for_a_run",),
    ),
    Breakage(
        "old-storage-accepted",
        "An old copy of the storage folder is opened although the steps since were truncated from the log.",
        "no silence",
        (Edit(USABLE_VERSIONS, "    if step < log.first:\n", "    if False:\n"),),
        (f"{END_TO_END}/test_lost_state.py::test_a_copy_older_than_the_step_log_stops_the_run",),
    ),
    Breakage(
        "letters-that-cost-the-state",
        "A user whose topic of dead letters is gone is told to rebuild all state and output.",
        "no silence",
        (
            Edit(
                SAME_TOPICS,
                "    if name in spec.dead_letter_topics.values():\n        return OTHER_LETTERS\n",
                "",
            ),
        ),
        (
            f"{END_TO_END}/test_bad_input.py::test_without_its_dead_letters_a_pipeline_goes_on_with_another_topic_for_them",
        ),
    ),
    Breakage(
        "grown-output-accepted",
        "An output topic that has grown is written on, with keys in other partitions than before.",
        "no silence",
        (Edit(SAME_TOPICS, "    if output is not None and known.partitions != fact.partitions:\n", "    if False:\n"),),
        (f"{END_TO_END}/test_output_topics.py::test_an_output_topic_that_has_grown_is_told",),
    ),
    Breakage(
        "upsert-topic-not-compacted",
        "An upsert topic is made without compaction.",
        "what a consumer must do",
        (Edit(SAME_TOPICS, '{"cleanup.policy": "compact"} if output.compacted else {}', "dict[str, str]()"),),
        (f"{END_TO_END}/test_output_topics.py::test_topics_are_made_as_their_mode_needs_them",),
    ),
    Breakage(
        "holder-not-asked",
        "A run takes over without asking the holder whether it is alive.",
        "one writer",
        (
            Edit(HOLDER, "    _refuse_if_alive(pipeline, claim)\n    say(", "    say("),
            Edit(HOLDER, "        _refuse_if_alive(pipeline, claim)\n", ""),
        ),
        (f"{TEST_HOLDER}::test_a_holder_that_answers_is_left_alone",),
    ),
    Breakage(
        "silence-not-waited-for",
        "A holder that cannot be asked is followed at once.",
        "one writer",
        (Edit(HOLDER, "    while time.monotonic() - silent_since < silence_s:\n", "    while False:\n"),),
        (
            f"{TEST_HOLDER}::test_a_holder_that_writes_is_left_alone",
            f"{TEST_HOLDER}::test_a_silent_holder_is_followed_after_the_silence_and_not_before",
        ),
    ),
    Breakage(
        "division-ahead-in-a-replay",
        "A replay, which writes nothing, chooses the next division to be written with its output.",
        "1 division first",
        (
            Edit(
                STEPPING,
                "        ahead = [] if action.replay else self._inputs.choose_ahead(log, step, errors)\n",
                "        ahead = self._inputs.choose_ahead(log, step, errors)\n",
            ),
        ),
        (f"{END_TO_END}/test_divisions.py::test_a_replay_divides_nothing",),
    ),
    Breakage(
        "step-in-order-of-arrival",
        "What the workers made of a step is put together in the order in which they ended.",
        "2 determinism",
        (
            Edit(
                "coordinator/stepping/step_output.py",
                "            canonical(pa.concat_tables([OUTPUT_MESSAGES.empty_table(), *tables.get(o.handle, ())])),\n",
                "            pa.concat_tables([OUTPUT_MESSAGES.empty_table(), *tables.get(o.handle, ())]),\n",
            ),
        ),
        ("tests/coordinator/stepping/test_step_output.py::test_the_result_does_not_depend_on_the_order_of_workers",),
    ),
    Breakage(
        "available-now-has-no-end",
        "A run that should take what is there takes what comes meanwhile too.",
        "9 bounded",
        (
            Edit(
                "coordinator/stepping/input_topics.py",
                "if self._until is None else self._until\n",
                "\n",
            ),
        ),
        (
            f"{TEST_INPUTS}::test_available_now_ignores_later_messages",
            f"{END_TO_END}/test_divisions.py::test_available_now_takes_what_was_there_when_it_began",
        ),
    ),
    Breakage(
        "available-now-hides-a-lost-tail",
        "A run that ends with its input takes a partition that is shorter than its position for one without new messages.",
        "no silence",
        (
            Edit(
                "coordinator/stepping/offsets.py",
                "end if end < starts[where] else max(",
                "max(",
            ),
        ),
        (f"{TEST_INPUTS}::test_a_partition_that_has_lost_its_tail_is_refused_whatever_the_goal",),
    ),
    Breakage(
        "start-beyond-what-is-there",
        "A source begins at an offset that its partition does not hold, and what arrives below it is never read.",
        "no silence",
        (
            Edit(
                POSITIONS,
                "    if not (begin <= offset <= end or source.is_table):\n",
                "    if not (begin <= offset or source.is_table):\n",
            ),
        ),
        (f"{TEST_POSITIONS}::test_a_start_at_an_offset_that_is_not_there_names_the_offset_and_what_is",),
    ),
    Breakage(
        "refresh-to-a-start-that-is-gone",
        "A full refresh takes all output back before it finds out that it cannot begin.",
        "no silence",
        (Edit("coordinator/starting/topics/refresh.py", "        refuse_wrong_starts(spec, topics)\n", ""),),
        (
            "tests/coordinator/starting/test_refresh.py::test_a_start_that_is_not_there_is_refused_before_anything_is_taken_back",
        ),
    ),
    Breakage(
        "ends-never-move",
        "A view that has an error over the rows up to the end of a step stops the pipeline for ever, whatever rows follow.",
        "no silence",
        (
            Edit(
                REDIVIDING,
                "        if ends is None:\n            return\n        wider",
                "        if not log.topics or ends is not None:\n            return\n        wider",
            ),
        ),
        (f"{END_TO_END}/test_moved_ends.py::test_a_step_ends_where_the_view_has_an_answer",),
        tells="RECURSION_ROW_LIMIT_EXCEEDED",
    ),
    Breakage(
        "columns-without-names",
        "A column of a source may get another name: the next rows are of another field of the messages.",
        "no silence",
        (Edit(LEAF_DIFFERENCES, "    yield from _between_columns(before.columns, now.columns)\n", ""),),
        (f"{TEST_LEAVES}::test_a_difference_is_told_with_property_and_both_values",),
    ),
    Breakage(
        "columns-without-order",
        "Two columns of a source may change places, though state has them by their places.",
        "no silence",
        (Edit(LEAF_DIFFERENCES, " and list(before) != list(now):\n", " and before.items() ^ now.items():\n"),),
        (f"{TEST_LEAVES}::test_a_difference_is_told_with_property_and_both_values",),
    ),
    Breakage(
        "leaves-are-not-compared",
        "A start compares the circuit alone, which names no topic and no column.",
        "no silence",
        (
            Edit(
                SAME_PROJECT,
                "        check_leaves(now, leaves_of(recorded), state)\n",
                "        leaves_of(recorded)\n",
            ),
        ),
        (f"{CHANGED_SOURCES}::test_what_gives_other_rows_is_refused_by_name_and_what_does_not_passes",),
    ),
    Breakage(
        "other-topic-for-an-output",
        "An output may get another topic, which then has the changes since and none of the rows before.",
        "no silence",
        (
            Edit(
                LEAF_DIFFERENCES,
                "        if before != output.topic:\n",
                "        if before != output.topic and not topics:\n",
            ),
        ),
        (f"{TEST_LEAVES}::test_two_outputs_that_change_places_are_noticed",),
    ),
    Breakage(
        "anything-is-adopted",
        "A state of a version without the record of its leaves adopts sources whose topics it has never read.",
        "no silence",
        (Edit(SAME_PROJECT, "list(unknown_topics(now, state) if recorded", "list(() if recorded"),),
        (f"{TEST_LEAVES}::test_a_state_without_the_record_belongs_to_the_topics_that_its_log_names",),
    ),
    Breakage(
        "a-snapshot-without-a-revision",
        "When the log is truncated, it loses the record of the revision.",
        "no silence",
        (
            Edit(
                "io_kafka/step_log/snapshots.py",
                '"revisions": lambda record: record.revisions,',
                '"revisions": lambda _: RevisionState(),',
            ),
        ),
        (
            f"{TEST_LOG_STATE}::test_a_state_of_the_former_format_takes_a_revision_at_any_time_and_a_snapshot_carries_it",
        ),
    ),
    Breakage(
        "freed-memory-not-kept",
        "A worker returns memory after each step, and asks for it again in the next one.",
        "the cost of a step",
        (Edit("engine/resident/daemon.py", "    keep_freed_memory()\n", ""),),
        ("tests/base/test_memory.py::test_workers_and_the_service_keep_memory_before_arrow_is_loaded",),
    ),
    Breakage(
        "freed-memory-not-kept-by-the-service",
        "The service returns memory after each step, and asks for it again in the next one.",
        "the cost of a step",
        (Edit("stepwell/commands/run.py", "    keep_freed_memory()\n", ""),),
        ("tests/base/test_memory.py::test_workers_and_the_service_keep_memory_before_arrow_is_loaded",),
    ),
    Breakage(
        "half-of-the-heap-is-kept",
        "Large arrays are mapped and returned one by one.",
        "the cost of a step",
        (Edit("base/memory.py", "        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)\n", ""),),
        ("tests/base/test_memory.py::test_steps_get_the_memory_that_those_before_them_have_freed",),
    ),
    Breakage(
        "memory-kept-for-ever",
        "A process that rests keeps what its largest step has freed.",
        "the cost of a rest",
        (Edit("base/memory.py", "        trim(ctypes.c_size_t(0))\n", "        pass\n"),),
        ("tests/base/test_memory.py::test_what_is_kept_is_given_back",),
    ),
    Breakage(
        "resting-workers-keep-memory",
        "Only the service gives memory back when nothing comes.",
        "the cost of a rest",
        (Edit("engine/resident/worker/worker.py", "            self._note_rest()\n", ""),),
        (f"{END_TO_END}/test_rest.py::test_the_service_and_each_worker_give_memory_back_once_in_each_rest",),
    ),
    Breakage(
        "memory-given-back-in-the-first-rest-alone",
        "After the first rest a process keeps what the steps after it have freed.",
        "the cost of a rest",
        (Edit("base/memory.py", "        self._since, self._is_done = None, False\n", "        self._since = None\n"),),
        ("tests/base/test_memory.py::test_memory_is_given_back_once_in_each_rest",),
    ),
    Breakage(
        "a-fold-is-a-rest",
        "A worker gives memory back while a fold runs, and keeps what the fold has used.",
        "the cost of a rest",
        (
            Edit(
                "engine/resident/worker/worker.py",
                "        if self._background.is_busy():\n",
                "        if not self._background:\n",
            ),
        ),
        ("tests/engine/resident/test_resting.py::test_a_worker_rests_when_nothing_runs_beside_its_orders",),
    ),
    Breakage(
        "a-pause-is-no-rest",
        "A service that is paused keeps the memory of its steps.",
        "the cost of a rest",
        (Edit("coordinator/loop.py", "        steps.rest()\n", ""),),
        (f"{END_TO_END}/test_rest.py::test_a_service_that_is_paused_gives_memory_back",),
    ),
)
