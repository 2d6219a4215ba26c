"""Mistakes in how a project is read: topics that clash, actions in definitions, files in another encoding, texts for users."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CLASHES, TEST_CLASHES = "stepwell/project/clashes.py", "tests/stepwell/test_clashes.py"
ACTIONS, TEST_ACTIONS = "stepwell/planning/actions.py", "tests/stepwell/test_actions.py"
TEXT_FILES, TEST_TEXT_FILES = "stepwell/project/text_files.py", "tests/stepwell/test_text_files.py"
OPERATOR_NAMES, TEST_COLUMN_NAMES = "engine/operators/names.py", "tests/engine/test_column_names.py"

PROJECT_BREAKAGES = (
    Breakage(
        "topic-of-two-outputs",
        "Two outputs may have one topic, so that a tombstone of one deletes a row of the other.",
        "no silence",
        (Edit(CLASHES, "        *_written_twice(written),\n", ""),),
        (f"{TEST_CLASHES}::test_a_clash_names_both_places",),
    ),
    Breakage(
        "output-that-is-an-input",
        "An output that a source reads by a pattern is not noticed, and the pipeline feeds itself.",
        "no silence",
        (Edit(CLASHES, "re.fullmatch(source.pattern, topic)", "source.pattern == topic"),),
        (f"{TEST_CLASHES}::test_a_clash_names_both_places",),
    ),
    Breakage(
        "topics-that-kafka-refuses-beside-each-other",
        "Two outputs may have topics whose names differ only in '.' and '_', of which Kafka creates one.",
        "refused before anything is written",
        (Edit(CLASHES, '    return topic.replace(".", "_")\n', "    return topic\n"),),
        (f"{TEST_CLASHES}::test_a_clash_names_both_places",),
    ),
    Breakage(
        "letters-that-are-rows",
        "A dead-letter topic may be a source or an output.",
        "no silence",
        (Edit(CLASHES, "for source in sources if source.dead_letter_topic)]", "for source in sources[:0])]"),),
        (f"{TEST_CLASHES}::test_a_clash_names_both_places",),
    ),
    Breakage(
        "a-start-that-is-ignored",
        "Two tables may begin to read one topic at different places, of which one is ignored.",
        "no silence",
        (
            Edit(
                "stepwell/project/kafka_options.py",
                "            if _start(other, topic) != _start(source, topic):\n",
                '            if other.format == "record" and _start(other, topic) != _start(source, topic):\n',
            ),
        ),
        (f"{TEST_CLASHES}::test_a_clash_names_both_places",),
    ),
    Breakage(
        "actions-over-nothing",
        "A query runs over the empty stand-in of a topic, and its answer is a constant of the plan.",
        "the batch answer",
        (
            Edit(
                ACTIONS,
                "        if location is not None and (reading.in_function() or _has_no_rows_yet(self)):\n",
                "        if location is not None and reading.in_function():\n",
            ),
        ),
        (f"{TEST_ACTIONS}::test_beside_the_functions_runs_only_what_has_its_rows",),
    ),
    Breakage(
        "dry-run-writes",
        "A command below WITH is not recognised, and dry-run runs it.",
        "no silence",
        (
            Edit(
                ACTIONS,
                "(writing_node(child) for child in scala_items(children))), None)\n",
                "(writing_node(child) for child in scala_items(children)[:0])), None)\n",
            ),
        ),
        (f"{TEST_ACTIONS}::test_in_the_function_of_a_view_nothing_runs",),
    ),
    Breakage(
        "a-byte-order-mark-is-text",
        "A byte order mark at the beginning of a file is taken for a character of its first statement.",
        "no silence",
        (Edit(TEXT_FILES, "content.removeprefix(codecs.BOM_UTF8)", "content.removesuffix(codecs.BOM_UTF8)"),),
        (f"{TEST_TEXT_FILES}::test_a_byte_order_mark_and_the_ends_of_lines_are_no_part_of_the_text",),
    ),
    Breakage(
        "a-name-for-another-column",
        "An error names a column after the one beside it, because a join's names are not those of both sides.",
        "no silence",
        (
            Edit(
                OPERATOR_NAMES, "tuple(name for each in inputs for name in each)", "tuple(name for name in inputs[-1])"
            ),
        ),
        (f"{TEST_COLUMN_NAMES}::test_a_column_keeps_its_name_until_something_is_computed",),
    ),
    Breakage(
        "name-of-a-column-that-is-left-out",
        "Behind a row that is repeated, errors name each column after the one before it.",
        "no silence",
        (Edit("engine/operators/linear.py", "(*inputs[0][: node.times], *inputs[0][node.times + 1 :])", "inputs[0]"),),
        ("tests/engine/test_descriptors.py::test_a_column_that_keeps_its_name_has_the_values_of_that_column",),
    ),
)
