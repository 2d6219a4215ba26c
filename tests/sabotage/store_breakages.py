"""Mistakes in the checkpoint store."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

REMOTE, TESTS = "storage/remote", "tests/storage/remote"
TEST_RESTORING, TEST_UPLOADING = f"{TESTS}/test_restoring.py", f"{TESTS}/test_uploading.py"

CHECKPOINT_STORE = (
    Breakage(
        "restored-without-the-seal",
        "A restored database is not compared with the checksum that the version had.",
        "no silence",
        (
            Edit(
                f"{REMOTE}/restoring.py",
                "if filling.checksum != chain.seal or filling.table_bytes != chain.table_bytes:",
                "if filling.table_bytes != chain.table_bytes:",
            ),
        ),
        (f"{TEST_RESTORING}::test_a_chain_that_names_other_packs_is_refused",),
    ),
    Breakage(
        "delta-over-a-gap",
        "The deltas that the spool has are uploaded, although one before them is missing.",
        "6 two versions",
        (
            Edit(
                f"{REMOTE}/spool.py",
                "            return None\n        found.append(delta)\n",
                "            break\n        found.append(delta)\n",
            ),
        ),
        (
            f"{TESTS}/test_spool.py::test_a_path_leads_through_whole_version_ids",
            f"{TEST_UPLOADING}::test_a_gap_in_the_spool_makes_a_base[lost]",
            f"{TESTS}/test_model.py::TestModel",
        ),
        tells="ForeignPack",
    ),
    Breakage(
        "restored-over-a-gap",
        "A restore takes each pack that the chain names, whatever it is.",
        "no silence",
        (Edit(f"{REMOTE}/restoring.py", "    reader.expect(header)\n", "    assert header.to == packed.to\n"),),
        (
            f"{TEST_RESTORING}::test_a_chain_that_names_other_packs_is_refused",
            f"{TEST_RESTORING}::test_each_damage_of_each_object_is_named",
        ),
    ),
    Breakage(
        "restored-without-tombstones",
        "A restore skips the tombstones of deltas.",
        "6 two versions",
        (
            Edit(
                f"{REMOTE}/restoring.py",
                "    yield from reader.records()\n",
                "    yield from (each for each in reader.records() if not records.is_tombstone(each[1]))\n",
            ),
        ),
        (f"{TEST_RESTORING}::test_a_deleted_record_stays_deleted", f"{TESTS}/test_model.py::TestModel"),
        tells="DamagedStore",
    ),
    Breakage(
        "earlier-pack-counts",
        "Of the packs that have a record, the earliest counts.",
        "6 two versions",
        (
            Edit(
                f"{REMOTE}/restoring.py",
                "    yield streams[::-1]\n\n",
                "    yield streams\n\n",
            ),
        ),
        (f"{TEST_RESTORING}::test_each_stored_version_can_be_restored", f"{TESTS}/test_model.py::TestModel"),
        tells="DamagedStore",
    ),
    Breakage(
        "another-object-restored",
        "The digest of an object is not compared with that of its chain.",
        "no silence",
        (
            Edit(
                f"{REMOTE}/restoring.py",
                "    if reader.read() != WrittenObject(packed.bytes, packed.digest):\n",
                "    if reader.read().bytes != WrittenObject(packed.bytes, packed.digest).bytes:\n",
            ),
        ),
        (f"{TEST_RESTORING}::test_a_pack_of_the_same_place_and_another_content_is_refused",),
    ),
    Breakage(
        "mixture-uploaded",
        "A base that is uploaded during a fold has some records of the next version.",
        "6 two versions",
        (
            Edit(
                f"{REMOTE}/snapshot.py",
                "return self.version != self._present.last or self._present.merge_progress is not None",
                "return self.version != self._present.last",
            ),
        ),
        (
            f"{TESTS}/test_snapshot.py::test_both_versions_at_every_moment_of_a_fold",
            f"{TESTS}/test_model.py::TestModel",
        ),
    ),
    Breakage(
        "chain-without-end",
        "Deltas are uploaded although they have more bytes than the state.",
        "the cost of a checkpoint depends on the changes",
        (
            Edit(
                f"{REMOTE}/uploading.py",
                "return is_long or delta_bytes > max(live_bytes, DELTA_BYTES_MIN)",
                "return is_long or delta_bytes > max(4 * live_bytes, DELTA_BYTES_MIN)",
            ),
        ),
        (f"{TEST_UPLOADING}::test_deltas_of_more_bytes_than_the_state_make_way_for_a_base",),
    ),
    Breakage(
        "base-each-time",
        "Each checkpoint uploads the whole state, beside the deltas that would do.",
        "the cost of a checkpoint depends on the changes",
        (
            Edit(
                f"{REMOTE}/uploading.py",
                "return is_long or delta_bytes > max(live_bytes, DELTA_BYTES_MIN)",
                "return is_long or delta_bytes > 0",
            ),
        ),
        (
            f"{TEST_UPLOADING}::test_uploads_are_at_most_twice_what_was_frozen",
            f"{TEST_UPLOADING}::test_a_tiny_state_is_not_written_anew_each_time",
        ),
    ),
    Breakage(
        "restore-looks-once",
        "`stepwell restore` does not look again for a version that a service has replaced meanwhile.",
        "no silence",
        (Edit("stepwell/commands/restore.py", "while_it_is_replaced(attempt, is_last=wanted.is_last)", "attempt()"),),
        ("tests/end_to_end/test_store.py::test_a_backup_keeps_a_version_to_which_the_pipeline_can_go_back",),
    ),
    Breakage(
        "step-0-after-a-start",
        "A run without steps shows step 0, whatever its state has.",
        "no silence",
        (Edit("coordinator/running/recovery.py", "            step=max(0, version.step - 1),\n", ""),),
        ("tests/end_to_end/test_divisions.py::test_a_step_holds_no_more_bytes_than_it_may_with_any_number_of_workers",),
    ),
    Breakage(
        "verifying-without-patience",
        "`backup verify` ends when the store breaks off once.",
        "no silence",
        (Edit("stepwell/commands/backup.py", "RetryingStore(store_of(project))", "store_of(project)"),),
        ("tests/stepwell/test_backup_commands.py::test_a_store_that_breaks_off_while_objects_are_verified_is_read_on",),
    ),
    Breakage(
        "a-full-disk-without-a-file",
        "A file that a full disk does not take is not named.",
        "an error is told",
        (Edit("base/whole_file.py", "            fault.filename = str(path)\n", "            pass\n"),),
        ("tests/base/test_whole_file.py::test_a_full_disk_is_told_with_the_file",),
    ),
    Breakage(
        "a-backup-waits-in-silence",
        "`backup create` does not say that the store refuses its checkpoint.",
        "an error is told",
        (Edit("stepwell/commands/backup.py", " and fault != told:\n", " and fault == told:\n"),),
        ("tests/stepwell/test_backup_commands.py::test_a_fault_of_the_store_is_told_once_while_a_backup_waits",),
    ),
    Breakage(
        "advice-cut-off",
        "The status cuts the text of a long fault of the store, with the advice at its end.",
        "an error says what to do",
        (
            Edit(
                "base/short_text.py",
                '    return f"{cut(message, room)} {advice}".strip()\n',
                "    return text[: max(room, characters_max)]\n",
            ),
        ),
        ("tests/base/test_short_text.py::test_the_advice_of_a_refused_store_is_whole",),
    ),
    Breakage(
        "a-backup-waits-for-a-right",
        "`backup create` waits ten minutes for a store that refuses a right.",
        "an error is told",
        (
            Edit(
                "stepwell/commands/backup.py",
                "        if _refusals(now) > refusals:\n",
                "        if _refusals(now) < 0:\n",
            ),
        ),
        ("tests/stepwell/test_backup_commands.py::test_a_backup_does_not_wait_for_a_store_that_refuses_a_right",),
        tells="DID NOT RAISE",
    ),
    Breakage(
        "refusals-are-not-counted",
        "The status does not tell a store that refuses a right from one that is away.",
        "an error is told",
        (Edit("coordinator/storing/storing.py", "        self._refusals += isinstance(fault, StoreDenied)\n", ""),),
        ("tests/coordinator/storing/test_storing.py::test_the_status_counts_the_rights_that_the_store_refuses",),
    ),
    Breakage(
        "a-silent-store-is-waited-for-in-silence",
        "A start that waits for the store does not say so.",
        "an error is told",
        (
            Edit(
                "storage/remote/retrying_store.py",
                "                _log.warning(\n",
                "                _log.debug(\n",
            ),
        ),
        ("tests/storage/remote/test_retrying_store.py::test_a_store_that_stays_away_is_given_up",),
    ),
)
