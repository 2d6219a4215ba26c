"""Changes of the layout: who owns what, and what a start believes of it. The simulator has mutations of the same rules
(tests/simulator/sabotage.py)."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CHANGE, LAYOUTS, START = "coordinator/change.py", "coordinator/layouts.py", "coordinator/start.py"
BINDING, SLOTS, RULES = "coordinator/binding.py", "engine/resident/slots.py", "io_kafka/step_log/layout_rules.py"
TEST_CHANGE, TEST_LAYOUTS = "tests/coordinator/test_change.py", "tests/coordinator/test_layouts.py"
TEST_BINDING, TEST_SLOTS = "tests/coordinator/test_binding.py", "tests/engine/resident/test_slots.py"
STAGING, MOVES, TRACE = "engine/run/staging.py", "engine/state/moves.py", "engine/state/trace.py"
TEST_CUT = "tests/engine/test_cut.py"
ROSTER, BUDGET = "engine/resident/roster.py", "coordinator/cut_budget.py"
TEST_ROSTER = "tests/engine/resident/test_roster.py"
TEST_LOG = "tests/io_kafka/test_step_log.py"
ONE_OWNER, SILENCE, BOUNDED, VERSIONS = "7 one owner", "no silence", "9 bounded", "6 two versions"

LAYOUT = (
    Breakage(
        "checkpoints-before-a-change",
        "The next checkpoint begins as soon as one is complete. Where each takes as long as the interval, a change waits for ever.",
        BOUNDED,
        (
            Edit(
                "coordinator/core.py",
                "        return not isinstance(due, LogChange | Staff | Bury) and self.request_checkpoint()\n",
                "        return due is not None or self.request_checkpoint()\n",
            ),
        ),
        (
            "tests/coordinator/test_core.py::test_a_change_begins_although_each_checkpoint_takes_as_long_as_the_interval_between_two",
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
                START,
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
        (Edit(START, "    if state.is_former:\n", "    if state.is_former is None:\n"),),
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
                "versions.update({n: _reported(held[n], tasks.host_of[n], births[n]) for n in chosen})",
                "versions.update({n: _reported(copies[n], tasks.host_of[n], births[n]) for n in chosen})",
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
                "return self._unanswered(sorted(self._beside[name]), name)",
                "return self._unanswered(sorted(self.members), name)",
            ),
        ),
        (f"{TEST_ROSTER}::test_a_worker_that_has_joined_since_is_not_waited_for",),
    ),
    Breakage(
        "step-times-not-counted",
        "The bound of a cut is that of a service that has run no step.",
        BOUNDED,
        (Edit(BUDGET, "        self._step_ms.append(took_ms)\n", "        pass\n"),),
        ("tests/coordinator/test_cut_budget.py::test_a_cut_takes_a_part_of_a_step_at_the_rate_of_the_cuts_before",),
    ),
    Breakage(
        "copies-seen-before-the-cut",
        "Scans show copies of slots that the worker does not own.",
        ONE_OWNER,
        (
            Edit(
                "storage/transaction.py", "return found if self._staged.is_empty else (", "return found if found else ("
            ),
        ),
        (f"{TEST_SLOTS}::test_what_was_copied_is_not_sent_again_in_the_cut",),
    ),
    Breakage(
        "own-rows-hidden-with-copies",
        "A bucket that is named after a slot of another worker is hidden with the copies of that slot.",
        ONE_OWNER,
        (
            Edit(
                STAGING,
                "            moves.make_room(transaction, table, slots)\n        transaction.set",
                "            pass\n        transaction.set",
            ),
        ),
        (f"{TEST_CUT}::test_the_output_does_not_show_that_slots_were_copied_before_they_moved",),
    ),
    Breakage(
        "rows-filed-behind-an-edge-of-copies",
        "A cut between two ranges of copies files rows into the second one.",
        ONE_OWNER,
        (Edit(MOVES, "    edge = runs.free_from(edge)\n", ""),),
        (f"{TEST_CUT}::test_the_output_does_not_show_that_slots_were_copied_before_they_moved",),
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
        (Edit(STAGING, "    for key in found - kept:\n", "    for key in found - found:\n"),),
        (f"{TEST_CUT}::test_copies_of_runs_that_are_gone_do_not_count",),
    ),
    Breakage(
        "copies-kept-when-a-database-is-opened",
        "A worker keeps the copies that a checkpoint has, although nobody may ever take them over.",
        BOUNDED,
        (
            Edit(
                "engine/resident/copies.py", "                staging.discard(transaction)\n", "                pass\n"
            ),
        ),
        ("tests/engine/resident/test_slots.py::test_copies_are_discarded_at_both_ends",),
    ),
    Breakage(
        "hot-change-cuts-before-it-has-copied",
        "The steps of a hot change stand for everything, as in a cold one.",
        "no repeated work",
        (
            Edit(
                CHANGE,
                '            case "hot":\n                return self.is_copied\n            case _:',
                '            case "hot":\n                return True\n            case _:',
            ),
        ),
        (f"{TEST_CHANGE}::test_a_hot_change_cuts_when_all_is_copied_and_holds_the_steps_until_all_has_moved",),
    ),
    Breakage(
        "databases-of-a-newer-run-removed",
        "A run that was fenced removes the database of a worker that its successor has made.",
        "5 fences",
        (
            Edit(
                BINDING,
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
                SLOTS,
                "return slots if within >= len(numbers) else slots.first(max(1, within))",
                "return slots.first(within or len(numbers)) if bytes_max < 0 else slots",
            ),
        ),
        (f"{TEST_SLOTS}::test_a_cut_moves_as_many_slots_as_its_bytes_allow_and_at_least_one",),
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
        (Edit(CHANGE, "return not self.is_crowded and self.steps_due == 0 and", "return not self.is_crowded and"),),
        (f"{TEST_CHANGE}::test_between_two_cuts_of_a_live_change_come_as_many_steps_as_it_is_told",),
    ),
    Breakage(
        "one-step-between-two-cuts",
        "A live change lets one step go between two cuts, however long they take.",
        BOUNDED,
        (Edit(CHANGE, "self.owned, self.steps_due = owned, steps_between", "self.owned, self.steps_due = owned, 1"),),
        (f"{TEST_CHANGE}::test_between_two_cuts_of_a_live_change_come_as_many_steps_as_it_is_told",),
    ),
    Breakage(
        "cuts-cost-what-they-take",
        "The number of steps between two cuts does not count the overlap that a cut costs.",
        BOUNDED,
        (Edit(BUDGET, "math.ceil((cuts_ms + write_ms) / ", "math.ceil(cuts_ms / "),),
        (
            "tests/coordinator/test_cut_budget.py::test_cuts_and_the_overlap_that_they_cost_take_their_share_of_the_time",
        ),
    ),
    Breakage(
        "step-within-a-round-of-a-protocol",
        "A step begins when the machines of a protocol have let some of the slots of a round move, and not all.",
        BOUNDED,
        (Edit(CHANGE, "                return self.is_within_round\n", "                return False\n"),),
        (
            f"{TEST_CHANGE}::test_a_round_of_a_protocol_ends_before_the_next_step_also_where_the_change_is_paused",
            f"{TEST_CHANGE}::test_a_change_ends_with_the_owners_of_its_target",
        ),
    ),
    Breakage(
        "slots-over-the-budget-cut-whole",
        "A live change does not wait for the copies of slots that exceed its budget.",
        BOUNDED,
        (Edit(CHANGE, " and (self.is_copied or not self.to_copy(log))\n", "\n"),),
        (f"{TEST_CHANGE}::test_slots_over_the_budget_of_a_live_change_are_copied_and_move_first",),
    ),
    Breakage(
        "copied-slots-counted-in-a-cut",
        "A cut counts the bytes of slots that were copied, so it moves one of them at a time.",
        BOUNDED,
        (Edit("engine/resident/slots.py", "self._bytes[numbers] * uncopied", "self._bytes[numbers]"),),
        ("tests/engine/resident/test_slots.py::test_slots_that_were_copied_do_not_count_for_the_bytes_of_a_cut",),
    ),
    Breakage(
        "worker-leaves-during-a-copy",
        "A worker without slots leaves while it gets a copy, so the source waits for its answer for ever.",
        BOUNDED,
        (Edit(CHANGE, "return None if is_folding or self.is_copying else", "return None if is_folding else"),),
        (f"{TEST_CHANGE}::test_a_worker_that_gets_a_copy_does_not_leave_before_the_copy_is_over",),
    ),
    Breakage(
        "all-slots-over-the-budget-at-once",
        "A live change copies all slots over its budget, and then cuts them together.",
        BOUNDED,
        (Edit(CHANGE, "return self.heavy.first(COPIED_SLOTS_MAX)", "return self.heavy"),),
        (f"{TEST_CHANGE}::test_slots_over_the_budget_are_copied_and_cut_in_portions",),
    ),
    Breakage(
        "stop-waits-for-a-smaller-file",
        "A stop does not end the rewriting of a file.",
        BOUNDED,
        (Edit("coordinator/checkpointing.py", "                crew.hurry()\n", "                pass\n"),),
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
                "coordinator/checkpointing.py",
                "crew.begin_fold(may_rewrite=core.change.is_idle(self._writer.state))",
                "crew.begin_fold(may_rewrite=True)",
            ),
        ),
        ("tests/coordinator/test_checkpointing.py::test_no_file_is_rewritten_while_the_layout_changes",),
    ),
    Breakage(
        "no-rest-between-chunks",
        "A file that is rewritten keeps a slow disk busy all the time.",
        BOUNDED,
        (Edit("storage/paced.py", "max(REST_FACTOR * (now - chunk_began), began", "max(0.0, began"),),
        ("tests/storage/test_paced.py::test_a_slow_disk_gets_rests_that_are_longer_than_its_writes",),
    ),
    Breakage(
        "worker-made-during-a-fold",
        "A new worker is made at a version that another one is about to follow.",
        VERSIONS,
        (Edit(CHANGE, "if self.is_recruited and not is_folding else None", "if self.is_recruited else None"),),
        (f"{TEST_CHANGE}::test_no_worker_is_made_while_a_checkpoint_is_folded_or_steps_are_replayed",),
    ),
    Breakage(
        "change-settled-by-an-older-checkpoint",
        "A checkpoint with the owners of the target ends a change, although slots have moved since it was frozen.",
        ONE_OWNER,
        (Edit(LAYOUTS, "if target is None or not is_moved or (placed", "if target is None or (placed"),),
        (f"{TEST_CHANGE}::test_after_a_turn_the_slots_go_back_and_a_checkpoint_of_before_does_not_settle_that",),
    ),
    Breakage(
        "owners-that-nobody-gave",
        "The step log takes a checkpoint in which a slot belongs to somebody whom no layout gives it.",
        ONE_OWNER,
        (Edit(RULES, "        if foreign != NO_SLOTS:\n", "        if foreign is None:\n"),),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
)
