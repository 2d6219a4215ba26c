"""Mistakes in how batch tables are read, written and divided."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

TABLES, LEAVES = "coordinator/starting/topics/batch_tables.py", "stepwell/planning/batch_tables.py"
TEST_LOADS = "tests/coordinator/starting/test_batch_tables.py"
TEST_TABLES = "tests/end_to_end/test_batch_tables.py"

TABLE_BREAKAGES = (
    Breakage(
        "half-a-table",
        "A load that was interrupted counts as the whole table.",
        "the batch answer",
        (Edit(TABLES, "if known is None or not known.is_whole:", "if known is None:"),),
        (f"{TEST_LOADS}::test_a_load_that_is_broken_off_begins_anew_behind_what_it_wrote",),
    ),
    Breakage(
        "a-table-twice",
        "A table that is loaded again begins where its topic begins, so rows of an interrupted load are there twice.",
        "the batch answer",
        (
            Edit(
                TABLES,
                "starts = {partition.partition: end for partition, end in topics.end_offsets([name]).items()}",
                "starts = dict.fromkeys((partition.partition for partition in topics.end_offsets([name])), 0)",
            ),
        ),
        (f"{TEST_LOADS}::test_a_load_that_is_broken_off_begins_anew_behind_what_it_wrote",),
    ),
    Breakage(
        "tables-beside-topics",
        "The steps that read batch tables read topics too, which lack their dimensions for some steps.",
        "the batch answer",
        (
            Edit(
                "coordinator/stepping/dividing.py",
                "of_tables = {partition: self._table_ends.get(partition, at) for partition, at in offsets.items()}",
                "of_tables = {**ends, **self._table_ends}",
            ),
        ),
        (f"{TEST_LOADS}::test_tables_are_divided_before_everything_else",),
    ),
    Breakage(
        "a-table-of-another-generation",
        "A full refresh keeps the tables that were read before it.",
        "the batch answer",
        (
            Edit(
                "io_kafka/step_log/state.py",
                "            topics=kept,\n            ends=ends,\n",
                "            topics=kept,\n            tables=self.tables,\n            ends=ends,\n",
            ),
        ),
        (
            "tests/io_kafka/test_step_log.py::test_a_table_is_loaded_once_in_a_generation_and_a_load_that_is_not_whole_does_not_count",
        ),
        tells="the table t is loaded already",
    ),
    Breakage(
        "filters-in-a-table",
        "The optimiser looks into a batch table, and moves filters and columns into what the source holds as a whole.",
        "the batch answer",
        (Edit(LEAVES, "        if not self.to_hide:\n", "        if self.to_hide is not None:\n"),),
        ("tests/stepwell/test_batch_tables.py::test_the_optimiser_does_not_look_into_a_table",),
    ),
    Breakage(
        "a-char-without-its-blanks",
        "A CHAR of a catalog's table is read as the file has it.",
        "the batch answer",
        (Edit("stepwell/lowering/expressions/strings.py", "greatest({characters} - length({operand.sql}), 0))", "0)"),),
        ("tests/stepwell/test_batch_tables.py::test_a_char_of_a_table_of_a_catalog_is_padded",),
    ),
    Breakage(
        "metadata-without-a-source-of-its-own",
        "A table is one source with and without its metadata, so it has the columns of the reader that comes first.",
        "the batch answer",
        (Edit(LEAVES, "sorted(_metadata_in(schema))", "list[str]()"),),
        (
            "tests/stepwell/test_batch_tables.py::test_a_table_of_a_catalog_may_be_read_with_its_metadata_and_without[behind it]",
        ),
        tells="InMemoryRelation reads",
    ),
)
