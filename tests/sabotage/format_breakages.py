"""Mistakes in formats beside JSON."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

READ, WRITE, RESOLVE = (f"io_kafka/formats/avro/{name}.py" for name in ("read", "write", "resolve"))
PROTOBUF = "io_kafka/formats/protobuf/resolve.py"
PROTOBUF_WRITE = "io_kafka/formats/protobuf/write.py"
TEST_AVRO = "tests/io_kafka/formats/test_avro.py"
TEST_PROTOBUF = "tests/io_kafka/formats/test_protobuf_output.py"
TEST_KEYED = "tests/io_kafka/formats/test_keyed.py"
TEST_PATTERNS = "tests/io_kafka/formats/test_message_patterns.py"
TEST_DELIMITED = "tests/io_kafka/formats/test_delimited_output.py"

CONNECT = "io_kafka/formats/connect"
TEST_CONNECT = "tests/io_kafka/formats/test_connect.py"

FORMATS = (
    Breakage(
        "half-a-pair-is-a-question-mark",
        "JSON that a STRING column takes as a text has a question mark in place of an escaped half of a surrogate pair.",
        "from_json",
        (Edit("io_kafka/formats/jackson.py", "text.whole if isinstance(text, Halved) else text", "text"),),
        ("tests/io_kafka/formats/test_decode.py::test_each_type_has_sparks_verdict_and_value",),
    ),
    Breakage(
        "an-unknown-option-of-a-format-is-ignored",
        "An option of an output is taken from the project, and neither recorded nor obeyed.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/written.py",
                " - {option.name for option in self._options}\n",
                " & {option.recorded for option in self._options}\n",
            ),
        ),
        ("tests/engine/test_circuit.py::test_an_option_that_the_format_does_not_have_is_not_ignored",),
    ),
    Breakage(
        "an-encoding-without-a-descriptor-is-imported",
        "A format is missing in the table, and the first message in it stops the run with a KeyError.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/table.py",
                "        if described.count(each) != 1 or each not in known:\n",
                "        if described.count(each) > 1:\n",
            ),
        ),
        ("tests/io_kafka/formats/test_table.py::test_a_format_or_an_encoding_without_one_descriptor_is_refused",),
    ),
    Breakage(
        "digits-in-base64-are-a-number",
        "A decimal in base64 of nothing but digits is read as that number, if the batch begins with a message without one.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/connect/read.py",
                "    read = read_usual(texts, typed.numeric.raw, patterns, quoted_decimals=False)\n    assert",
                "    read = read_usual(texts, typed.numeric.raw, patterns)\n    assert",
            ),
        ),
        ("tests/io_kafka/formats/test_connect.py::test_base64_of_nothing_but_digits_is_no_number",),
    ),
    Breakage(
        "any-title-is-a-type",
        "A JSON Schema whose properties have titles for people says what the values are, and numbers go through DOUBLE.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/connect/json_schema.py",
                "title if isinstance(title, str) and title.startswith(NAMESPACES) else None",
                "title if isinstance(title, str) else None",
            ),
        ),
        ("tests/io_kafka/formats/test_connect.py::test_titles_of_a_schema_that_is_not_connects_mean_nothing",),
    ),
    Breakage(
        "a-moment-without-a-unit-within-a-list",
        "A number in a list of timestamps of a changelog is taken for seconds.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/exact_json.py",
                '    item = _reader(f"{column}[]", kind.value_type, datetimes)\n',
                '    item = reader(f"{column}[]", kind.value_type, datetimes.patterns)\n',
            ),
        ),
        (
            "tests/io_kafka/formats/test_keyed.py::"
            "test_numbers_as_timestamps_have_no_unit_at_any_depth_and_in_bare_keys",
        ),
    ),
    Breakage(
        "members-of-a-oneof-side-by-side",
        "A Protobuf message that has two members of a oneof gives a row with both.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/protobuf/resolve.py",
                "            whole = [column[counts] for column in whole]\n",
                "            whole = list(whole)\n",
            ),
        ),
        ("tests/io_kafka/formats/test_protobuf.py::test_of_the_members_of_a_oneof_the_last_one_counts",),
    ),
    Breakage(
        "a-registry-without-credentials",
        "An encoding with a registry does not derive from the class that says so, and its registry is asked without credentials.",
        "no silence",
        (Edit("io_kafka/formats/table.py", " and not issubclass(encoding, WithRegistry)", " and not encoding"),),
        (
            "tests/io_kafka/formats/test_table.py::test_an_encoding_with_a_registry_has_to_derive_from_the_class_that_says_so",
        ),
    ),
    Breakage(
        "keys-in-avro-have-no-null",
        "A key in a binary format that is null in one of its columns counts as malformed.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/reading.py",
                "lambda given, _: way.keys(source.encoding, given, schema,",
                "lambda given, _: way.keys(source.encoding, given, _,",
            ),
        ),
        (f"{TEST_AVRO}::test_a_key_may_have_a_null_but_not_lack_a_column",),
    ),
    Breakage(
        "a-wrapper-is-a-row",
        "A message in Connect's wrapper is read as a row, whose columns are all missing.",
        "no silence",
        (Edit(f"{CONNECT}/read.py", "    if not groups:\n", "    if groups is not None:\n"),),
        (f"{TEST_CONNECT}::test_a_wrapped_row_is_read_in_every_shape",),
    ),
    Breakage(
        "a-wrapped-tombstone-deletes-nothing",
        "A wrapper whose payload is null is no deletion.",
        "the batch answer",
        (
            Edit(
                f"{CONNECT}/read.py",
                "    if not found:\n        return values\n",
                "    if found is not None:\n        return values\n",
            ),
        ),
        (f"{TEST_CONNECT}::test_wrapped_upserts_and_tombstones",),
    ),
    Breakage(
        "a-table-loses-its-columns-schema-and-payload",
        "Every object of a schema and a payload is taken for a wrapper, also if these are columns of the table.",
        "the batch answer",
        (
            Edit(
                f"{CONNECT}/read.py",
                "    if not own:\n        return group\n",
                "    if own is not None:\n        return group\n",
            ),
        ),
        (
            f"{TEST_CONNECT}::test_columns_named_schema_and_payload_are_told_from_a_wrapper",
            f"{TEST_CONNECT}::test_a_table_may_declare_the_payload_itself",
        ),
    ),
    Breakage(
        "what-a-message-means-depends-on-its-company",
        "A message that only begins and ends as a wrapper is malformed if another message has that form.",
        "the batch answer",
        (Edit(f"{CONNECT}/read.py", "if form_of(values[int(at[each[0]])].as_py()) is not None", "if each"),),
        (f"{TEST_CONNECT}::test_a_payload_is_one_value_and_nothing_else",),
    ),
    Breakage(
        "base64-within-arrays",
        "Within arrays, what Connect encoded is taken as it is.",
        "the batch answer",
        (
            Edit(
                f"{CONNECT}/conversion.py",
                "of_items(raw.flatten(), of_rows, faults)",
                "raw.flatten().cast(kind.value_type)",
            ),
        ),
        (f"{TEST_CONNECT}::test_images_of_a_change_are_typed_at_every_depth",),
    ),
    Breakage(
        "a-pattern-is-lost-in-a-wrapper",
        "Text in a wrapper with a schema is read by CAST, although the table has a pattern.",
        "the batch answer",
        (
            Edit(
                f"{CONNECT}/conversion.py",
                "pattern_of(kind, patterns) if leaf.sense is Sense.STRING else None",
                "None",
            ),
        ),
        (f"{TEST_PATTERNS}::test_a_pattern_in_a_wrapper_is_for_what_the_schema_calls_text",),
    ),
    Breakage(
        "a-moment-of-another-unit",
        "Milliseconds of Connect's Timestamp are read as microseconds.",
        "the batch answer",
        (
            Edit(
                f"{CONNECT}/leaves.py",
                '"org.apache.kafka.connect.data.Timestamp": (Sense.MOMENT, 1000, 1)',
                '"org.apache.kafka.connect.data.Timestamp": (Sense.MOMENT, 1, 1)',
            ),
        ),
        (f"{TEST_CONNECT}::test_every_logical_type_as_every_type_at_every_depth_is_sparks_cast",),
    ),
    Breakage(
        "a-decimal-of-its-own-scale-in-avro",
        "A decimal that has its scale with it is read without that scale in Avro.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/avro/connected.py",
                "variable_decimal(), kind, column, lambda value: value)",
                "variable_decimal(), kind, column, lambda value: value[:1])",
            ),
        ),
        (f"{TEST_CONNECT}::test_connects_types_in_avro_are_sparks_cast_at_every_depth",),
    ),
    Breakage(
        "json-with-an-id-is-read-without-its-schema",
        "The schema of a message in JSON is looked up, and says nothing.",
        "the batch answer",
        (
            Edit(
                f"{CONNECT}/registered.py",
                "return others(texts) if typed is None else",
                "return others(texts) if typed is None or texts is not None else",
            ),
        ),
        (f"{TEST_CONNECT}::test_json_with_a_schemas_id_is_read_as_its_schema_says",),
    ),
    Breakage(
        "json-with-an-id-is-not-explained",
        "A message with the id of a schema is only said not to be JSON.",
        "an error that says what to do",
        (Edit(f"{CONNECT}/registered.py", "if ids.get(row, -1) >= 0", "if ids.get(row, -1) < -1"),),
        (f"{TEST_CONNECT}::test_json_with_a_schemas_id_and_no_registry_says_what_it_is",),
    ),
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
        (Edit("io_kafka/formats/column_bytes.py", " & ((high_first[:, 1:] ^ sign) < 0x80)", ""),),
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
        (
            Edit(
                "io_kafka/formats/column_bytes.py", '_in_order(fill(column, 0), ">")', '_in_order(fill(column, 0), "<")'
            ),
        ),
        (f"{TEST_DELIMITED}::test_keys_are_read_back_by_a_source",),
    ),
    Breakage(
        "a-topic-with-keys-of-two-formats",
        "A project that changes the format of an output's keys goes on with the state and the topic of before.",
        "2 determinism",
        (
            Edit(
                "stepwell/lowering/driver.py",
                "Written(written.name, written.key_format,",
                "Written(written.name, None,",
            ),
        ),
        ("tests/stepwell/test_message_formats.py::test_another_format_is_another_circuit",),
    ),
    Breakage(
        "a-topic-with-two-formats",
        "A project that changes the format of an output goes on with the state and the topic of before.",
        "2 determinism",
        (
            Edit(
                "io_kafka/formats/written.py",
                '"format": "" if self.format == PLAIN.format else self.format,',
                '"format": "",',
            ),
        ),
        ("tests/engine/test_circuit.py::test_how_an_output_is_written_stands_beside_its_fields",),
    ),
    Breakage(
        "a-pattern-that-makes-keys-alike",
        "The keys of an output have its pattern even if that has one text for several values.",
        "whole upsert topics",
        (Edit("io_kafka/formats/json_format.py", "patterns=output.patterns.exact", "patterns=output.patterns"),),
        (f"{TEST_PATTERNS}::test_an_output_has_a_pattern_in_its_keys_only_if_it_tells_all_apart",),
    ),
    Breakage(
        "any-key-counts",
        "The key of a message counts where its value has another moment.",
        "no silence",
        (Edit("io_kafka/formats/agreement.py", "    both &= ", "    _ = both & "),),
        (f"{TEST_PATTERNS}::test_a_key_counts_where_the_value_has_fewer_digits",),
    ),
    Breakage(
        "a-far-key-is-that-of-another-message",
        "The reason of a key beyond Python's years shows the key of the first message.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/agreement.py",
                "fragment(column.slice(row, 1), micros=True)",
                "fragment(column, micros=True)",
            ),
        ),
        (f"{TEST_PATTERNS}::test_keys_of_a_pattern_that_leaves_something_out_are_read_in_both_forms",),
    ),
    Breakage(
        "csv-quotes-texts-alone",
        "A number or a moment with the separator of CSV in it is written without quotes, so that the record has more fields.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/delimited_write.py",
                "        if encoding.sep[0] not in _OF_PLAIN:\n",
                "        if encoding:\n",
            ),
        ),
        (f"{TEST_DELIMITED}::test_every_type_is_written_as_by_spark",),
    ),
    Breakage(
        "a-field-ends-within-itself",
        "The end of a text and the beginning of the separator behind it are taken for a separator.",
        "the batch answer",
        (Edit("io_kafka/formats/delimited_write.py", "    to_first = behind[:-1]", "    to_first = behind[:0]"),),
        (f"{TEST_DELIMITED}::test_no_field_ends_within_itself",),
    ),
    Breakage(
        "halves-of-characters-in-keys",
        "A lone surrogate in a key is a question mark, so that different keys are one row.",
        "no silence",
        (Edit("io_kafka/formats/keys.py", "    if not bad:\n", "    if bad:\n"),),
        (f"{TEST_KEYED}::test_keys_do_not_become_one_by_halves_of_characters",),
    ),
    Breakage(
        "keys-that-are-two-moments",
        "A key that is one moment by the pattern and another without it is read without it.",
        "no silence",
        (Edit("io_kafka/formats/keys.py", "                faults[row] = f", "                _ = f"),),
        (f"{TEST_PATTERNS}::test_keys_of_a_pattern_that_leaves_something_out_are_read_in_both_forms",),
    ),
    Breakage(
        "offsets-of-more-than-a-day",
        "An offset of a pattern may have any hours.",
        "the batch answer",
        (Edit("base/text/patterns.py", "_OFFSET_SECONDS_MAX = 18 * 3600", "_OFFSET_SECONDS_MAX = 99 * 3600"),),
        ("tests/base/text/test_patterns.py::test_texts_are_read_as_from_json_does",),
    ),
    Breakage(
        "two-entries-of-one-key",
        "Of two entries of a map with one key, the last one counts.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/exact_json.py",
                "        if len(entries) < len(node):",
                "        if len(entries) > len(node):",
            ),
        ),
        ("tests/io_kafka/formats/test_maps.py::test_an_object_is_read_as_a_map_in_its_order",),
    ),
    Breakage(
        "keys-without-a-column",
        "A key in Avro that lacks a column has a NULL there, so all its rows are one.",
        "no silence",
        (
            Edit(
                READ,
                "    if missing:\n        raise BadSchema",
                "    if not names and missing:\n        raise BadSchema",
            ),
        ),
        (f"{TEST_AVRO}::test_a_key_may_have_a_null_but_not_lack_a_column",),
    ),
    Breakage(
        "microseconds-that-nobody-mentions",
        "dry-run takes every expression over whole milliseconds for whole milliseconds.",
        "what dry-run says",
        (Edit("stepwell/inspection/milliseconds.py", 'unit.kind == "Literal" and', 'unit.kind == "Literal" or'),),
        ("tests/stepwell/test_dry_run.py::test_columns_that_can_lose_microseconds_are_noted",),
    ),
    Breakage(
        "room-for-half-of-a-text",
        "The reader in C makes room for half of a text with escapes, and writes behind its buffer.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/_json.c",
                "    if (reserve(data, end - at) < 0)\n        return NO_MEMORY;\n    uint8_t *to",
                "    if (reserve(data, (end - at) / 2) < 0)\n        return NO_MEMORY;\n    uint8_t *to",
            ),
        ),
        ("tests/io_kafka/formats/test_sanitized.py::test_the_reader_stays_within_its_buffers",),
    ),
)
