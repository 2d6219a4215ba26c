"""Mistakes in what a topic receives whose columns change."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

TOPIC_COLUMNS, COLUMNS_HAD = "engine/analysis/topic_columns.py", "coordinator/revisions/columns_had.py"
COMPARING, FILLING_CIRCUIT = "engine/analysis/comparing.py", "engine/analysis/filling_circuit.py"
TESTS = "tests/stepwell/test_outputs_that_change.py"
AS_NEW = "a topic that is kept has what a new one has"


def as_a_new_one(form: str) -> str:
    return f"{TESTS}::test_after_a_change_of_its_columns_an_upsert_topic_has_what_a_new_one_has[{form}]"


COLUMNS = (
    Breakage(
        "column-of-another-type-is-null",
        "A former row has NULL in a column of another type, so it equals a row of now with NULL, and the topic keeps the former value.",
        AS_NEW,
        (Edit(TOPIC_COLUMNS, "return (*self._of_types(), *(", "return (*self._of_types()[:0], *("),),
        (as_a_new_one("json"), as_a_new_one("avro")),
    ),
    Breakage(
        "column-that-is-back-is-new",
        "A column that comes back is NULL in former rows, although the topic has its former values.",
        AS_NEW,
        (
            Edit(
                TOPIC_COLUMNS,
                "if name in self.had and name not in self.was.names]",
                "if name in self.had and name not in self.had]",
            ),
        ),
        (as_a_new_one("json"),),
    ),
    Breakage(
        "columns-had-are-forgotten",
        "The next revision does not know which columns the messages of a topic have had.",
        AS_NEW,
        (Edit(COLUMNS_HAD, "return () if had == node.names else had", "return ()"),),
        (as_a_new_one("json"), as_a_new_one("protobuf")),
    ),
    Breakage(
        "number-with-another-name",
        "A number of a field gets another column, and rows that are equal by name are not written again.",
        AS_NEW,
        (Edit(TOPIC_COLUMNS, "            if name != had:\n", "            if name not in self.had:\n"),),
        (as_a_new_one("protobuf"),),
    ),
    Breakage(
        "messages-without-names-by-name",
        "Rows of CSV are compared by the names of their columns, which no message has.",
        "the outputs receive exactly what differs",
        (Edit(COMPARING, '"place" if columns.is_by_place else "name"', '"name"'),),
        (f"{TESTS}::test_rows_that_say_the_same_are_not_written_again",),
    ),
    Breakage(
        "former-rows-are-not-marked",
        "Where all rows are written once more, a former row takes back an equal row of now, and that is not written.",
        AS_NEW,
        (Edit(FILLING_CIRCUIT, "types, is_former=i > 0)", "types, is_former=i > 1)"),),
        (as_a_new_one("json"), as_a_new_one("csv")),
    ),
    Breakage(
        "append-compares-another-name",
        "An append output whose column has another name is compared, and held, although its rows are as they were.",
        "a plan tells what an output receives",
        (Edit(TOPIC_COLUMNS, "return not other or (mode == ", "return not other or (mode != "),),
        (f"{TESTS}::test_an_append_topic_whose_column_has_another_name_receives_nothing",),
        tells="an append topic cannot hold retractions",
    ),
)
