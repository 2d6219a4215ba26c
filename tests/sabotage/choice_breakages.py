"""Mistakes in what users choose for a change: marks of sources, append outputs that begin with the switch, and outputs that are taken back."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

MARKING, SOURCES, LOG = "engine/analysis/marking.py", "engine/run/sources.py", "io_kafka/step_log/state.py"
MARKS, CHOOSING = "coordinator/revisions/marks.py", "coordinator/revisions/chosen_comparison.py"
COMPARING, FILLING = "engine/analysis/comparing.py", "engine/analysis/filling_circuit.py"
CARRIED, TEST_CARRIED = "engine/operators/carried.py", "tests/engine/test_carried.py"
TEST_MARKING, TEST_SOURCES = "tests/engine/test_marking.py", "tests/engine/test_sources.py"
TEST_PLANS, TEST_FILLING = "tests/stepwell/test_choices.py", "tests/engine/test_filling.py"
BATCH, ONCE, KEPT = "the batch answer", "exactly once", "the state of what does not change is kept"
RESTARTS = "files without a change continue the state"

CHOICES = (
    Breakage(
        "past-of-a-new-source-written",
        "An append output that gets only what comes from the switch on gets all messages of a source that comes with it.",
        ONCE,
        (
            Edit(
                "coordinator/revisions/comparison.py",
                "readers <= self.chosen_outputs.from_switch and not self._has_new_sources(name):",
                "readers <= self.chosen_outputs.from_switch:",
            ),
        ),
        (f"{TEST_PLANS}::test_the_past_of_a_new_source_is_read_and_not_written",),
    ),
    Breakage(
        "table-of-another-source-of-the-name",
        "A table that loses a column is made of the table that had the name of its source, which another source may have had.",
        BATCH,
        (
            Edit(
                "coordinator/revisions/carrying.py",
                "carried[are[handle]] = were[was.table.handle]",
                "carried[are[handle]] = were.get(handle, were[was.table.handle])",
            ),
        ),
        (f"{TEST_PLANS}::test_a_table_is_made_of_that_of_the_same_messages",),
    ),
    Breakage(
        "topic-of-an-earlier-revision",
        "A new output takes a topic that an earlier revision has written and somebody has deleted, and the switch is held for good.",
        "refused before anything is written",
        (Edit("coordinator/revisions/output_plans.py", "if self.topic in self.comparison.facts.used:", "if False:"),),
        ("tests/stepwell/test_planned.py::test_a_new_output_does_not_take_the_topic_of_an_earlier_one",),
    ),
    Breakage(
        "topics-made-anew-are-as-they-were",
        "A topic that was deleted and made anew counts as the one that the step log has.",
        "refused before anything is written",
        (
            Edit(
                "coordinator/revisions/topic_facts.py",
                "if name in lost.names or name in held",
                "if name in held",
            ),
        ),
        (
            "tests/coordinator/revisions/test_topic_facts.py::test_a_topic_of_the_log_that_is_not_as_it_was_made_is_used",
        ),
    ),
    Breakage(
        "earlier-messages-count",
        "A source counts also the messages before its mark, if they are read again for another view.",
        BATCH,
        (Edit(SOURCES, "if batch.range.start < first:", "if first < 0:"),),
        (f"{TEST_SOURCES}::test_of_a_source_that_counts_from_an_offset_on_earlier_messages_are_left_out",),
    ),
    Breakage(
        "a-letter-for-each-mark",
        "A malformed message gives a dead letter for the source and for each mark of it.",
        ONCE,
        (Edit(SOURCES, "return frozenset(handles) - frozenset(reporting.values())", "return frozenset()"),),
        (f"{TEST_SOURCES}::test_of_a_source_that_counts_from_an_offset_on_earlier_messages_are_left_out",),
    ),
    Breakage(
        "a-mark-of-all-views",
        "Views that count a source whole read the marked source as soon as one view has a mark.",
        KEPT,
        (
            Edit(
                MARKING,
                "if isinstance(node, View) and node.name in marks:",
                "if isinstance(node, View) and (marks := {**marks, node.name: next(iter(marks.values()))}):",
            ),
        ),
        (f"{TEST_PLANS}::test_a_view_that_needs_no_message_again_counts_the_source_whole",),
    ),
    Breakage(
        "a-view-without-content-is-a-leaf",
        "A marked view reads the whole source through a view that holds nothing.",
        BATCH,
        (Edit(MARKING, "return isinstance(node, View) and node.kept", "return isinstance(node, View)"),),
        (f"{TEST_PLANS}::test_a_view_over_one_that_holds_nothing_counts_its_source",),
        tells="has no effect",
    ),
    Breakage(
        "marks-are-forgotten",
        "A start with the same files finds another project, because its views have lost their marks.",
        RESTARTS,
        (Edit(MARKS, "    for view, sources in before.marks.items():", "    for view, sources in ():"),),
        (f"{TEST_PLANS}::test_the_same_files_later_are_the_project_in_force",),
    ),
    Breakage(
        "a-mark-is-made-anew",
        "A view with a mark that changes is filled from now on, although nobody has asked for that.",
        BATCH,
        (
            Edit(
                "coordinator/revisions/rereadable.py",
                "if is_marked and not _count(known, facts):",
                "if is_marked:",
            ),
        ),
        (f"{TEST_PLANS}::test_a_marked_view_that_changes_is_read_again_from_its_mark",),
    ),
    Breakage(
        "the-beginning-is-the-mark",
        "The log takes a mark for the offset at which the pipeline began.",
        BATCH,
        (Edit(LOG, "if each.is_live and not each.is_from_now}", "if each.is_live}"),),
        (
            "tests/io_kafka/test_read_again_rules.py::"
            "test_where_the_pipeline_began_is_not_where_new_nodes_begin_to_count",
        ),
    ),
    Breakage(
        "a-choice-without-effect",
        "An option that changes nothing is accepted.",
        "what a plan can tell is refused",
        (Edit(CHOOSING, "if not any(handle in found for found in marks.values()):", "if not handles:"),),
        (f"{TEST_PLANS}::test_a_choice_that_means_nothing_is_refused",),
    ),
    Breakage(
        "append-from-now-gets-the-difference",
        "An append output that was to get only what comes gets the difference too.",
        "what a user has chosen",
        (Edit(COMPARING, "            if index in self.outputs.from_switch:", "            if index < 0:"),),
        (f"{TEST_FILLING}::test_an_output_gets_only_what_comes_from_the_switch_on",),
        tells="retracted|taken back|difference|KeyError",
    ),
    Breakage(
        "content-is-not-taken-back",
        "The content of an output that is taken back is compared with itself.",
        "what a user has chosen",
        (Edit(FILLING, 'Expression("false", pa.bool_())', 'Expression("true", pa.bool_())'),),
        (f"{TEST_FILLING}::test_what_an_output_has_written_is_taken_back",),
    ),
    Breakage(
        "a-document-without-marks",
        "The plan document lacks the marks, so the next revision does not know them.",
        RESTARTS,
        (Edit(MARKS, "            numbers=numbers,\n            marks=self.marks,", "            numbers=numbers,"),),
        (f"{TEST_PLANS}::test_the_same_files_later_are_the_project_in_force",),
    ),
    Breakage(
        "changes-of-a-carried-table-are-lost",
        "Messages that come while a table is made of the former one do not reach the rows that are there already.",
        BATCH,
        (Edit(CARRIED, "if before and change.num_rows:", "if False:"),),
        (f"{TEST_CARRIED}::test_rows_have_null_in_new_columns_until_their_key_has_a_message[1-2]",),
    ),
    Breakage(
        "carried-rows-come-twice",
        "Rows of keys below the position come again with the next range.",
        BATCH,
        (
            Edit(CARRIED, "within(hashes, first, end)", "within(hashes, 0, end)"),
            Edit(CARRIED, "slots = (slot_of(before), slot_of(after - 1) + 1)", "slots = (0, slot_of(after - 1) + 1)"),
        ),
        (f"{TEST_CARRIED}::test_rows_have_null_in_new_columns_until_their_key_has_a_message[1-2]",),
    ),
    Breakage(
        "partitions-are-not-carried",
        "All rows of a table that is made of the former one are taken to be of partition 0.",
        "a key in two partitions is noticed",
        (
            Edit(
                CARRIED,
                "return zset.build([*columns, rows.column(len(node.former.types))], zset.weights_of(rows))",
                "return zset.build([*columns, pa.array([0] * rows.num_rows, pa.int32())], zset.weights_of(rows))",
            ),
        ),
        (f"{TEST_CARRIED}::test_rows_have_null_in_new_columns_until_their_key_has_a_message[1-2]",),
        tells="has messages in partitions",
    ),
    Breakage(
        "nulls-are-forgotten",
        "A later revision makes a table of its messages, which do not say what it holds.",
        KEPT,
        (Edit("coordinator/revisions/rereadable.py", "    if source.nulls:", "    if False:"),),
        (f"{TEST_PLANS}::test_a_table_gets_columns_without_its_messages",),
    ),
    Breakage(
        "fewer-columns-need-messages",
        "A table that only loses columns is read again.",
        KEPT,
        (
            Edit(
                "coordinator/revisions/carrying.py",
                "(source.table.handle in chosen or not new_columns(source, was))",
                "source.table.handle in chosen",
            ),
        ),
        (f"{TEST_PLANS}::test_a_table_gets_columns_without_its_messages",),
    ),
)
