"""Mistakes in what definitions read by themselves, and in the columns of records."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

POSITIONS, SOURCE_TABLE = "coordinator/starting/topics/positions.py", "engine/run/source_table.py"
TEST_PATTERNS, TEST_RECORDS = "tests/coordinator/starting/test_patterns.py", "tests/io_kafka/formats/test_records.py"
TEST_OPTIONS = "tests/stepwell/test_kafka_reader.py"

READERS = (
    Breakage(
        "the-end-is-forgotten",
        "A pipeline that begins at the end of its topics does not record where that is, so a restart before the first message loses messages.",
        "the batch answer",
        (Edit("coordinator/stepping/inputs.py", " or any(map(depends_on_the_start, self._spec.inputs))", ""),),
        (
            "tests/coordinator/stepping/test_inputs.py::test_a_source_that_begins_at_the_end_has_a_first_division_without_input",
        ),
    ),
    Breakage(
        "a-topic-that-joins-at-its-end",
        "A topic that begins to match a pattern is read from its end, if the source began at the end.",
        "the batch answer",
        (Edit(POSITIONS, "joins or partition.topic in read_before", "partition.topic in read_before"),),
        (f"{TEST_PATTERNS}::test_a_topic_that_matches_later_begins_at_its_first_offset",),
    ),
    Breakage(
        "a-timestamp-that-nothing-holds-is-null",
        "A message whose record has a timestamp beyond the range becomes a row with a null in its place.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/decode.py",
                "    faults = {**of_records, **dict(parsed.faults)}\n",
                "    faults = dict(parsed.faults)\n",
            ),
            Edit("io_kafka/formats/decode.py", "faults={**needed, **images.faults})\n", "faults=images.faults)\n"),
        ),
        (
            f"{TEST_RECORDS}::test_a_timestamp_beyond_the_range_makes_its_message_malformed",
            f"{TEST_RECORDS}::test_a_deletion_needs_no_timestamp",
        ),
    ),
    Breakage(
        "a-pattern-that-matches-a-part",
        "A pattern takes the topics whose names begin as it says.",
        "the batch answer",
        (
            Edit(
                "coordinator/starting/topics/patterns.py", "re.compile(pattern).fullmatch", "re.compile(pattern).match"
            ),
        ),
        (f"{TEST_PATTERNS}::test_the_topics_whose_whole_names_match",),
    ),
    Breakage(
        "partitions-of-others",
        "A source that names its partitions gets the rows of all partitions that another source reads.",
        "the batch answer",
        (Edit(SOURCE_TABLE, " and (self.partitions is None or partition in self.partitions)", ""),),
        ("tests/engine/test_sources.py::test_sources_of_one_topic_get_what_they_name",),
    ),
    Breakage(
        "records-of-other-messages",
        "Columns of the record stand beside the rows of other messages if one between them is malformed.",
        "the batch answer",
        (Edit("io_kafka/formats/decode.py", "column.take(pa.array(parsed.at))", "column.slice(0, len(parsed.at))"),),
        (f"{TEST_RECORDS}::test_columns_of_the_record_beside_those_of_the_value",),
    ),
    Breakage(
        "one-part-is-copied",
        "The messages of a small step, which came in one part, are copied before they are decoded.",
        "the cost of a step",
        (Edit("io_kafka/messages.py", "    if len(parts) == 1:\n", "    if len(parts) == 0:\n"),),
        ("tests/io_kafka/test_messages.py::test_only_what_waits_alone_is_copied",),
    ),
    Breakage(
        "headers-outside-the-checksum",
        "The checksum of the input covers neither timestamps nor headers.",
        "2 determinism",
        (
            Edit(
                "io_kafka/clients/raw.py",
                "for column in (messages.keys, messages.values, *columns_of(messages.extras)):",
                "for column in (messages.keys, messages.values):",
            ),
        ),
        ("tests/io_kafka/test_reader.py::test_reading_again_gives_the_same_checksum_and_other_bytes_another",),
    ),
    Breakage(
        "two-starts-of-one-topic",
        "Two readers of a topic that begin at different places are one source.",
        "the batch answer",
        (
            Edit(
                "stepwell/planning/reads.py", "if not starts_alike(spec, known):", "if spec.handle not in self.sources:"
            ),
        ),
        (f"{TEST_OPTIONS}::test_errors_have_file_and_line",),
    ),
    Breakage(
        "a-topic-of-the-past-is-missed",
        "A reader misses a topic that only earlier steps have read, so a service ends when the topic of a dropped source is deleted.",
        "a step needs its own input alone",
        (
            Edit(
                "io_kafka/clients/positioned_consumer.py",
                "elif error.code() in _OF_ONE_TOPIC and where not in self.wanted:",
                "elif error.code() in _OF_ONE_TOPIC and where is None:",
            ),
            Edit(
                "io_kafka/clients/positioned_consumer.py",
                "            if where in self.wanted:\n",
                "            if where:\n",
            ),
        ),
        ("tests/io_kafka/test_reader.py::test_a_topic_that_was_read_before_may_be_deleted_while_others_are_read",),
        tells="does not exist on this broker",
    ),
)
