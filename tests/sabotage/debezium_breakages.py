"""Mistakes in what Debezium's messages mean: values that were not sent, truncations, and messages of programs."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

FORMER = "engine/operators/former_values.py"
LAST, REGION = "engine/operators/last_by_key.py", "engine/run/stage.py"
EVENTS, CELLS = "io_kafka/formats/table_events.py", "io_kafka/formats/unavailable_cells.py"
TEST_LAST, TEST_FORMATS = "tests/engine/test_last_by_key.py", "tests/io_kafka/formats/test_unavailable.py"
TEST_TRACE, TEST_FEEDS = "tests/engine/test_trace.py", "tests/end_to_end/test_debezium.py"
TWIN = (f"{TEST_LAST}::test_former_values_and_truncations",)

ENVELOPE, TEST_CONNECT = "io_kafka/formats/debezium.py", "tests/io_kafka/formats/test_connect.py"
ENVELOPES, MOVED = "io_kafka/formats/envelopes.py", "io_kafka/formats/moved_keys.py"
TEST_TOOLS = "tests/io_kafka/formats/test_feeds.py"

DEBEZIUM = (
    Breakage(
        "changes-as-rows-of-null",
        "A change is a row of NULL if the table has a column that envelopes have too.",
        "no silence",
        (Edit(ENVELOPES, "found <= envelope.about and columns - envelope.about", "not found"),),
        (f"{TEST_CONNECT}::test_changes_in_avro_are_malformed_where_rows_are_read",),
    ),
    Breakage(
        "changes-without-a-schema-as-rows",
        "A change without a schema is a row of NULL.",
        "no silence",
        (
            Edit(
                ENVELOPE,
                "    if not faults:\n        return parsed",
                "    if faults or not faults:\n        return parsed",
            ),
        ),
        (f"{TEST_CONNECT}::test_changes_without_a_schema_are_malformed_too",),
    ),
    Breakage(
        "a-row-within-a-message-is-not-looked-for",
        "A message that has the row in one of its members is a row of NULL.",
        "no silence",
        (Edit(ENVELOPES, "    if place is not None:\n", "    if place == names:\n"),),
        (f"{TEST_CONNECT}::test_a_payload_is_one_value_and_nothing_else",),
    ),
    Breakage(
        "names-in-another-case-are-nulls",
        "A column of a schema that differs in upper and lower case from the table's is NULL.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/names.py",
                "        found.update((column, other) for other in others)\n",
                "        found.update((column, other) for other in others[1:])\n",
            ),
        ),
        (f"{TEST_TOOLS}::test_a_schema_names_fields_in_any_case",),
    ),
    Breakage(
        "a-former-key-stays",
        "An update that changes the key of a row leaves the row of the former key.",
        "the batch answer",
        (Edit(MOVED, "    if not len(at):\n        return kept\n", "    if len(at) >= 0:\n        return kept\n"),),
        (f"{TEST_TOOLS}::test_an_update_that_changes_the_key_deletes_the_former_row",),
    ),
    Breakage(
        "a-former-key-is-deleted-from-another-partition",
        "An update deletes the row of the former key although that row is of another partition.",
        "the batch answer",
        (
            Edit(LAST, "counts = ~implied | (home[group] == partition)", "counts = ~implied | (home[group] >= 0)"),
            Edit("engine/operators/scattered_keys.py", "np.flatnonzero(low != high)", "np.flatnonzero(low > high)"),
        ),
        (
            f"{TEST_LAST}::test_no_division_into_steps_changes_what_a_key_has",
            f"{TEST_LAST}::test_a_key_that_was_created_anew_is_not_deleted_by_an_update_of_before",
        ),
    ),
    Breakage(
        "a-former-row-stays-in-silence",
        "An update leaves the row of the former key, which is of another partition, and is not refused.",
        "no silence",
        (Edit(LAST, "        if row_of[number] >= 0:\n", "        if row_of[number] < -1:\n"),),
        (*TWIN, f"{TEST_FEEDS}::test_an_update_moves_a_row_between_partitions"),
    ),
    Breakage(
        "a-scattered-key-without-its-topic",
        "The error of a key with messages in two partitions names neither the topic nor the columns.",
        "no silence",
        (Edit("engine/run/tasks.py", "                    name_key(fault, self._setup.tables)\n", ""),),
        (f"{TEST_FEEDS}::test_a_key_in_two_partitions_stops_the_pipeline_with_its_place",),
    ),
    Breakage(
        "a-row-moves-without-its-value",
        "An update that changes the key and lacks a value deletes the former row before it is found malformed.",
        "no silence",
        (Edit(MOVED, "np.flatnonzero(cells & moved.which)", "np.flatnonzero(cells & ~moved.which)"),),
        (f"{TEST_TOOLS}::test_a_row_that_moves_without_a_value_is_malformed",),
    ),
    Breakage(
        "a-deletion-that-is-a-row-stays",
        "A row that says of itself that it was deleted stays in the table.",
        "the batch answer",
        (Edit("io_kafka/formats/flattened.py", 'is_op(columns[-1], {"true"})', 'is_op(columns[-1], {"d"})'),),
        (f"{TEST_TOOLS}::test_a_deletion_that_is_a_row_deletes_its_key",),
    ),
    Breakage(
        "messages-without-a-key-are-one-row",
        "A message that names no key is a row whose key is NULL.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/decode.py",
                "            faults.setdefault(int(position), NO_KEY)\n",
                "            assert NO_KEY not in faults\n",
            ),
        ),
        (f"{TEST_TOOLS}::test_a_message_that_names_no_key_is_malformed_and_no_row_of_null",),
    ),
    Breakage(
        "keys-of-bytes-are-texts",
        "Keys that are no text become one text, so their rows become one row.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/keys.py",
                "    except UnicodeDecodeError:\n        return False\n",
                "    except UnicodeDecodeError:\n        return True\n",
            ),
        ),
        (f"{TEST_TOOLS}::test_keys_that_are_no_text_are_malformed",),
    ),
    Breakage(
        "a-default-of-proto2-is-null",
        "A field that is missing is NULL although its schema in proto2 has a default.",
        "the batch answer",
        (Edit("io_kafka/formats/protobuf/resolve.py", "field.has_default_value or (of_entry", "(of_entry"),),
        ("tests/io_kafka/formats/test_protobuf.py::test_a_default_of_proto2_stands_for_a_missing_field",),
    ),
    Breakage(
        "a-field-that-was-not-sent",
        "A placeholder in a field of a struct is a value.",
        "no silence",
        (Edit(CELLS, '                yield f".{field.name}", rows[cells]\n', "                pass\n"),),
        (f"{TEST_FORMATS}::test_a_field_that_was_not_sent_is_malformed",),
    ),
    Breakage(
        "a-value-of-another-key",
        "A value that was not sent is taken from a message of another key.",
        "the batch answer",
        (
            Edit(
                FORMER,
                "np.where(having >= start[last], having, FROM_BEFORE)",
                "np.where(having >= 0, having, FROM_BEFORE)",
            ),
        ),
        (f"{TEST_LAST}::test_a_value_is_that_of_the_row_of_its_own_key",),
    ),
    Breakage(
        "a-row-without-a-value",
        "A message that lacks a value is a row although no row has the value.",
        "no silence",
        (
            Edit(
                FORMER, "has_row = ~messages.deletes & (from_before | (whole >= start))", "has_row = ~messages.deletes"
            ),
        ),
        TWIN,
    ),
    Breakage(
        "a-row-from-before-a-truncation",
        "A value that was not sent is taken from the row before the step, although the table was truncated since.",
        "the batch answer",
        (Edit(FORMER, " & (messages.truncations == 0)", ""),),
        TWIN,
    ),
    Breakage(
        "a-truncation-before-its-time",
        "A truncation ends the rows whose messages follow it.",
        "the batch answer",
        (Edit(FORMER, "np.cumsum(truncates[order]) - truncates[order]", "np.cumsum(truncates) - truncates"),),
        TWIN,
    ),
    Breakage(
        "a-truncation-on-one-worker",
        "A truncation goes to the worker that owns a null key.",
        "3 placement independence",
        (
            Edit(
                REGION,
                "    if everyone is not None:\n",
                "    if everyone is not None and everyone.all() and len(everyone) > 1:\n",
            ),
        ),
        (f"{TEST_LAST}::test_the_table_and_what_is_refused_do_not_depend_on_workers",),
    ),
    Breakage(
        "a-truncation-keeps-the-trace",
        "A truncation retracts all rows and leaves them in the state.",
        "the batch answer",
        (
            Edit(
                "engine/state/trace.py",
                "                if parse_run_key(key)[1] >= pinned_below:\n",
                "                if parse_run_key(key)[1] < pinned_below:\n",
            ),
        ),
        TWIN,
    ),
    Breakage(
        "a-copied-run-is-taken-out",
        "A truncation deletes runs that are being copied to another worker.",
        "7 one owner",
        (
            Edit(
                "engine/state/trace.py",
                "                if parse_run_key(key)[1] >= pinned_below:\n",
                "                if pinned_below >= 0:\n",
            ),
        ),
        (f"{TEST_TRACE}::test_a_trace_is_taken_out_bucket_by_bucket",),
    ),
    Breakage(
        "rows-after-a-truncation-unmatched",
        "A row that is the same before and after a truncation is retracted and inserted.",
        "output",
        (
            Edit(
                LAST,
                "        again = np.isin(part.column(HASH).to_numpy(), hashes)\n",
                "        again = np.isin(part.column(HASH).to_numpy(), hashes[:0])\n",
            ),
        ),
        (f"{TEST_LAST}::test_a_row_that_is_the_same_after_a_truncation_is_no_change",),
    ),
    Breakage(
        "a-placeholder-is-padded",
        "A placeholder in a CHAR column is padded or found too long like a value.",
        "the batch answer",
        (Edit("io_kafka/formats/decode.py", "    columns = null_missing(columns, held)\n", ""),),
        (f"{TEST_FORMATS}::test_a_placeholder_is_neither_padded_nor_too_long",),
    ),
    Breakage(
        "a-placeholder-without-a-key-is-a-value",
        "In a changelog without a key a placeholder is a value.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/decode.py",
                "        refuse_images(source, image, present, at, faults, place=name)\n",
                "",
            ),
        ),
        (f"{TEST_FORMATS}::test_every_spelling_becomes_the_mark_of_its_type",),
    ),
    Breakage(
        "a-placeholder-in-a-key",
        "A key that the database did not send is a key.",
        "no silence",
        (Edit(CELLS, "        if in_key is not None:\n", "        if in_key is not None and keys.faults:\n"),),
        (f"{TEST_FORMATS}::test_a_key_has_no_placeholder",),
    ),
    Breakage(
        "messages-of-programs-are-refused",
        "A message of a program is malformed if its key is not the table's.",
        "no false alarms",
        (
            Edit(
                "io_kafka/formats/decode.py",
                "    for position in images.events.all:",
                "    for position in images.events.truncates:",
            ),
        ),
        (f"{TEST_FORMATS}::test_a_message_of_a_program_is_left_out_and_counted",),
    ),
    Breakage(
        "truncations-by-todays-setting",
        "A replay treats truncations as the project says now, not as the division recorded.",
        "2 determinism",
        (Edit("coordinator/stepping/stepping.py", "truncate=dict(record.truncate),\n", "truncate={},\n"),),
        (
            f"{TEST_FEEDS}::test_a_truncation_stops_the_pipeline_until_it_is_said_what_it_means",
            f"{TEST_FEEDS}::test_a_truncation_that_was_applied_is_applied_in_a_replay",
        ),
        tells="DataError.*op t|DigestMismatch",
    ),
    Breakage(
        "a-lost-message-looks-like-a-tombstone",
        "The letter of a message that was compacted away before it was read again says that its value was null.",
        "no silence",
        (
            Edit(
                "engine/run/dead_letters.py",
                'shown = {"lost": LOST} if at is None',
                'shown = {"value": None} if at is None',
            ),
        ),
        (
            "tests/engine/test_malformed_by_state.py::test_a_message_that_was_compacted_away_meanwhile_is_counted_and_its_letter_says_so",
        ),
    ),
    Breakage(
        "refused-messages-are-silent",
        "A message that only the state shows to be malformed is left out without a word.",
        "no silence",
        (
            Edit(
                "engine/run/tasks.py",
                "                if result.findings.malformed:\n",
                "                if result.findings.malformed and stage > self._stages:\n",
            ),
        ),
        (
            f"{TEST_FEEDS}::test_a_value_that_no_row_has_stops_the_pipeline_until_the_policy_is_changed",
            f"{TEST_FEEDS}::test_every_view_is_the_answer_over_all_values",
        ),
    ),
)
