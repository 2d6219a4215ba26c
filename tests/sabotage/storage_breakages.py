"""Mistakes in the two-version database."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

HOST_FOLDER, TEST_HOST_FOLDER = "storage/host_folder.py", "tests/storage/test_host_folder.py"
DATABASE, FOLDING, PARTS, UNDO = (
    "storage/database.py",
    "storage/folding.py",
    "storage/record_parts.py",
    "storage/undo.py",
)
ROLLBACK = "storage/rollback.py"
COMMITTED = "storage/committed.py"
TEST = "tests/storage/test_database.py"
TEST_CRASH, TEST_COMPACTION = "tests/storage/test_crash.py", "tests/storage/test_compaction.py"

STORAGE = (
    Breakage(
        "verified-in-another-layer",
        "What was verified of the committed records is remembered with the layer above them, and forgotten at each checkpoint.",
        "the cost of a checkpoint depends on the changes",
        (
            Edit(
                "storage/database.py",
                "return (*layers, _committed_layer(self.path, environment, reader, present))",
                "return (*layers, _committed_layer(self.path, layers[-1].environment, reader, present))",
            ),
        ),
        ("tests/storage/test_faults.py::test_an_immutable_record_is_verified_once",),
        tells="checksum",
    ),
    Breakage(
        "damage-told-without-advice",
        "LMDB's complaints of pages that are full, and of transactions that have failed, are told as they are.",
        "no silence",
        (
            Edit(
                "storage/environments.py",
                '        lmdb.PageFullError,  # it says "internal error": a page\'s own account of its free space is wrong\n',
                "",
            ),
        ),
        ("tests/storage/test_faults.py::test_a_page_that_miscounts_its_free_space_is_reported",),
    ),
    Breakage(
        "epoch-not-checked",
        "A database accepts tasks and coordinators of an older epoch.",
        "5 fences",
        (Edit(DATABASE, "    if present.epoch > epoch:\n", "    if False:\n"),),
        (
            f"{TEST}::test_attach_joins_only_what_its_own_epoch_has_opened",
            f"{TEST}::test_an_older_epoch_is_rejected",
        ),
        tells="NotOpen",
    ),
    Breakage(
        "keys-with-their-values",
        "A list of keys reads the whole state.",
        "cost",
        (
            Edit(
                "storage/environments.py",
                "            for view in cursor.iternext(keys=True, values=False):\n",
                "            for view, _ in cursor:\n",
            ),
        ),
        (f"{TEST}::test_a_list_of_keys_touches_no_values_and_values_are_read_ahead",),
    ),
    Breakage(
        "page-after-page",
        "What the page cache has lost is read in pages of 4 KB.",
        "cost",
        (Edit("storage/environments.py", "readahead=True", "readahead=False"),),
        (f"{TEST}::test_a_list_of_keys_touches_no_values_and_values_are_read_ahead",),
    ),
    Breakage(
        "writer-in-a-file-that-was-replaced",
        "A writer that has waited while the database was compacted writes to the former file.",
        "6 two versions",
        (Edit("storage/environments.py", "            if inode != self.inode:\n", "            if False:\n"),),
        (f"{TEST_CRASH}::test_a_writer_that_waits_while_the_database_is_compacted_writes_the_new_file",),
    ),
    Breakage(
        "opened-while-it-is-replaced",
        "An environment that is replaced while it is opened has the lock file of one and the data of the other.",
        "6 two versions",
        (
            Edit(
                "storage/environments.py",
                "        if (folder / DATA_FILE).stat().st_ino != inode:\n",
                "        if False:\n",
            ),
        ),
        (f"{TEST_COMPACTION}::test_an_environment_that_is_replaced_while_it_is_opened_is_opened_again",),
    ),
    Breakage(
        "copy-without-the-last-writes",
        "A copy takes the place of a database that has been written since.",
        "6 two versions",
        (
            Edit(
                COMMITTED,
                "                if old.usage().transactions != written:\n",
                "                if False:\n",
            ),
        ),
        (f"{TEST_COMPACTION}::test_a_version_that_is_frozen_meanwhile_is_not_lost",),
    ),
    Breakage(
        "name-of-a-rewritten-file-not-durable",
        "A run writes to a file whose name another process has given it and not made durable.",
        "6 two versions",
        (Edit(DATABASE, "            durable.sync(path)\n            number = ", "            number = "),),
        (f"{TEST_COMPACTION}::test_a_fence_makes_the_name_of_a_rewritten_file_durable_before_it_is_written",),
    ),
    Breakage(
        "compacted-by-a-zombie",
        "A process that was fenced replaces the file of a database.",
        "5 fences",
        (Edit(COMMITTED, "                check(load(path, writer))\n", ""),),
        (f"{TEST_COMPACTION}::test_a_handle_that_was_fenced_compacts_nothing",),
    ),
    Breakage(
        "file-stays-large-when-slots-have-left",
        "A worker that gives slots away does not look whether its file can shrink.",
        "9 bounded",
        (
            Edit(
                "engine/resident/worker/slot_orders.py",
                "        self.folds.restart()\n        return Released()\n",
                "        return Released()\n",
            ),
        ),
        (
            "tests/end_to_end/test_layouts.py::test_a_worker_looks_at_the_size_of_its_file_after_it_was_opened_and_after_slots_have_left",
        ),
    ),
    Breakage(
        "old-handle-accepted",
        "A handle from before the last `open` can still write.",
        "5 fences",
        (Edit(DATABASE, "        if present.opened != self._opened:\n", "        if False:\n"),),
        (f"{TEST}::test_a_handle_ends_with_the_next_open_of_the_same_epoch",),
    ),
    Breakage(
        "stored-version-by-bare-number",
        "`open` accepts any version with the number that was asked for.",
        "6 two versions",
        (
            Edit(
                DATABASE,
                "    if version not in old.versions:\n",
                "    if version.version not in [held.version for held in old.versions]:\n",
            ),
        ),
        (f"{TEST}::test_versions_of_one_number_are_distinguished",),
    ),
    Breakage(
        "undo-skipped",
        "`open` of the earlier version leaves the records of the later one.",
        "6 two versions",
        (
            Edit(
                FOLDING,
                "        if not records.is_tombstone(former):\n            committed.put(key, former)\n",
                "",
            ),
        ),
        (f"{TEST}::test_commit_keeps_both_versions_and_open_discards_one",),
        tells="CorruptFile",
    ),
    Breakage(
        "fold-without-undo",
        "A fold writes no undo log.",
        "6 two versions",
        (
            Edit(
                FOLDING,
                "            undo.put(writer, key, committed.remove(key), committed.part_bytes)\n",
                "            committed.remove(key)\n",
            ),
        ),
        (f"{TEST}::test_commit_keeps_both_versions_and_open_discards_one",),
        tells="CorruptFile",
    ),
    Breakage(
        "working-changes-kept",
        "`open` keeps the changes that the crashed run left in the working layer.",
        "6 two versions",
        (
            Edit(
                DATABASE,
                "    remove_layers(path)\n    new = with_working(path, replace(\n",
                "    made = replace if old.working else (lambda old, **new: with_working(path, replace(old, **new)))\n"
                "    new = (made(\n",
            ),
        ),
        (f"{TEST}::test_a_write_under_way_when_a_newer_epoch_opens_is_lost",),
    ),
    Breakage(
        "frozen-changes-kept",
        "`open` keeps a frozen layer that was never folded.",
        "6 two versions",
        (
            Edit(DATABASE, "    remove_layers(path)\n    new", "    new"),
            Edit(
                DATABASE,
                "boot=boot_id(), frozen=None, freezing=None,\n",
                "boot=boot_id(),\n",
            ),
        ),
        (f"{TEST}::test_open_discards_what_was_not_completed",),
    ),
    Breakage(
        "deleted-records-come-back",
        "A tombstone is not stored, although a layer below has the record.",
        "4 a task may run twice",
        (
            Edit(
                "storage/transaction.py",
                "            if records.is_tombstone(stored) and not any(layer.has_value(key) for layer in self._layers[1:]):\n",
                "            if records.is_tombstone(stored):\n",
            ),
        ),
        (f"{TEST}::test_steps_go_on_over_a_frozen_layer",),
    ),
    Breakage(
        "checksums-not-verified",
        "Records are read without verifying their checksums.",
        "no silence",
        (Edit("storage/records.py", "view[-TRAILER_BYTES:] != _checksum(key, view[:-TRAILER_BYTES]):\n", "False:\n"),),
        (
            "tests/storage/test_records.py::test_a_changed_bit_is_found",
            "tests/storage/test_faults.py::test_a_damaged_committed_record_is_named",
        ),
    ),
    Breakage(
        "layer-of-another-boot",
        "A layer that was never synced is trusted after a reboot.",
        "6 two versions",
        (Edit(DATABASE, "        if present.boot != boot_id():\n", "        if False:\n"),),
        (f"{TEST}::test_a_layer_of_another_boot_is_not_trusted",),
    ),
    Breakage(
        "half-a-transaction",
        "The changes of a task are written, although the task raised an error.",
        "4 a task may run twice",
        (
            Edit(
                DATABASE,
                "            yield transaction\n            transaction.flush(writer)\n",
                "            try:\n                yield transaction\n            finally:\n                transaction.flush(writer)\n"
                "                writer._txn.commit()\n",
            ),
        ),
        (f"{TEST}::test_a_transaction_that_raises_leaves_nothing",),
    ),
    Breakage(
        "undo-of-two-versions",
        "A fold leaves the undo log of the version before beside its own.",
        "6 two versions",
        (Edit(DATABASE, "            if record_parts.delete_all(writer, UNDO):\n", "            if False:\n"),),
        (f"{TEST}::test_commit_keeps_both_versions_and_open_discards_one",),
        tells="CorruptFile",
    ),
    Breakage(
        "half-a-fold-opened",
        "`open` accepts half-merged records as the last version.",
        "6 two versions",
        (
            Edit(
                ROLLBACK,
                "return Done() if present.merge_progress is None else Clear",
                "return Done() if True else Clear",
            ),
        ),
        (f"{TEST}::test_a_fold_that_stopped_half_way_is_no_version",),
        tells="CorruptFile",
    ),
    Breakage(
        "rollback-in-place",
        "A rollback writes the former records before it removes those that they replace, and the file grows by as much.",
        "9 bounded",
        (
            Edit(FOLDING, "    for key, _ in batch:\n        committed.discard(key)\n", ""),
            Edit(
                FOLDING,
                "    for key, former in batch:\n",
                "    for key, former in batch:\n        committed.remove(key)\n",
            ),
        ),
        (f"{TEST}::test_the_file_of_two_versions_is_little_larger_than_both",),
    ),
    Breakage(
        "rollback-not-cleared",
        "A rollback leaves the records that the later version added.",
        "6 two versions",
        (Edit(FOLDING, "    for key, _ in batch:\n        committed.discard(key)\n", ""),),
        (f"{TEST}::test_commit_keeps_both_versions_and_open_discards_one",),
        tells="CorruptFile",
    ),
    Breakage(
        "rollback-from-a-stale-key",
        "`open` continues a rollback where it was, although another call has opened the database in the meantime.",
        "6 two versions",
        (Edit(ROLLBACK, "before is not None and before.description == present", "before is not None"),),
        (f"{TEST}::test_an_open_that_stalled_during_a_rollback_restarts_it",),
        tells="CorruptFile",
    ),
    Breakage(
        "rollback-reads-what-it-discards",
        "A damaged record of the later version blocks the rollback.",
        "6 two versions",
        (Edit(FOLDING, "        committed.discard(key)\n", "        committed.remove(key)\n"),),
        ("tests/storage/test_faults.py::test_a_lost_part_of_the_later_version_does_not_block_the_rollback",),
        tells="CorruptRecord",
    ),
    Breakage(
        "sizes-of-the-state-before",
        "The sizes of a fold's pieces and parts are those of the state before, although it has grown much.",
        "9 bounded",
        (Edit(FOLDING, "max(live_bytes, sum(progress.table_bytes.values()))", "live_bytes"),),
        (f"{TEST}::test_a_state_that_grew_much_in_one_checkpoint_is_merged_as_a_large_one",),
    ),
    Breakage(
        "half-a-fold-read",
        "A reader of the last version sees records of the next one that a fold has merged.",
        "6 two versions",
        (Edit(DATABASE, "            if present.merge_progress is not None:\n", "            if False:\n"),),
        (f"{TEST}::test_a_fold_that_stopped_half_way_is_no_version",),
    ),
    Breakage(
        "fold-in-one-transaction",
        "A fold writes all changes in one transaction, and the file grows by as much.",
        "9 bounded",
        (Edit(FOLDING, "        if size >= size_max or", "        if"),),
        (f"{TEST}::test_the_file_of_two_versions_is_little_larger_than_both",),
    ),
    Breakage(
        "pieces-of-one-size",
        "A small state has pieces as large as those of a large one, and most of its file is free space for them.",
        "9 bounded",
        (Edit(FOLDING, "max(PIECE_BYTES_MIN, live_bytes // PIECE_SHARE)", "PIECE_BYTES_MAX"),),
        (f"{TEST}::test_a_small_state_has_small_pieces",),
    ),
    Breakage(
        "nothing-cleared-before",
        "A fold replaces records without removing them first, and the file grows by as much.",
        "9 bounded",
        (
            Edit(
                FOLDING,
                "0 if is_there else size\n",
                "0 if is_there else size or len(key) + len(stored)\n",
            ),
            Edit(
                FOLDING,
                "            undo.put(writer, key, committed.remove(key), committed.part_bytes)\n",
                "            undo.put(writer, key, committed.remove(key), committed.part_bytes)\n"
                "            if not records.is_tombstone(stored):\n                committed.put(key, stored)\n",
            ),
        ),
        (f"{TEST}::test_the_file_of_two_versions_is_little_larger_than_both",),
    ),
    Breakage(
        "deletion-passed-over",
        "A fold skips a record whose damaged length makes it look like a deletion.",
        "6 two versions",
        (
            Edit(
                FOLDING,
                "                raise CorruptRecord(layer_name, key) from None\n            is_there",
                "                pass\n            is_there",
            ),
        ),
        ("tests/storage/test_faults.py::test_a_frozen_record_that_looks_like_a_deletion_is_noticed",),
    ),
    Breakage(
        "walk-without-end",
        "A fold walks over a whole layer in one transaction, in which no other process can write.",
        "9 bounded",
        (Edit(FOLDING, " or walked >= PIECE_RECORDS_MAX:\n", ":\n"),),
        (f"{TEST}::test_a_piece_walks_over_a_bounded_number_of_records",),
    ),
    Breakage(
        "records-in-one-part",
        "A record that is a large share of the state is stored whole, and its space is rarely reused.",
        "9 bounded",
        (
            Edit(
                PARTS,
                "    return max(PART_BYTES_MIN, live_bytes // PART_SHARE) if live_bytes else None\n",
                "    return None\n",
            ),
        ),
        (f"{TEST}::test_the_file_of_two_versions_is_little_larger_than_both",),
    ),
    Breakage(
        "parts-left-behind",
        "The parts of a replaced record stay in the file.",
        "9 bounded",
        (Edit(PARTS, "                writer.delete(key)\n", "                pass\n"),),
        (f"{TEST}::test_the_parts_of_a_record_are_deleted_with_it",),
    ),
    Breakage(
        "room-used-too-early",
        "A fold begins in the transaction that frees the space of the former undo log, which is not usable yet.",
        "9 bounded",
        (Edit(DATABASE, "                return single  # the", "                pass  # the"),),
        (f"{TEST}::test_the_file_of_two_versions_is_little_larger_than_both",),
    ),
    Breakage(
        "undo-not-compressed",
        "The undo log is stored without compression.",
        "9 bounded",
        (Edit(UNDO, "    if len(former) >= COMPRESSED_BYTES_MIN:\n", "    if False:\n"),),
        (f"{TEST}::test_the_file_of_two_versions_is_little_larger_than_both",),
    ),
    Breakage(
        "rollback-not-verified",
        "`open` drops the later version before it has verified that the undo log is intact.",
        "6 two versions",
        (Edit(ROLLBACK, "            undo.verify(writer, layer_name)\n", ""),),
        ("tests/storage/test_faults.py::test_a_damaged_undo_log_refuses_the_rollback",),
    ),
    Breakage(
        "damaged-record-in-the-undo",
        "A record that was damaged before the fold is restored, because the checksum of its undo entry is right.",
        "6 two versions",
        (Edit(UNDO, "        records.verify(key, former)\n", ""),),
        ("tests/storage/test_faults.py::test_a_record_damaged_before_the_fold_refuses_the_rollback",),
    ),
    Breakage(
        "description-renamed-on-disk",
        "The stored description has other names than before, and an existing database cannot be opened.",
        "6 two versions",
        (Edit("storage/description.py", '"record_set_checksums": "seals"}', "}"),),
        ("tests/storage/test_description.py::test_the_json_text_of_a_description_never_changes",),
    ),
    Breakage(
        "created-in-place",
        "A new database is created under its final name, so half of one may exist after a crash.",
        "6 two versions",
        (
            Edit(
                "storage/new_database.py",
                '    draft = path.with_name(f".{path.name}.new-e{epoch}")\n',
                "    draft = path\n",
            ),
        ),
        ("tests/storage/test_crash.py::test_a_crash_in_create_leaves_nothing_or_a_database",),
        tells="There is no database in",
    ),
    Breakage(
        "draft-removed-under-its-name",
        "The draft of an older run is removed under its name, so that run may put what is left of it at the place of the database.",
        "6 two versions",
        (
            Edit(
                "storage/new_database.py",
                "            removed = set_aside(folder)\n",
                "            removed = folder\n",
            ),
        ),
        ("tests/storage/test_new_database.py::test_a_maker_whose_draft_is_half_removed_puts_nothing_at_the_place",),
    ),
    Breakage(
        "draft-that-is-gone-is-a-missing-layer",
        "A run whose draft its successor has removed ends with a text about a folder.",
        "one writer",
        (
            Edit(
                "storage/new_database.py",
                "isinstance(fault, FileNotFoundError | Gone)",
                "isinstance(fault, FileNotFoundError)",
            ),
        ),
        ("tests/storage/remote/test_restoring.py::test_a_run_whose_place_was_taken_is_told_so",),
        tells="has been removed",
    ),
    Breakage(
        "checkpoint-not-synced",
        "LMDB is not asked to sync the layer that holds the checkpoints.",
        "6 two versions",
        (
            Edit(
                "storage/new_database.py",
                "            environments.create(draft / COMMITTED, synced=synced)\n",
                "            environments.create(draft / COMMITTED, synced=False)\n",
            ),
            Edit(
                COMMITTED,
                "environments.open_environment(path / COMMITTED, synced=True)",
                "environments.open_environment(path / COMMITTED, synced=False)",
            ),
        ),
        (f"{TEST}::test_only_the_committed_layer_is_synced",),
    ),
    Breakage(
        "another-database-removed",
        "An order to remove an older database removes whatever lies there by now.",
        "no silence",
        (
            Edit(
                HOST_FOLDER,
                "        if found is None or found.identity != identity:\n",
                "        if found is None:\n",
            ),
        ),
        (f"{TEST_HOST_FOLDER}::test_a_database_is_removed_only_as_the_one_that_was_seen",),
    ),
    Breakage(
        "copied-folder-keeps-its-name",
        "A folder that was copied to another host passes for the folder it was copied from.",
        "7 one owner",
        (Edit(HOST_FOLDER, ' if found["folder"] == _inode(self.root) else None', ' if found["folder"] else None'),),
        (f"{TEST_HOST_FOLDER}::test_a_folder_keeps_its_name_and_a_copy_gets_another",),
    ),
)
