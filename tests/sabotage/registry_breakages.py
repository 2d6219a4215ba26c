"""Mistakes in the formats whose schemas are in a registry: Avro and Protobuf."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

AVRO, PROTOBUF = "io_kafka/formats/avro", "io_kafka/formats/protobuf"
TEST_AVRO = "tests/io_kafka/formats/test_avro.py"
TEST_PROTOBUF = "tests/io_kafka/formats/test_protobuf.py"
CLIENT, ANSWERS = "io_kafka/registry/client.py", "io_kafka/registry/answers.py"
TEST_CLIENT, TEST_UNKNOWN = "tests/io_kafka/test_registry.py", "tests/io_kafka/formats/test_unknown_schemas.py"

REGISTRIES = (
    Breakage(
        "a-deep-value-is-everybodys-fault",
        "A value that is too deep is a fault of the schema, so all messages of the batch are malformed.",
        "no silence",
        (
            Edit(
                f"{AVRO}/resolve.py",
                "lambda cursor, rows: cursor.fault(rows, f",
                "lambda cursor, rows: cursor.fault(np.arange(len(cursor.at)), f",
            ),
        ),
        (f"{TEST_AVRO}::test_a_value_too_deep_to_be_passed_over_is_malformed_alone",),
    ),
    Breakage(
        "two-records-of-one-name",
        "The records of two columns have one name in the schema of an output, which no registry takes.",
        "whole upsert topics",
        (Edit(f"{AVRO}/declare.py", "    taken.add(name)\n", "    taken = set()\n"),),
        (f"{TEST_AVRO}::test_no_two_records_of_a_schema_have_one_name",),
    ),
    Breakage(
        "a-default-of-the-first-branch-alone",
        "The default of a union is one of its first branch, as before Avro 1.12, so messages without the field are malformed.",
        "the batch answer",
        (Edit(f"{AVRO}/defaults.py", "type_.branches[_branch(type_, value)[0]]", "type_.branches[0]"),),
        (f"{TEST_AVRO}::test_a_default_may_be_of_any_branch_of_a_union",),
    ),
    Breakage(
        "a-logical-type-on-any-type",
        "A long with the logical type date is no number.",
        "the batch answer",
        (Edit(f"{AVRO}/schema.py", 'plain["type"] not in _BASES.get(name, (plain["type"],))', "not name"),),
        (f"{TEST_AVRO}::test_a_logical_type_that_its_type_cannot_have_is_ignored",),
    ),
    Breakage(
        "any-number-of-items-without-bytes",
        "An array of nulls is a column of as many items as the message says, in whatever memory there is.",
        "bounded memory",
        (Edit(f"{AVRO}/resolve.py", "wrong = counts > EMPTY_ITEMS_MAX\n", "wrong = counts > 2 * EMPTY_ITEMS_MAX\n"),),
        (f"{TEST_AVRO}::test_items_that_have_no_bytes",),
    ),
    Breakage(
        "a-key-without-its-aliases",
        "The aliases of the reader's schema are names of a row's fields, and not of its key's.",
        "the batch answer",
        (
            Edit(
                f"{AVRO}/read.py",
                "_with_columns(writer, schema, _reader(encoding, MessagePart.ROW))",
                "_with_columns(writer, schema, None)",
            ),
        ),
        (f"{TEST_AVRO}::test_aliases_of_the_readers_schema_are_names_in_keys_too",),
    ),
    Breakage(
        "the-least-number-has-no-size",
        "The size of a number of seconds is compared, which the least one of 64 bits does not have, so its moment is that of 1970.",
        "no silence",
        (
            Edit(
                f"{PROTOBUF}/resolve.py",
                "(seconds > SECONDS_MAX) | (seconds < -SECONDS_MAX)",
                "(np.abs(seconds) > SECONDS_MAX)",
            ),
        ),
        (f"{TEST_PROTOBUF}::test_the_seconds_of_a_moment_are_any_number",),
    ),
    Breakage(
        "an-entry-without-its-message",
        "The value of a map's entry that leaves an empty message out is NULL.",
        "the batch answer",
        (
            Edit(
                f"{PROTOBUF}/resolve.py",
                "if of_entry and is_message:",
                "if of_entry and is_message and count < 0:",
            ),
        ),
        (f"{TEST_PROTOBUF}::test_what_an_entry_of_a_map_leaves_out_is_as_google_has_it[proto3--False]",),
    ),
    Breakage(
        "a-message-by-one-count-alone",
        "Where clients count messages otherwise, Java's count is believed, and others' messages are read as something else.",
        "no silence",
        (Edit(f"{PROTOBUF}/read.py", "and described is not declared:", "and not declared.name:"),),
        (f"{TEST_PROTOBUF}::test_which_message_a_path_means",),
    ),
    Breakage(
        "a-path-without-its-numbers-below-zero",
        "A number below 0 in the path of a message is left out, so the rest names another message.",
        "no silence",
        (Edit(f"{PROTOBUF}/read.py", "cursor.fault(mine[numbers < 0], ", "cursor.fault(mine[:0], "),),
        (f"{TEST_PROTOBUF}::test_a_path_with_a_negative_number_is_malformed",),
    ),
    Breakage(
        "any-404-says-that-a-schema-does-not-exist",
        "The 404 of a proxy without a backend is believed, so all messages of a schema are malformed and left out.",
        "no silence",
        (Edit(CLIENT, "answer.status_code == 404 and not _is_of_registry(answer)", "False"),),
        (f"{TEST_CLIENT}::test_a_404_that_no_registry_gives_is_no_answer",),
        tells="UnknownSchema|RegistryRefused",
    ),
    Breakage(
        "any-server-is-an-old-registry",
        "A server that knows no kinds of schemas is taken for a registry from before there were several, whatever it is.",
        "what doctor says",
        (Edit(CLIENT, "            self._confirm(doing)\n", ""),),
        (f"{TEST_CLIENT}::test_a_404_that_no_registry_gives_is_no_answer[kinds-default backend - 404]",),
    ),
    Breakage(
        "any-answer-is-compatible",
        "An answer that does not say whether a schema is compatible counts as one that does.",
        "what doctor says",
        (Edit(ANSWERS, '            raise WrongAnswer("is_compatible", answer)', "            return None"),),
        (f"{TEST_CLIENT}::test_an_answer_of_another_form_is_refused",),
    ),
    Breakage(
        "a-kind-that-is-null",
        "A schema whose kind is null is of no kind, so all its messages are malformed.",
        "the batch answer",
        (Edit(ANSWERS, 'SchemaAnswer(kind or "AVRO", ', "SchemaAnswer(kind, "),),
        (f"{TEST_CLIENT}::test_what_a_schema_leaves_out_may_be_null",),
    ),
    Breakage(
        "a-replay-asks-the-registry",
        "A replay asks the registry which schemas there are, and not the record of the step, so it reads what was left out.",
        "2 determinism",
        (
            Edit(
                "coordinator/stepping/stepping.py",
                "unknown=unknown_in_replay(self._writer.state.step_records.get(record.step)),",
                "unknown=None,",
            ),
        ),
        (
            "tests/end_to_end/test_formats.py::test_a_replay_leaves_out_what_was_left_out_although_the_registry_knows_its_schema_by_now[skip]",
        ),
        tells="DigestMismatch",
    ),
    Breakage(
        "a-replay-by-what-the-process-knows",
        "A replay reads messages whose schema was unknown, because its process knows the schema by now.",
        "2 determinism",
        (Edit(CLIENT, "if number in (judgement().recorded or ()):", "if False:"),),
        (f"{TEST_UNKNOWN}::test_a_replay_takes_for_unknown_what_was_unknown",),
    ),
    Breakage(
        "a-lost-schema-is-a-malformed-message",
        "A replay leaves out messages that were read, because the registry has lost their schema.",
        "no silence",
        (Edit(CLIENT, "        if found is None and present.recorded is not None:\n", "        if False:\n"),),
        (f"{TEST_UNKNOWN}::test_a_replay_does_not_take_for_malformed_what_was_read",),
    ),
    Breakage(
        "an-unknown-id-is-remembered-in-a-replay",
        "A replay believes that an id is unknown that the process has once found so, although another worker has read it.",
        "2 determinism",
        (Edit(CLIENT, "or (found is None and present.recorded is not None):", "or False:"),),
        (f"{TEST_UNKNOWN}::test_a_replay_does_not_take_for_malformed_what_was_read",),
        tells="SchemaGone",
    ),
    Breakage(
        "unknown-in-one-partition-is-unknown-in-all",
        "Messages of several partitions are read together, although other schemas count as unknown in them.",
        "2 determinism",
        (Edit("engine/run/sources.py", "        is_apart = waiting and ", "        is_apart = False and "),),
        ("tests/engine/test_sources.py::test_the_same_schemas_are_unknown_in_the_same_partitions_of_a_replay",),
    ),
    Breakage(
        "nothing-was-unknown-in-the-records-of-before",
        "A record of a release from before counts as one of a step that knew all schemas, although it left messages out.",
        "no silence",
        (
            Edit(
                "coordinator/stepping/unknown_schemas.py",
                "if record is None or (record.unknown is None and any(record.skipped.values())):",
                "if record is None:",
            ),
        ),
        (
            "tests/coordinator/stepping/test_unknown_schemas.py::test_the_registry_says_what_a_release_from_before_has_not_recorded",
        ),
    ),
    Breakage(
        "a-redirect-to-nowhere",
        "The error of a redirect does not say where it leads.",
        "what errors say",
        (Edit(CLIENT, "        if answer.has_redirect_location:", "        if False:"),),
        (f"{TEST_CLIENT}::test_a_redirect_says_where_it_leads",),
    ),
)
