"""Mistakes in formats beside JSON."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

READ, WRITE, RESOLVE = (f"io_kafka/formats/avro/{name}.py" for name in ("read", "write", "resolve"))
PROTOBUF = "io_kafka/formats/protobuf/resolve.py"
PROTOBUF_WRITE = "io_kafka/formats/protobuf/write.py"
TEST_AVRO = "tests/io_kafka/formats/test_avro.py"
TEST_PROTOBUF = "tests/io_kafka/formats/test_protobuf_output.py"
TEST_DELIMITED = "tests/io_kafka/formats/test_delimited_output.py"

FORMATS = (
    Breakage(
        "the-schema-of-other-messages",
        "All messages of a batch are read with the schema of some of them.",
        "the batch answer",
        (
            Edit(
                READ,
                "_columns(encoding, number, schema, part)\n        except",
                "_columns(encoding, int(numbers[-1]), schema, part)\n        except",
            ),
        ),
        (f"{TEST_AVRO}::test_messages_of_several_writers_stay_in_their_order",),
    ),
    Breakage(
        "bytes-behind-a-value",
        "A message that is longer than its value is a row.",
        "no silence",
        (Edit(READ, "np.flatnonzero(cursor.at < cursor.end)", "np.flatnonzero(cursor.at > cursor.end)"),),
        (f"{TEST_AVRO}::test_messages_of_several_writers_stay_in_their_order",),
    ),
    Breakage(
        "items-of-other-arrays",
        "The items of arrays stay in the order in which they were read, which is by their numbers.",
        "the batch answer",
        (Edit(RESOLVE, 'np.argsort(place, kind="stable")', "np.arange(len(place))"),),
        (f"{TEST_AVRO}::test_every_type_of_column_is_read",),
    ),
    Breakage(
        "a-decimal-without-its-sign",
        "A decimal is written without a byte of zeros that says its sign.",
        "the batch answer",
        (Edit("io_kafka/formats/pieces.py", " & ((high_first[:, 1:] ^ sign) < 0x80)", ""),),
        (f"{TEST_AVRO}::test_every_type_of_column_is_written",),
    ),
    Breakage(
        "keys-with-the-schema-of-values",
        "The key of a message names the schema of values.",
        "the batch answer",
        (Edit(WRITE, "_whole(ids.key,", "_whole(ids.value,"),),
        (f"{TEST_AVRO}::test_an_upsert_output_is_read_back",),
    ),
    Breakage(
        "words-of-cast-in-csv",
        "CSV reads inf and nan in every spelling, as CAST does.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/delimited.py",
                "        return None\n    return read(text)",
                "        return read(text)\n    return read(text)",
            ),
        ),
        ("tests/io_kafka/formats/test_delimited.py::test_each_type_is_read_as_by_spark",),
    ),
    Breakage(
        "the-first-of-two-values",
        "Of a field of Protobuf that comes twice, the first value counts.",
        "the batch answer",
        (
            Edit(
                PROTOBUF,
                "last[spans.rows] = np.arange(len(spans.rows))",
                "last[spans.rows[::-1]] = np.arange(len(spans.rows))[::-1]",
            ),
        ),
        ("tests/io_kafka/formats/test_protobuf.py::test_fields_in_any_order_and_unknown_ones",),
    ),
    Breakage(
        "null-is-zero-in-protobuf",
        "A NULL is written to Protobuf as the zero of its type.",
        "the batch answer",
        (Edit(PROTOBUF_WRITE, "EMPTY, whole) if column.null_count else whole", "whole, whole)"),),
        (f"{TEST_PROTOBUF}::test_null_is_told_from_zero_and_empty",),
    ),
    Breakage(
        "a-null-in-an-array-is-left-out",
        "An array with a NULL in it is written to Protobuf without the NULL.",
        "no silence",
        (Edit(PROTOBUF_WRITE, "if items.null_count:", "if False:"),),
        (f"{TEST_PROTOBUF}::test_what_protobuf_does_not_have_is_refused_with_the_column",),
    ),
    Breakage(
        "a-null-text-deletes-its-key",
        "In mode upsert, a row whose text is NULL becomes a tombstone.",
        "whole upsert topics",
        (Edit("io_kafka/formats/delimited_write.py", "if deleted is not None:", "if False:"),),
        (f"{TEST_DELIMITED}::test_a_null_that_would_say_something_else_is_refused",),
    ),
    Breakage(
        "keys-with-the-lowest-byte-first",
        "A number in a key begins with its lowest byte, so no other producer's messages of that key are in its partition.",
        "the batch answer",
        (Edit("io_kafka/formats/pieces.py", '_in_order(filled(column, 0), ">")', '_in_order(filled(column, 0), "<")'),),
        (f"{TEST_DELIMITED}::test_keys_are_read_back_by_a_source",),
    ),
    Breakage(
        "a-topic-with-keys-of-two-formats",
        "A project that changes the format of an output's keys goes on with the state and the topic of before.",
        "2 determinism",
        (Edit("stepwell/lowering/driver.py", "        written.key_format,\n", "        None,\n"),),
        ("tests/stepwell/test_message_formats.py::test_another_format_is_another_circuit",),
    ),
    Breakage(
        "a-topic-with-two-formats",
        "A project that changes the format of an output goes on with the state and the topic of before.",
        "2 determinism",
        (
            Edit(
                "engine/model/circuit.py",
                'format: OutputFormatName = field(default="json", metadata=LATER)',
                'format: OutputFormatName = field(default="json", compare=False)',
            ),
        ),
        ("tests/stepwell/test_message_formats.py::test_another_format_is_another_circuit",),
    ),
)
