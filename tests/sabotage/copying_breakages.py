"""Mistakes in the copy of a pipeline under another name."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CLONING, TEST_COPY, TEST_REKEYING = (
    "coordinator/cloning",
    "tests/end_to_end/test_copy.py",
    "tests/storage/remote/test_rekeying.py",
)
TEST_LOG, TEST_SOURCE = "tests/io_kafka/test_step_log.py", "tests/coordinator/cloning/test_cloning.py"
SILENCE, VERSIONS = "no silence", "6 two versions"

COPIES = (
    Breakage(
        "copy-writes-into-the-original",
        "A copy may have outputs with topics of the pipeline that it is a copy of.",
        "5 fences",
        (
            Edit(
                "stepwell/commands/copying.py",
                "for topic, what in written if topic in source.written]",
                "for topic, what in written if topic not in {*source.written, topic}]",
            ),
        ),
        (f"{TEST_COPY}::test_what_a_copy_may_not_be_is_refused_by_name",),
    ),
    Breakage(
        "outputs-of-the-copy-taken-for-written",
        "The project with which a copy begins has the outputs, so nobody fills the topics of the copy.",
        "1 answers",
        (
            Edit(
                "engine/analysis/without_outputs.py",
                "if isinstance(node, Output):",
                "if isinstance(node, Output) and not node.handle:",
            ),
        ),
        (f"{TEST_SOURCE}::test_the_project_of_a_copy_has_no_outputs_and_keeps_its_numbers",),
    ),
    Breakage(
        "epochs-of-the-copy-begin-anew",
        "A worker of a copy takes a cut for an older one of the original, and keeps slots that it has given away.",
        "7 one owner",
        (
            Edit(f"{CLONING}/clone.py", "writer = claim(source.epoch)", "writer = claim(-1)"),
            Edit("io_kafka/step_log/rules.py", "if state.epoch <= state.origin.epoch:", "if state.epoch < 0:"),
        ),
        (f"{TEST_COPY}::test_a_copy_of_a_backup_while_the_original_goes_on",),
        tells="worker 2 ended by AssertionError",
    ),
    Breakage(
        "any-epoch-of-a-copy",
        "The log takes a copy whose epochs are those of the original once more.",
        "7 one owner",
        (Edit("io_kafka/step_log/rules.py", "if state.epoch <= state.origin.epoch:", "if state.epoch < 0:"),),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "pending-divisions-counted-as-read",
        "A copy leaves out the input of steps that were divided and that its version does not have.",
        SILENCE,
        (Edit(f"{CLONING}/log_at_version.py", "range(log.division_next - 1, step - 1, -1)", "range(0)"),),
        (f"{TEST_SOURCE}::test_a_copy_reads_from_where_its_version_ends",),
    ),
    Breakage(
        "withheld-rows-lost",
        "A version is copied in which outputs withhold rows, which no output of the copy gets.",
        SILENCE,
        (Edit(f"{CLONING}/log_at_version.py", "return bool(before.counted)", "return False"),),
        (f"{TEST_COPY}::test_a_state_with_rows_in_error_is_refused_until_they_are_corrected",),
    ),
    Breakage(
        "version-from-before-the-settlement",
        "A version that has tables of a transition is copied with the log's state after that.",
        VERSIONS,
        (
            Edit(
                f"{CLONING}/log_at_version.py",
                "return is_first or state.checkpoints[-1:] == (self.version,)",
                "return is_first or state.steps >= step",
            ),
        ),
        (f"{TEST_SOURCE}::test_the_moment_of_a_version_is_one_without_a_transition",),
    ),
    Breakage(
        "copy-of-a-damaged-pack",
        "What is copied is not compared with what was stored.",
        SILENCE,
        (
            Edit(
                "storage/remote/rekeying.py",
                "if read.written != WrittenObject(packed.bytes, packed.digest):",
                "if read.written.bytes < 0:",
            ),
        ),
        (f"{TEST_REKEYING}::test_what_is_not_the_stored_pack_is_not_copied",),
    ),
    Breakage(
        "rows-of-tables-stay-with-the-original",
        "A copy reads batch tables from topics that the original deletes.",
        SILENCE,
        (
            Edit(
                f"{CLONING}/tables.py",
                "return table_topic_of(copy, topic.removeprefix(before))",
                "return table_topic_of(source, topic.removeprefix(before)) + 'c0'",
            ),
        ),
        (f"{TEST_COPY}::test_batch_tables_are_copied_into_topics_of_the_copy",),
    ),
)
