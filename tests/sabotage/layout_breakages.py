"""Changes of the layout: which worker owns which slots, and what a start believes of it. The simulator has mutations of the same rules
(tests/simulator/sabotage.py)."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

PHASES, LAYOUTS, OPENING = (
    "coordinator/rescale/phases.py",
    "coordinator/starting/layouts.py",
    "coordinator/starting/workers/opening.py",
)
BINDING, SLOTS, RULES = (
    "coordinator/starting/workers/binding.py",
    "engine/resident/slots.py",
    "io_kafka/step_log/layout_rules.py",
)
COMPLETION = "coordinator/checkpoints/completion.py"
TEST_PHASES, TEST_LAYOUTS = "tests/coordinator/rescale/test_phases.py", "tests/coordinator/starting/test_layouts.py"
TEST_BINDING, TEST_SLOTS = "tests/coordinator/starting/test_binding.py", "tests/engine/resident/test_slots.py"
HIDDEN_COPIES, MOVES, TRACE = "engine/run/hidden_copies.py", "engine/state/moves.py", "engine/state/trace.py"
TEST_CUT = "tests/engine/test_cut.py"
COPIES, WEIGHTS, COPYING = (
    "engine/resident/copies.py",
    "engine/resident/slot_weights.py",
    "coordinator/rescale/slot_copies.py",
)
TEST_COPYING = "tests/coordinator/rescale/test_slot_copies.py"
ROSTER, BUDGET = "engine/resident/roster.py", "coordinator/rescale/cut_budget.py"
TEST_ROSTER = "tests/engine/resident/test_roster.py"
CUT, DATABASE, PROGRESS = "engine/run/cut.py", "storage/database.py", "coordinator/rescale/progress.py"
TEST_LAYOUT, TEST_ROOM = "tests/engine/test_layout.py", "tests/coordinator/rescale/test_disk_space.py"
TEST_VIEWS, TEST_CORE = "tests/end_to_end/test_views_in_a_rescale.py", "tests/coordinator/test_core.py"
TEST_PROGRESS = "tests/coordinator/rescale/test_progress.py"
TEST_LOG = "tests/io_kafka/test_step_log.py"
ONE_OWNER, SILENCE, BOUNDED, VERSIONS = "7 one owner", "no silence", "9 bounded", "6 two versions"

LAYOUT = (
    Breakage(
        "layout-of-the-files",
        "`stepwell layout change` without a service needs files that have no change.",
        "a change of the layout is one of the state",
        (
            Edit(
                "stepwell/commands/rescale.py",
                '"keep" if is_recorded else "refuse"',
                '"refuse"',
            ),
        ),
        ("tests/end_to_end/test_layouts.py::test_a_change_without_a_service_does_not_depend_on_the_files",),
    ),
    Breakage(
        "wish-not-dropped",
        "A change that was taken back before it began still waits for its workers.",
        SILENCE,
        (
            Edit(
                "coordinator/rescale/wishes.py",
                "        self._machine.refused()\n        self._pending = None\n",
                "        assert WantedRescale\n        self._pending = None\n",
            ),
        ),
        ("tests/end_to_end/test_layouts.py::test_a_change_is_taken_back_while_it_waits_for_its_workers",),
    ),
    Breakage(
        "checkpoints-before-a-change",
        "The next checkpoint begins as soon as one is complete. Where each takes as long as the interval, a change waits for ever.",
        BOUNDED,
        (
            Edit(
                "coordinator/core.py",
                "        return not isinstance(due, LogRescale | AddWorkers | RemoveWorkers) and self.request_checkpoint()\n",
                "        return due is not None or self.request_checkpoint()\n",
            ),
        ),
        (
            "tests/coordinator/test_core.py::test_a_rescale_begins_although_each_checkpoint_takes_as_long_as_the_interval_between_two",
        ),
    ),
    Breakage(
        "outdated-setting-acted-on",
        "Each start makes the layout what the project's settings say, also if a command has changed it since.",
        SILENCE,
        (Edit(LAYOUTS, "(wanted.setting, wanted.setting != asked)", "(wanted.setting, asked != -1)"),),
        (f"{TEST_LAYOUTS}::test_when_a_start_changes_the_number_of_workers",),
    ),
    Breakage(
        "owners-not-compared-at-a-start",
        "A start believes the databases which slots they own, whatever the step log says.",
        ONE_OWNER,
        (
            Edit(
                OPENING,
                "    said = owned if recorded is None else recorded.owned\n",
                "    said = owned\n",
            ),
        ),
        (f"{TEST_LAYOUTS}::test_databases_with_other_slots_than_the_log_says_are_refused",),
    ),
    Breakage(
        "former-state-opened",
        "The state of a version with another format of the step log is used.",
        SILENCE,
        (
            Edit(
                "coordinator/starting/project/same_project.py",
                "    if state.is_former:\n",
                "    if state.is_former is None:\n",
            ),
        ),
        (f"{TEST_LAYOUTS}::test_the_state_of_a_former_version_is_refused",),
    ),
    Breakage(
        "version-of-other-owners-opened",
        "A recovery opens a version that all its workers have, although others own slots in it.",
        VERSIONS,
        (
            Edit(
                BINDING,
                "versions=(copy.versions & known) or (copy.versions - others))",
                "versions=copy.versions if known or births else others)",
            ),
        ),
        (f"{TEST_BINDING}::test_a_version_with_other_owners_is_no_reason_to_bind_a_copy",),
    ),
    Breakage(
        "reported-versions-without-those-that-the-log-does-not-know",
        "What the fence finds is compared with a part of what the host has reported, so a run binds its databases again for ever.",
        BOUNDED,
        (
            Edit(
                BINDING,
                "versions.update({n: _versions_reported(held[n], tasks.host_of[n], births[n]) for n in chosen})",
                "versions.update({n: _versions_reported(copies[n], tasks.host_of[n], births[n]) for n in chosen})",
            ),
        ),
        (f"{TEST_BINDING}::test_all_versions_of_a_database_are_told_even_those_that_the_log_does_not_know",),
    ),
    Breakage(
        "answer-of-a-worker-that-was-not-asked-waited-for",
        "What workers do beside the steps ends only when all have answered, also one that has joined since.",
        BOUNDED,
        (
            Edit(
                ROSTER,
                "return self._without_answer(sorted(self._asked_in_background[kind]), kind)",
                "return self._without_answer(sorted(self.members), kind)",
            ),
        ),
        (f"{TEST_ROSTER}::test_a_worker_that_has_joined_since_is_not_waited_for",),
    ),
    Breakage(
        "step-times-not-counted",
        "The bound of a cut is that of a service that has run no step.",
        BOUNDED,
        (Edit(BUDGET, "        self._step_ms.append(took_ms)\n", "        pass\n"),),
        (
            "tests/coordinator/rescale/test_cut_budget.py::test_a_cut_takes_a_part_of_a_step_at_the_rate_of_the_cuts_before",
        ),
    ),
    Breakage(
        "copies-seen-before-the-cut",
        "Scans show copies of slots that the worker does not own.",
        ONE_OWNER,
        (Edit("storage/transaction.py", "        if not self._edges:", "        if True:"),),
        (f"{TEST_SLOTS}::test_what_was_copied_is_not_sent_again_in_the_cut",),
    ),
    Breakage(
        "own-rows-hidden-with-copies",
        "A bucket that is named after a slot of another worker is hidden with the copies of that slot.",
        ONE_OWNER,
        (
            Edit(
                HIDDEN_COPIES,
                "            moves.make_edges(transaction, table, slots)\n        transaction.set",
                "            pass\n        transaction.set",
            ),
        ),
        (f"{TEST_CUT}::test_the_output_does_not_show_that_slots_were_copied_before_they_moved",),
        tells="SCALAR_SUBQUERY_TOO_MANY_ROWS",
    ),
    Breakage(
        "rows-filed-behind-an-edge-of-copies",
        "A cut between two ranges of copies files rows into the second one.",
        ONE_OWNER,
        (Edit(MOVES, "    edge = runs.free_from(edge)\n", ""),),
        (f"{TEST_CUT}::test_the_output_does_not_show_that_slots_were_copied_before_they_moved[2-0.5]",),
        tells="than were ever in it",
    ),
    Breakage(
        "rows-filed-before-all-buckets-under-copies",
        "Rows below the first bucket are filed under slot 0, also where that has copies.",
        ONE_OWNER,
        (Edit(TRACE, "first_hash_of(store.free_from(0))", "0"),),
        (f"{TEST_CUT}::test_the_output_does_not_show_that_slots_were_copied_before_they_moved",),
    ),
    Breakage(
        "pinned-runs-merged",
        "A merge takes in runs that are being copied, so what was copied is sent again.",
        "no repeated work",
        (Edit(TRACE, "            if parse_run_key(key)[1] < pinned_below:\n                break\n", ""),),
        (f"{TEST_CUT}::test_pinned_runs_stay_as_they_are",),
    ),
    Breakage(
        "stale-copies-kept",
        "A cut takes over all copies, also those of runs that the source has not any more.",
        ONE_OWNER,
        (Edit(HIDDEN_COPIES, "    for key in found - kept:\n", "    for key in found - found:\n"),),
        (f"{TEST_CUT}::test_copies_of_runs_that_are_gone_do_not_count",),
    ),
    Breakage(
        "copies-kept-when-a-database-is-opened",
        "A worker keeps the copies that a checkpoint has, although nobody may ever take them over.",
        BOUNDED,
        (
            Edit(
                "engine/resident/copies.py",
                "                hidden_copies.discard_copies(transaction)\n",
                "                pass\n",
            ),
        ),
        ("tests/engine/resident/test_slots.py::test_copies_are_discarded_at_both_ends",),
    ),
    Breakage(
        "slots-that-were-not-copied-cut",
        "A live change does not wait for the copies of its slots, so a cut moves all of them.",
        BOUNDED,
        (
            Edit(
                PHASES,
                "        if not self.copied_portions or not self._may_cut(at):\n            return None\n",
                "        if not self._may_cut(at):\n            return None\n"
                "        if not self.copied_portions:\n"
                "            (source, destination), slots = next(iter(self.moves.items()))\n"
                "            return Cut(slots, source, destination, is_whole=True)\n",
            ),
        ),
        (f"{TEST_PHASES}::test_the_cuts_of_a_live_rescale_move_what_was_copied_portion_by_portion",),
    ),
    Breakage(
        "databases-of-a-newer-run-removed",
        "A run that was fenced removes the database of a worker that its successor has made.",
        "5 fences",
        (
            Edit(
                "coordinator/starting/workers/found_databases.py",
                "kept.get(each.worker) != each.birth and name.epoch <= epoch:",
                "kept.get(each.worker) != each.birth:",
            ),
        ),
        (f"{TEST_BINDING}::test_what_no_version_needs_any_more_is_removed_but_not_what_a_newer_run_has_made",),
    ),
    Breakage(
        "cut-without-a-bound",
        "A cut moves all slots that it may move, however many bytes they have.",
        BOUNDED,
        (
            Edit(
                WEIGHTS,
                "return slots if within >= len(slots) else slots.first(max(1, within))",
                "return slots.first(within or len(slots)) if bytes_max < 0 else slots",
            ),
        ),
        (f"{TEST_SLOTS}::test_a_cut_moves_as_many_slots_as_its_bytes_allow_and_at_least_one",),
    ),
    Breakage(
        "portion-without-a-bound",
        "A live change copies all slots, and then cuts them together.",
        BOUNDED,
        (Edit(WEIGHTS, "slots.first(int(counts[np.argmin(", "slots.first(int(counts[-1:][0 * np.argmin("),),
        (f"{TEST_SLOTS}::test_portions_move_one_by_one_while_the_next_one_is_copied",),
    ),
    Breakage(
        "portion-that-ends-anywhere",
        "A portion ends within a bucket, so runs of slots that stay are written again.",
        "no repeated work",
        (Edit(WEIGHTS, "np.argmin(crossing + np.abs", "np.argmin(0 * crossing + np.abs"),),
        (f"{TEST_SLOTS}::test_a_portion_ends_where_a_bucket_does",),
    ),
    Breakage(
        "buckets-split-within-a-slot",
        "A bucket is split anywhere, so no portion can end where a bucket does.",
        "no repeated work",
        (Edit(TRACE, "        if cut == 0:\n            edge = int", "        if cut >= 0:\n            edge = int"),),
        (f"{TEST_SLOTS}::test_a_portion_ends_where_a_bucket_does",),
    ),
    Breakage(
        "bucket-over-the-end-of-a-portion",
        "A bucket reaches over the end of a portion. When the portion leaves, copies of the next one are of no use any more.",
        "no repeated work",
        (
            Edit(
                COPIES,
                "            make_edges(transaction, slots)\n",
                "            assert transaction and make_edges\n",
            ),
        ),
        (f"{TEST_SLOTS}::test_only_runs_of_slots_that_are_copied_are_pinned",),
    ),
    Breakage(
        "all-slots-pinned",
        "While a portion is copied, no bucket of the worker is merged.",
        BOUNDED,
        (Edit("storage/pins.py", "if span is None or pin.", "if span is None or pins or pin."),),
        (f"{TEST_SLOTS}::test_only_runs_of_slots_that_are_copied_are_pinned",),
    ),
    Breakage(
        "pins-kept-after-the-cut",
        "A source remembers for ever what it has copied.",
        BOUNDED,
        (Edit(SLOTS, "        self._copier.forget(order.slots, database)\n", ""),),
        (f"{TEST_SLOTS}::test_portions_move_one_by_one_while_the_next_one_is_copied",),
    ),
    Breakage(
        "cut-waits-for-the-write",
        "A cut waits until the output of the last step is written, while the workers have nothing to do.",
        BOUNDED,
        (
            Edit(
                "coordinator/core.py",
                'if self.rescale.mode == "live" else None\n        return due if',
                'if self.rescale.mode == "none" else None\n        return due if',
            ),
        ),
        (f"{TEST_CORE}::test_a_cut_of_a_live_rescale_is_made_before_the_last_step_is_settled",),
    ),
    Breakage(
        "copies-wait-for-a-slower-source",
        "A source that has copied its portion waits for the others.",
        BOUNDED,
        (
            Edit(
                COPYING,
                '        assert not self._is_over, "copies are to be discarded"\n',
                "        if self._is_over or self._is_under_way:\n            return\n",
            ),
        ),
        (f"{TEST_COPYING}::test_sources_go_on_independently_of_each_other",),
    ),
    Breakage(
        "copies-without-end",
        "A source copies everything before the first cut, and what was copied first is not new any more.",
        BOUNDED,
        (Edit(COPYING, "< COPIED_PORTIONS_MAX:", "< COPIED_PORTIONS_MAX**9:"),),
        (f"{TEST_COPYING}::test_a_source_waits_while_portions_wait_for_their_cuts",),
    ),
    Breakage(
        "copies-of-other-slots",
        "A worker that has copied what nobody asked for is believed.",
        ONE_OWNER,
        (Edit(COPYING, "if answer.slots == NO_SLOTS or not", "if answer.slots == NO_SLOTS and not"),),
        (f"{TEST_COPYING}::test_a_source_that_has_copied_other_slots_is_lost",),
    ),
    Breakage(
        "hot-change-not-read",
        "A log with a hot change, which earlier releases made, is not read.",
        SILENCE,
        (Edit("io_kafka/step_log/layout_records.py", '= {"hot": "live"}', "= {}"),),
        (f"{TEST_LOG}::test_a_hot_change_of_an_earlier_release_goes_on_as_a_live_one",),
        tells="Input should be 'cold' or 'live'",
    ),
    Breakage(
        "pieces-of-any-cut",
        "A worker takes pieces that were sent for another cut.",
        ONE_OWNER,
        (Edit(SLOTS, "if message.number != order.number or len(buffers)", "if len(buffers)"),),
        (f"{TEST_SLOTS}::test_pieces_of_another_cut_are_refused",),
    ),
    Breakage(
        "cuts-without-a-step-between",
        "A live change makes all its cuts at one boundary.",
        BOUNDED,
        (Edit(PHASES, " or self.needs_checkpoint or self.bookkeeping.steps_due\n", " or self.needs_checkpoint\n"),),
        (f"{TEST_PHASES}::test_between_two_cuts_of_a_live_rescale_come_as_many_steps_as_it_is_told",),
    ),
    Breakage(
        "one-step-between-two-cuts",
        "A live change lets one step go between two cuts, however long they take.",
        BOUNDED,
        (
            Edit(
                PHASES,
                "replace(self, steps_due=steps_between, cuts",
                "replace(self, steps_due=min(1, steps_between), cuts",
            ),
        ),
        (f"{TEST_PHASES}::test_between_two_cuts_of_a_live_rescale_come_as_many_steps_as_it_is_told",),
    ),
    Breakage(
        "share-of-the-write-given-to-cuts",
        "The time in which the output of a step is written counts as if no step overlapped it, so cuts get more than their share.",
        BOUNDED,
        (Edit(BUDGET, "max(self._step_median_ms - write_ms, 0.1)", "max(self._step_median_ms, write_ms)"),),
        ("tests/coordinator/rescale/test_cut_budget.py::test_cuts_take_their_share_of_the_time",),
    ),
    Breakage(
        "portions-of-one-size",
        "A portion is as large as ever, however much of it is new at its cut.",
        BOUNDED,
        (Edit(BUDGET, "        if self._new_share is None:\n", "        if self._step_ms:\n"),),
        (
            "tests/coordinator/rescale/test_cut_budget.py::"
            "test_a_portion_has_so_many_bytes_that_what_is_new_at_its_cut_is_within_the_bound",
        ),
    ),
    Breakage(
        "step-within-a-round-of-a-protocol",
        "A step begins when the machines of a protocol have let some of the slots of a round move, and not all.",
        BOUNDED,
        (Edit(PHASES, "        return self.is_within_round\n", "        return False\n"),),
        (f"{TEST_PHASES}::test_a_round_of_a_protocol_ends_before_the_next_step_also_where_it_is_paused",),
    ),
    Breakage(
        "event-that-a-phase-does-not-know-ignored",
        "An event that cannot happen in the present phase of a machine is passed over.",
        SILENCE,
        (
            Edit(
                "base/machine.py",
                '            raise InvalidTransition(self.with_story(f"{name!r} cannot happen in the phase {before}"))\n',
                "            return\n",
            ),
        ),
        (f"{TEST_PHASES}::test_an_event_that_a_phase_does_not_know_is_refused_with_what_led_there",),
    ),
    Breakage(
        "turn-keeps-what-was-copied",
        "A rescale that gets another target goes on with the slots that were counted and copied for the one before.",
        ONE_OWNER,
        (
            Edit(
                PHASES,
                "        return _first_phase(self.owned, replace(self.aim, target=target), self.bookkeeping, is_recruited=False)\n",
                "        begun = _first_phase(self.owned, replace(self.aim, target=target), self.bookkeeping, is_recruited=False)\n"
                "        is_kept = isinstance(self, MovingPortions) and isinstance(begun, Weighing)\n"
                "        return replace(self, aim=begun.aim) if is_kept else begun  # type: ignore[return-value]\n",
            ),
        ),
        (f"{TEST_PHASES}::test_a_turn_forgets_what_was_copied_for_other_slots",),
    ),
    Breakage(
        "slots-that-were-not-copied-cut-with-a-portion",
        "When a portion was copied, all slots of its way move.",
        BOUNDED,
        (
            Edit(
                PHASES,
                "return Cut(portion.slots, portion.source",
                "return Cut(self.moves[portion.source, portion.destination], portion.source",
            ),
        ),
        (f"{TEST_PHASES}::test_the_cuts_of_a_live_rescale_move_what_was_copied_portion_by_portion",),
    ),
    Breakage(
        "rescale-forgotten-after-a-crash",
        "A run that finds a rescale under way begins as if there were none.",
        SILENCE,
        (
            Edit(
                PHASES,
                "    if intent is None or target is None:\n        return Idle(owned)\n",
                "    if intent is None or target is None or owned:\n        return Idle(owned)\n",
            ),
        ),
        (f"{TEST_PHASES}::test_a_run_goes_on_in_the_phase_that_is_left_to_do",),
    ),
    Breakage(
        "worker-leaves-during-a-copy",
        "A worker without slots leaves while it gets a copy, so the source waits for its answer for ever.",
        BOUNDED,
        (
            Edit(
                PHASES,
                "return None if at.is_checkpointing or self.has_copies else",
                "return None if at.is_checkpointing else",
            ),
        ),
        (f"{TEST_PHASES}::test_a_worker_that_gets_a_copy_does_not_leave_before_the_copy_is_over",),
    ),
    Breakage(
        "stop-waits-for-a-smaller-file",
        "A stop does not end the rewriting of a file.",
        BOUNDED,
        (
            Edit(
                "coordinator/checkpoints/checkpointing.py",
                "                crew.checkpoints.expedite_fold()\n",
                "                pass\n",
            ),
        ),
        (
            "tests/end_to_end/test_layouts.py::"
            "test_a_worker_looks_at_the_size_of_its_file_after_it_was_opened_and_after_slots_have_left",
        ),
    ),
    Breakage(
        "files-rewritten-during-a-change",
        "A worker rewrites its file between two cuts of a change.",
        BOUNDED,
        (
            Edit(
                "coordinator/checkpoints/checkpointing.py",
                "crew.checkpoints.begin_fold(may_rewrite=core.rescale.is_idle)",
                "crew.checkpoints.begin_fold(may_rewrite=True)",
            ),
        ),
        ("tests/coordinator/checkpoints/test_checkpointing.py::test_no_file_is_rewritten_during_a_rescale",),
    ),
    Breakage(
        "no-rest-between-chunks",
        "A file that is rewritten keeps a slow disk busy all the time.",
        BOUNDED,
        (Edit("storage/paced_writes.py", "max(REST_FACTOR * (now - chunk_began), began", "max(0.0, began"),),
        ("tests/storage/test_paced_writes.py::test_a_slow_disk_gets_rests_that_are_longer_than_its_writes",),
    ),
    Breakage(
        "worker-made-during-a-fold",
        "A new worker is made at a version that another one is about to follow.",
        VERSIONS,
        (
            Edit(
                PHASES, "may_be_made = self.is_recruited and not at.is_checkpointing", "may_be_made = self.is_recruited"
            ),
        ),
        (f"{TEST_PHASES}::test_no_worker_is_made_while_a_checkpoint_is_folded_or_steps_are_replayed",),
    ),
    Breakage(
        "change-settled-by-an-older-checkpoint",
        "A checkpoint with the owners of the target ends a change, although slots have moved since it was frozen.",
        ONE_OWNER,
        (Edit(COMPLETION, "if target is None or not is_moved or (placed", "if target is None or (placed"),),
        (f"{TEST_PHASES}::test_after_a_turn_the_slots_go_back_and_a_checkpoint_of_before_does_not_settle_that",),
    ),
    Breakage(
        "owners-that-nobody-gave",
        "The step log takes a checkpoint in which a slot belongs to somebody whom no layout gives it.",
        ONE_OWNER,
        (Edit(RULES, "        if foreign != NO_SLOTS:\n", "        if foreign is None:\n"),),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "cut-done-twice",
        "A worker does not look whether it has done a cut already.",
        ONE_OWNER,
        (
            Edit(
                CUT,
                'if it owns some of the slots."""\n    if transaction.get_cut() >= number:\n',
                'if it owns some of the slots."""\n    if number.batch < 0:\n',
            ),
        ),
        (f"{TEST_CUT}::test_the_output_does_not_show_that_slots_have_moved",),
        tells="which the worker owns already",
    ),
    Breakage(
        "version-asked-of-all-folders",
        "A version is opened only if every folder has it, also that of a worker that owns nothing in it.",
        VERSIONS,
        (
            Edit(
                BINDING,
                "any(_has(copy, birth, version) for copy in held.get(number, ())) for number, birth in births.items()",
                "any(version in copy.versions for copy in held.get(number, ())) for number in {*held, *births}",
            ),
        ),
        (f"{TEST_BINDING}::test_a_worker_that_owns_nothing_is_not_asked_for",),
    ),
    Breakage(
        "checkpoint-with-the-owners-of-the-layout",
        "A checkpoint during a change records who owned what before the change.",
        ONE_OWNER,
        (
            Edit(
                COMPLETION,
                "    return Ownership.of({worker: births[worker] for worker in staying}, placement.owned)\n",
                "    assert state.layout is not None and births\n    return state.layout.placed\n",
            ),
        ),
        (f"{TEST_LAYOUTS}::test_a_checkpoint_records_who_owns_what_at_that_moment",),
    ),
    Breakage(
        "even-split",
        "A change gives each member neighbouring shards, so half of the state moves from two workers to three.",
        "no repeated work",
        (
            Edit(
                "engine/model/layout.py",
                "        owners = quota(stretch(self.owners, max(needed, self.shards)), members)\n",
                "        shards, ordered = max(needed, self.shards), sorted(members)\n"
                "        owners = tuple(ordered[shard * len(ordered) // shards] for shard in range(shards))\n",
            ),
        ),
        (
            f"{TEST_LAYOUT}::test_from_any_number_of_workers_to_the_next_and_back_the_minimum_moves",
            f"{TEST_LAYOUT}::test_two_to_three_workers_move_a_third",
        ),
    ),
    Breakage(
        "partitions-stay-with-workers-that-left",
        "Input partitions keep their readers, also if these leave.",
        SILENCE,
        (
            Edit(
                "engine/model/placement.py",
                "        readers = quota([self.readers[topic][number] for topic, number in every], owned)\n",
                "        readers = [self.readers[topic][number] for topic, number in every]\n",
            ),
        ),
        (f"{TEST_LAYOUT}::test_other_members_read_all_partitions_and_own_what_they_owned",),
    ),
    Breakage(
        "query-sees-copies",
        "A query counts the copies of slots that their worker does not own.",
        ONE_OWNER,
        (
            Edit(
                DATABASE,
                "            yield present.last, Transaction(tuple(layers), writable=False)\n",
                "            shown = Transaction(tuple(layers), writable=False)\n"
                "            shown._hidden = type(shown._hidden)(SlotSet(()))\n"
                "            yield present.last, shown\n",
            ),
        ),
        (f"{TEST_CUT}::test_a_query_does_not_see_copies",),
    ),
    Breakage(
        "worker-that-is-gone-fails-a-query",
        "A query needs every database that circuit.json names, also that of a worker that owned nothing any more.",
        SILENCE,
        (
            Edit(
                "stepwell/inspection/view_contents.py",
                "                gone = fault\n    return found, gone\n",
                "                raise\n    return found, gone\n",
            ),
        ),
        (f"{TEST_VIEWS}::test_a_worker_that_was_empty_in_the_checkpoint_is_not_missed",),
        tells="There is no database",
    ),
    Breakage(
        "query-waits-for-a-database-that-is-gone",
        "A query looks for half a minute for a database that is lost.",
        SILENCE,
        (
            Edit(
                "stepwell/inspection/view_contents.py",
                "        if gone is not None and (time.monotonic() > deadline or (len(versions) < 2 and versions == before)):\n",
                "        if gone is not None and time.monotonic() > deadline:\n",
            ),
        ),
        (f"{TEST_VIEWS}::test_a_worker_that_was_empty_in_the_checkpoint_is_not_missed",),
    ),
    Breakage(
        "query-ends-at-an-empty-worker",
        "A query has no rows of the workers behind one that has none.",
        SILENCE,
        (
            Edit(
                "stepwell/inspection/interval_rows.py",
                "    table = _without_empty_batches(table)\n",
                "",
            ),
        ),
        ("tests/stepwell/test_query.py::test_the_rows_of_all_workers_are_asked_wherever_they_are",),
    ),
    Breakage(
        "doctor-misses-workers-without-slots",
        "The doctor advises to rebuild a state of which a database without slots was removed.",
        SILENCE,
        (
            Edit(
                "stepwell/doctor/state.py",
                "    for version in sorted({version for held",
                '    if faults:\n        return Check("state", "FAIL", str(faults[0]), _REBUILD)\n'
                "    for version in sorted({version for held",
            ),
        ),
        (f"{TEST_VIEWS}::test_a_worker_that_was_empty_in_the_checkpoint_is_not_missed",),
    ),
    Breakage(
        "slots-of-the-last-version-in-both",
        "The slots that a database owned before its last checkpoint are told to be those after it.",
        ONE_OWNER,
        (
            Edit(
                DATABASE,
                "                layers = (last,) if is_last else (to_former, last)\n",
                "                layers = (last,) if is_last or to_former else (last,)\n",
            ),
        ),
        (f"{TEST_VIEWS}::test_two_versions_of_a_database_have_their_own_slots",),
    ),
    Breakage(
        "change-without-room",
        "A change begins although the disk of a destination has too little room.",
        BOUNDED,
        (
            Edit(
                "coordinator/rescale/disk_space.py",
                "        if moved > free[host]:\n",
                "        if free[host] < 0 < moved:\n",
            ),
        ),
        (f"{TEST_ROOM}::test_a_change_without_room_on_one_of_its_hosts_is_refused_with_the_numbers",),
    ),
    Breakage(
        "pause-begins-after-the-first-cut",
        "The time of a cut that begins as soon as the copies are made does not count for the pause.",
        SILENCE,
        (
            Edit(
                "coordinator/rescale/rescale_shown.py",
                "        if self._blocked_since is None:\n            self._blocked_since = self._monotonic()\n\n    def look",
                "        self._blocked_since = None\n\n    def look",
            ),
        ),
        ("tests/coordinator/rescale/test_rescale_shown.py::test_a_pause_begins_with_the_first_action_of_the_change",),
    ),
    Breakage(
        "hosts-of-new-workers-not-looked-at",
        "A change begins although the host of a new worker has too little room.",
        BOUNDED,
        (
            Edit(
                "coordinator/rescale/beside_steps.py",
                "if isinstance(self._machine.phase, WantedRescale) and self._machine.phase.is_recruited:\n",
                "if isinstance(self._machine.phase, AllMoved):\n",
            ),
        ),
        ("tests/end_to_end/test_hosts.py::test_a_change_is_refused_if_the_host_of_a_new_worker_has_no_room",),
    ),
    Breakage(
        "room-of-each-worker-alone",
        "Two workers that get slots on one host may each fill its disk.",
        BOUNDED,
        (
            Edit(
                "coordinator/rescale/disk_space.py",
                "needed[host_of[destination]] = needed.get(host_of[destination], 0) + moved",
                "needed[host_of[destination]] = max(needed.get(host_of[destination], 0), moved)",
            ),
        ),
        (f"{TEST_ROOM}::test_what_goes_to_two_workers_of_one_host_counts_together",),
    ),
    Breakage(
        "pause-slows-the-rate",
        "The time in which a user has paused a change counts for its rate, so the time to go is too long.",
        SILENCE,
        (Edit(PROGRESS, "return now - began_at - self._paused_s - self._paused_until(now)", "return now - began_at"),),
        (f"{TEST_PROGRESS}::test_the_rate_is_that_of_the_time_in_which_the_change_was_not_paused",),
    ),
    Breakage(
        "pause-of-a-change-not-timed",
        "A change says that it has kept no step from beginning.",
        SILENCE,
        (
            Edit(
                "coordinator/core.py",
                "blocks_steps or self.rescale.next(log, self._at_boundary(log)) is not None",
                "blocks_steps",
            ),
        ),
        (f"{TEST_CORE}::test_a_rescale_that_has_something_to_do_holds_up_the_next_step",),
    ),
)
