"""Mistakes in how definitions are read: parameters that are ignored, and AUTO CDC."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

AUTO_CDC, TEST_AUTO_CDC = "stepwell/project/auto_cdc.py", "tests/stepwell/lowering/test_auto_cdc.py"
DEFINITIONS, SQL_FILES = "stepwell/project/definitions.py", "stepwell/project/sql_files.py"
TEST_API = "tests/stepwell/test_definitions_api.py"

TEST_NAMES = "tests/stepwell/test_query.py::test_names_that_need_backticks_are_read_and_asked"
STRUCTS = "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[structs with other names]"

DEFINED = (
    Breakage(
        "names-parsed-by-spark",
        "A view whose name begins with a digit cannot be read by another view.",
        "what Spark's catalog takes works",
        (Edit("stepwell/planning/shown_names.py", "TempView(quote_for_spark(name))", "TempView(name)"),),
        (TEST_NAMES,),
        tells="Invalid view name",
    ),
    Breakage(
        "names-parsed-in-an-answer",
        "A view whose name begins with a digit cannot be asked by `stepwell query`.",
        "what Spark's catalog takes works",
        (
            Edit(
                "stepwell/inspection/query.py",
                "createOrReplaceTempView(quote_for_spark(views[name].name))",
                "createOrReplaceTempView(views[name].name)",
            ),
        ),
        (TEST_NAMES,),
    ),
    Breakage(
        "names-that-no-query-reads",
        "A table may have a name that Spark's catalog does not take.",
        "what is refused is refused at its definition",
        (Edit("stepwell/project/elements.py", 're.compile(r"\\w+", re.ASCII)', 're.compile(r".+")'),),
        ("tests/stepwell/test_definitions.py::test_a_table_has_a_name_that_sparks_catalog_takes",),
    ),
    Breakage(
        "backticks-in-names",
        "The backticks of a name in Python are a part of it.",
        "what Spark's catalog takes works",
        (
            Edit(
                DEFINITIONS,
                '{"name": name_in_python(output.name)',
                '{"name": output.name',
            ),
        ),
        ("tests/stepwell/test_definitions.py::test_flows_and_targets_in_python_may_stand_in_backticks",),
        tells="has a backtick in it",
    ),
    Breakage(
        "fields-of-a-list-by-their-names",
        "Structs in a list are compared by the names of their fields, so `(a, b) IN ((1, 2))` is never true.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/comparison.py",
                'value, *candidates = _of_one_type(node, "IN", arguments)',
                "value, *candidates = arguments",
            ),
        ),
        (STRUCTS,),
    ),
    Breakage(
        "fields-of-branches-by-their-names",
        "A branch of a choice whose fields are written in another case is null.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/conditional.py",
                "renamed_fields(branch, type_) or branch for",
                "branch for",
            ),
        ),
        (
            "tests/stepwell/expressions/test_logic.py::test_logic_is_sparks[if(o, named_struct('A', i, 'b', j), named_struct('a', 7, 'B', k))]",
        ),
    ),
    Breakage(
        "fields-of-a-union-in-another-order",
        "Fields of structs that get other names are taken in the reverse order.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/expressions/fragment.py",
                "for former, field in zip(own, target, strict=True):",
                "for former, field in zip(reversed([*own]), target, strict=True):",
            ),
        ),
        (STRUCTS,),
    ),
    Breakage(
        "a-parameter-is-ignored",
        "What a definition says about the arrangement of files is dropped without a word.",
        "no silence",
        (Edit(DEFINITIONS, '"cluster_by": output.cluster_by or ()', '"cluster_by": ()'),),
        (f"{TEST_API}::test_no_parameter_is_silently_ignored",),
    ),
    Breakage(
        "a-clause-is-ignored",
        "A collation by which a table is to be compared is left out.",
        "no silence",
        (Edit(SQL_FILES, "    _refuse_collation(_option(spec.collation()), name, location)\n", ""),),
        (f"{TEST_API}::test_no_part_of_a_statement_is_silently_ignored",),
    ),
    Breakage(
        "settings-of-answers-are-taken",
        "A flow's setting that changes what expressions give is accepted.",
        "the batch answer",
        (Edit("stepwell/project/flow_conf.py", "        if default is not None or key", "        if key"),),
        (f"{TEST_API}::test_refused_in_python",),
    ),
    Breakage(
        "settings-of-json-are-taken",
        "A setting that changes what from_json keeps is accepted, and the circuit keeps what it keeps without it.",
        "the batch answer",
        (Edit("stepwell/project/flow_conf.py", '    "spark.sql.json.enablePartialResults": "true",\n', ""),),
        (f"{TEST_API}::test_a_setting_that_changes_an_answer_of_spark_is_refused",),
    ),
    Breakage(
        "columns-of-files-need-not-exist",
        "A misspelled column by which files are to be arranged goes unnoticed.",
        "no silence",
        (
            Edit(
                "stepwell/project/tables.py",
                '        if name.lower() not in names:\n            raise ProjectError(\n                f"the rows',
                '        if not names:\n            raise ProjectError(\n                f"the rows',
            ),
        ),
        ("tests/stepwell/test_tables.py::test_what_only_says_how_files_are_stored_is_accepted_and_noted",),
    ),
    Breakage(
        "the-first-change-counts",
        "AUTO CDC keeps the change of the least sequence.",
        "the batch answer",
        (Edit(AUTO_CDC, "part.desc() for part in order", "part.asc() for part in order"),),
        (f"{TEST_AUTO_CDC}::test_every_step_holds_what_spark_makes_of_the_changes",),
    ),
    Breakage(
        "a-delete-forgets-its-key",
        "Deletes are left out before the last change is looked for, so that an older change revives the row.",
        "the batch answer",
        (
            Edit(
                AUTO_CDC,
                "    ranked = changes.withColumn(_RANK,",
                "    ranked = changes.where(~F.col(_DELETED)).withColumn(_RANK,",
            ),
        ),
        (f"{TEST_AUTO_CDC}::test_a_late_change_alters_nothing_and_a_deleted_row_does_not_come_back",),
    ),
    Breakage(
        "a-delete-goes-before-an-update",
        "Of an update and a delete with one sequence, the delete counts under SCD type 1.",
        "the batch answer",
        (
            Edit(
                AUTO_CDC,
                "(*(part.desc() for part in order), F.col(_DELETED).asc())",
                "(*(part.desc() for part in order), F.col(_DELETED).desc())",
            ),
        ),
        (f"{TEST_AUTO_CDC}::test_what_spark_leaves_open_is_decided_by_the_changes_alone",),
    ),
    Breakage(
        "changes-without-sequence-count",
        "A change whose sequence is null is taken for the oldest one.",
        "no silence",
        (Edit(AUTO_CDC, "F.when(sequence.isNull(), missing(", "F.when(F.lit(False), missing("),),
        (f"{TEST_AUTO_CDC}::test_a_change_without_key_or_sequence_stops_the_step",),
    ),
    Breakage(
        "one-version-for-all-changes",
        "SCD type 2 goes on with a version although a tracked column changed.",
        "the batch answer",
        (
            Edit(
                AUTO_CDC,
                "        return reduce(Column.__and__, same, neighbour",
                "        return reduce(Column.__and__, (), neighbour",
            ),
        ),
        (f"{TEST_AUTO_CDC}::test_every_step_holds_what_spark_makes_of_the_changes",),
    ),
    Breakage(
        "versions-of-no-length",
        "Of several changes with one sequence, each becomes a version.",
        "the batch answer",
        (Edit(AUTO_CDC, ".where(~sequence.eqNullSafe(following))", ".where(sequence.isNotNull())"),),
        (f"{TEST_AUTO_CDC}::test_what_spark_leaves_open_is_decided_by_the_changes_alone",),
    ),
    Breakage(
        "all-rows-of-the-first-rank-are-the-first",
        "row_number() is 1 for every row of rank 1.",
        "the batch answer",
        (
            Edit(
                "stepwell/lowering/rules/window.py",
                '({"RowNumber"} if below["rankLikeFunction"].kind == "RowNumber" else set())',
                '{"RowNumber"}',
            ),
        ),
        (
            "tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[numbers of rows of the first rank]",
        ),
    ),
)
