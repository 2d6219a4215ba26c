"""Mistakes in what the coordinator does with the checkpoint store."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

STORING, TESTS = "coordinator/storing", "tests/coordinator/storing"
TEST_COLLECTING, TEST_MACHINE = f"{TESTS}/test_collecting.py", f"{TESTS}/test_machine.py"
TEST_VERIFYING = f"{TESTS}/test_verifying.py"
TEST_BINDING, TEST_LOG = "tests/coordinator/starting/test_binding.py", "tests/io_kafka/test_step_log.py"
TEST_STORE = "tests/end_to_end/test_store.py"
TEST_SHRINKING = "tests/simulator/test_shrinking.py"
TEST_REPLACING = "tests/simulator/test_replacing.py"
VERSIONS, SILENCE = "6 two versions", "no silence"

STORING_OF_RUNS = (
    Breakage(
        "newer-objects-collected",
        "What another run uploads beside this one is deleted.",
        VERSIONS,
        (
            Edit(
                f"{STORING}/collecting.py",
                'if named is None or int(named["version"]) > record.version.version:',
                "if named is None:",
            ),
        ),
        (f"{TEST_COLLECTING}::test_what_no_version_needs_goes_and_everything_else_stays",),
    ),
    Breakage(
        "objects-of-a-later-term-collected",
        "A run that has lost the pipeline deletes what its successor has uploaded.",
        "5 fences",
        (Edit(f"{STORING}/collecting.py", ".number <= term.number", ".number >= 0"),),
        (f"{TEST_COLLECTING}::test_what_no_version_needs_goes_and_everything_else_stays",),
    ),
    Breakage(
        "backups-not-looked-at",
        "What only a backup needs is deleted.",
        VERSIONS,
        (
            Edit(
                f"{STORING}/collecting.py",
                "needed.update(packs_of(read_manifest(store, backup, None)))",
                "needed.update([backup])",
            ),
        ),
        (
            f"{TEST_COLLECTING}::test_a_backup_keeps_its_packs_until_it_is_deleted",
            f"{TEST_COLLECTING}::test_nothing_is_deleted_while_a_backup_cannot_be_read",
        ),
    ),
    Breakage(
        "lost-object-not-stored-again",
        "What the store has lost of the stored version is noticed, and nothing is done before the next checkpoint.",
        VERSIONS,
        (
            Edit(
                f"{STORING}/last_stored.py",
                "return None if stored is None or self._known == (stored, None) else stored.version",
                "return None if stored is None else stored.version",
            ),
        ),
        (f"{TEST_STORE}::test_a_run_ends_when_its_last_checkpoint_is_stored",),
    ),
    Breakage(
        "sizes-of-objects-not-compared",
        "An object that was cut off counts as there.",
        SILENCE,
        (Edit(f"{STORING}/presence.py", "if sizes.get(name) != size]", "if name not in sizes]"),),
        (f"{TEST_COLLECTING}::test_what_the_stored_version_needs_and_the_store_has_lost_is_told",),
    ),
    Breakage(
        "deleted-backup-restored",
        "The next run relies on a backup that may be deleted before.",
        VERSIONS,
        (Edit("stepwell/commands/restore.py", "if not wanted.is_last:", "if wanted.is_last:"),),
        (f"{TEST_STORE}::test_a_backup_keeps_a_version_to_which_the_pipeline_can_go_back",),
    ),
    Breakage(
        "any-manifest-taken",
        "The manifest that is there is taken for the one that the step log names.",
        SILENCE,
        (
            Edit(
                f"{STORING}/manifest.py",
                "if digest is not None and xxh3_128_hexdigest(content) != digest:",
                "if digest is not None and not content:",
            ),
        ),
        (f"{TEST_COLLECTING}::test_a_manifest_is_the_one_that_the_log_names",),
    ),
    Breakage(
        "store-before-the-hosts",
        "The stored version is restored although all hosts have a later one.",
        VERSIONS,
        (
            Edit(
                "coordinator/starting/workers/binding.py",
                "if restores and expected.restorable is not None and _latest_held(held, expected) is None:",
                "if restores and expected.restorable is not None:",
            ),
        ),
        (f"{TEST_BINDING}::test_a_version_that_all_hosts_have_is_better_than_the_store",),
    ),
    Breakage(
        "verified-by-its-header",
        "`backup verify` reads no more of an object than its first record.",
        VERSIONS,
        (
            Edit(
                f"{STORING}/verifying.py",
                "            for _ in records_of(self.store, packed, header):\n                pass\n",
                "            next(iter(records_of(self.store, packed, header)), None)\n",
            ),
        ),
        (f"{TEST_VERIFYING}::test_a_changed_byte_is_found_wherever_it_is",),
    ),
    Breakage(
        "steps-since-the-stored-version-forgotten",
        "The steps that a restored database replays are forgotten, and the log is truncated before them.",
        VERSIONS,
        (
            Edit(
                "coordinator/checkpoints/completion.py",
                ", *(stored.step for stored in kept)])",
                "])",
            ),
        ),
        (f"{TEST_BINDING}::test_steps_that_a_copy_on_another_host_may_replay_are_kept",),
    ),
    Breakage(
        "layout-not-gone-back",
        "After a restore the log still says that the workers of a later layout own the slots.",
        "7 one owner",
        (
            Edit(
                f"{STORING}/restoring.py",
                "if stored is None or stored.version != version or why_not_placed(stored.placed, state.layout_ground) is None:",
                "if stored is None or stored.version == version or why_not_placed(stored.placed, state.layout_ground) is None:",
            ),
        ),
        (f"{TEST_STORE}::test_a_change_of_the_layout_that_the_store_does_not_have_is_undone_and_made_again",),
    ),
    Breakage(
        "damaged-database-trusted",
        "A damaged database is kept because it names the version that is wanted.",
        SILENCE,
        (
            Edit(
                "engine/resident/storing.py",
                "if trusts and found.identity == self.identity and version in found.versions:",
                "if found.identity == self.identity and version in found.versions:",
            ),
        ),
        (f"{TEST_STORE}::test_a_damaged_database_is_made_again",),
        tells="RecoveryFailed",
    ),
    Breakage(
        "end-before-the-upload",
        "A run ends before its last checkpoint is in the store.",
        VERSIONS,
        (Edit(f"{STORING}/storing.py", "if now < self._end_deadline:", "if now > self._end_deadline:"),),
        (f"{TEST_STORE}::test_a_run_ends_when_its_last_checkpoint_is_stored",),
    ),
    Breakage(
        "hand-over-waits-for-the-store",
        "A service that hands over ends only when its last checkpoint is in the store, so the pause has an upload in it.",
        SILENCE,
        (Edit("coordinator/loop.py", "        if self._parts.in_force.is_hand_over:\n            return False\n", ""),),
        (f"{TEST_STORE}::test_a_hand_over_does_not_wait_for_the_store",),
    ),
    Breakage(
        "half-restored-taken-for-whole",
        "A start binds databases of which some were restored and others are of versions with other owners.",
        VERSIONS,
        (
            Edit(
                "coordinator/starting/workers/binding.py",
                "    held.update({n: set() for n in pools.keys() - held.keys() if any(c.standing is Standing.HELD for c in pools[n])})\n",
                "",
            ),
        ),
        (
            "tests/coordinator/starting/test_binding.py::test_a_restore_that_was_broken_off_after_a_rescale_is_made_again",
        ),
    ),
    Breakage(
        "a-lost-host-is-replaced-for-ever",
        "A replacement goes on for tasks elsewhere although a recovery has brought all workers of the host to others.",
        "a rescale ends",
        (
            Edit(
                "coordinator/rescale/beside_steps.py",
                "            if hosts is not None and not any(",
                "            if hosts is not None and all(",
            ),
        ),
        (
            "tests/simulator/test_shrinking.py::test_a_host_that_is_lost_while_it_is_replaced_needs_no_replacement_any_more",
        ),
    ),
    Breakage(
        "quick-version-not-collected",
        "What a version leaves behind that is stored during a deletion stays in the store when the run ends.",
        VERSIONS,
        (
            Edit(
                f"{STORING}/collecting.py",
                "        return self._due is not None or self._deleting is not None\n",
                "        return self._deleting is not None and not self._deleting.is_over\n",
            ),
        ),
        (f"{TESTS}/test_collecting.py::test_a_version_that_is_stored_meanwhile_has_its_turn",),
    ),
    Breakage(
        "late-store-ignored",
        "The steps go on although the settings say that they wait for a store that is late.",
        "9 bounded",
        (
            Edit(
                f"{STORING}/storing.py",
                'self._settings.late == "pause"',
                'self._settings.late == "continue"',
            ),
        ),
        (f"{TEST_STORE}::test_a_store_that_is_away_costs_no_step_until_it_is_late[pause]",),
    ),
    Breakage(
        "lag-begins-anew",
        "How long a checkpoint has waited for the store begins anew with each failure.",
        "9 bounded",
        (
            Edit(
                f"{STORING}/machine.py",
                "        self.failures += 1\n",
                "        self.failures += 1\n        self.waits_since = now\n",
            ),
        ),
        (
            f"{TEST_STORE}::test_a_store_that_is_away_costs_no_step_until_it_is_late[pause]",
            f"{TEST_MACHINE}::test_faults_keep_the_lag",
        ),
    ),
    Breakage(
        "loads-of-the-stored-version-deleted",
        "The end of a transition deletes loads that the stored version still needs.",
        VERSIONS,
        (
            Edit(
                "coordinator/transition/transitions.py",
                "is_needed and bool(self._tables_gone())",
                "is_needed and not self._tables_gone()",
            ),
        ),
        (f"{TEST_STORE}::test_loads_that_the_stored_version_reads_stay_until_a_later_one_is_stored",),
    ),
    Breakage(
        "stored-without-completion",
        "The log takes a stored version that was never complete.",
        VERSIONS,
        (
            Edit(
                "io_kafka/step_log/rules.py",
                "if not log.checkpoints or (version.version > log.checkpoints[-1].version and not record.restores):",
                "if not log.checkpoints:",
            ),
        ),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "later-checkpoints-after-a-restore",
        "After a restore, later checkpoints still count.",
        VERSIONS,
        (
            Edit(
                "io_kafka/step_log/state.py",
                "only = replace(self, stored=record, intent=None, checkpoints=(record.version,))",
                "only = replace(self, stored=record, intent=None)",
            ),
        ),
        (f"{TEST_LOG}::test_after_a_restore_only_the_restored_version_counts",),
    ),
    Breakage(
        "companions-of-a-new-state",
        "A new pipeline begins with fewer workers than it was asked for.",
        SILENCE,
        (Edit("coordinator/starting/workers/shrinking.py", " or expected.is_fresh", ""),),
        (f"{TEST_SHRINKING}::test_a_new_state_does_not_begin_with_fewer_workers_than_were_asked_for",),
    ),
    Breakage(
        "companions-where-state-is-missing",
        "Companions come although a database is on no host and not in the store.",
        SILENCE,
        (
            Edit(
                "coordinator/starting/workers/shrinking.py",
                "    if not isinstance(bound, Bound):\n        return None\n",
                "    if not isinstance(bound, Bound):\n        return Counter(candidates)\n",
            ),
        ),
        (f"{TEST_SHRINKING}::test_a_database_that_is_nowhere_else_is_waited_for",),
    ),
    Breakage(
        "companions-stay",
        "The run goes on with companions, and no change leads to the workers that have task slots.",
        SILENCE,
        (Edit("coordinator/rescale/rescaling.py", "if found.companions:", "if False:"),),
        (f"{TEST_SHRINKING}::test_a_run_goes_on_with_as_many_workers_as_there_are_slots",),
    ),
    Breakage(
        "companions-in-a-change-under-way",
        "A change that is under way ends with companions.",
        SILENCE,
        (
            Edit(
                "coordinator/rescale/wishes.py",
                'now.with_members(staying), "replan"',
                'now, "replan"',
            ),
        ),
        (f"{TEST_SHRINKING}::test_a_host_is_lost_during_a_change_of_the_layout",),
    ),
    Breakage(
        "a-companion-outlives-its-task",
        "The process of a companion does not notice that its task has ended.",
        "5 fences",
        (Edit("engine/resident/companion_process.py", '    end_process("its task has ended")', "    return"),),
        ("tests/engine/resident/test_companions.py::test_a_companion_registers_and_ends_with_its_task",),
    ),
    Breakage(
        "a-task-leaves-its-companions",
        "A task ends while its companions work, and Spark ends its executor with them.",
        SILENCE,
        (Edit("engine/resident/companions.py", "            process.wait()", "            process.poll()"),),
        ("tests/engine/resident/test_companions.py::test_a_task_ends_after_its_companions",),
    ),
    Breakage(
        "new-workers-on-the-former-host",
        "A replacement takes the first tasks that come, also on the host that is to be free.",
        SILENCE,
        (
            Edit(
                "coordinator/rescale/hosts.py",
                "return is_wanted and not task.registered.is_on(hosts.avoided)",
                "return True",
            ),
        ),
        (f"{TEST_REPLACING}::test_everything_of_a_host_moves_although_tasks_come_to_it_first",),
    ),
    Breakage(
        "the-log-forgets-the-host",
        "A run that goes on with a replacement does not know which host is to be free.",
        SILENCE,
        (Edit("coordinator/rescale/rescaling.py", "hosts=wish.hosts,", "hosts=None,"),),
        (f"{TEST_REPLACING}::test_a_replacement_is_broken_off_at_every_point",),
    ),
    Breakage(
        "no-task-for-those-that-came-wrong",
        "A replacement waits for tasks that Spark has started on the former host.",
        SILENCE,
        (Edit("coordinator/rescale/recruiting.py", "            crew.recruiting.recruit_another()\n", ""),),
        (f"{TEST_REPLACING}::test_everything_of_a_host_moves_although_tasks_come_to_it_first",),
    ),
    Breakage(
        "slots-shared-out-in-a-replacement",
        "A replacement moves more than what its host has.",
        SILENCE,
        (
            Edit(
                "engine/model/layout.py",
                "tuple(instead.get(owner, owner) for owner in self.owners)",
                "quota(self.owners, members)",
            ),
        ),
        ("tests/engine/test_layout.py::test_new_members_take_the_place_of_others",),
    ),
    Breakage(
        "restored-revision-unknown",
        "A run that a backup leads back to before an ended transition does not know the revision of then.",
        "replay",
        (
            Edit(
                "coordinator/transition/course.py",
                "known = [passage.before for passage in revisions.passages]",
                "known: list[RevisionRecord] = []",
            ),
        ),
        ("tests/end_to_end/test_store.py::test_a_transition_after_the_stored_version_is_replayed_from_the_store",),
    ),
)
