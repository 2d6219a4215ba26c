"""Mistakes in what makes several rows of one, in sessions, in maps and in JSON as text of a column."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

GENERATE, TEST_GENERATE = "engine/operators/generate.py", "tests/engine/test_generate.py"
SESSIONS, TEST_SESSIONS = "engine/operators/sessions.py", "tests/engine/test_sessions.py"
TEST_PERMISSIVE = "tests/io_kafka/formats/test_permissive_json.py"
TOUCH = f"{TEST_SESSIONS}::test_ranges_that_touch_are_one_session_and_part_again"

GENERATED = (
    Breakage(
        "weights-of-made-rows",
        "The rows that are made of a row count once, whatever the row's weight is.",
        "the batch answer",
        (
            Edit(
                GENERATE,
                "zset.weights_of(rows)[of_row]",
                "np.sign(zset.weights_of(rows)[of_row])",
            ),
        ),
        (f"{TEST_GENERATE}::test_a_row_is_made_of_each_element",),
    ),
    Breakage(
        "an-empty-list-makes-no-row",
        "An outer explode of an empty list gives no row.",
        "the batch answer",
        (Edit(GENERATE, "np.maximum(lengths, 1) if node.outer else lengths", "lengths"),),
        (f"{TEST_GENERATE}::test_a_row_is_made_of_each_element",),
    ),
    Breakage(
        "sessions-that-touch-stay-apart",
        "A row whose time is the end of a session begins another one.",
        "the batch answer",
        (Edit(SESSIONS, "starts[1:] > reached[:-1]", "starts[1:] >= reached[:-1]"),),
        (TOUCH,),
    ),
    Breakage(
        "sessions-end-with-their-last-row",
        "A session ends where its last row's range ends, although an earlier row's gap is longer.",
        "the batch answer",
        (Edit(SESSIONS, "reached = np.maximum.accumulate(ends)", "reached = ends"),),
        (TOUCH,),
    ),
    Breakage(
        "sessions-never-part",
        "A step merges sessions, and does not take back what they were before.",
        "the batch answer",
        (Edit(SESSIONS, "zset.negate(merge_sessions(node, before))", "zset.negate(before)"),),
        (TOUCH,),
    ),
    Breakage(
        "a-parser-without-a-past",
        "An error in a JSON text leaves the parser before the character that it found wrong.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/tokens.py",
                '            raise self._refusal(char, "a quoted name is expected")',
                '            self._at -= 1\n            raise self._refusal(char, "a quoted name is expected")',
            ),
        ),
        (f"{TEST_PERMISSIVE}::test_a_broken_text_keeps_what_spark_keeps",),
    ),
    Breakage(
        "broken-texts-at-other-places",
        "Texts that are read slowly get into the rows of others.",
        "the batch answer",
        (Edit("io_kafka/formats/permissive_json.py", ".take(pa.array(order)), malformed", ", malformed"),),
        (f"{TEST_PERMISSIVE}::test_broken_texts_stay_at_their_places_among_others",),
    ),
)
