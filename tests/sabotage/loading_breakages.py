"""Mistakes in how batch tables are loaded for a changed project, and in what becomes of former loads."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

LOADS, LOADING, TABLES = (
    "coordinator/revisions/loads.py",
    "coordinator/transition/loading.py",
    "coordinator/starting/topics/batch_tables.py",
)
RECORDS, STATE = "io_kafka/step_log/table_records.py", "io_kafka/step_log/state.py"
TEST_LOADS, TEST_RULES = "tests/coordinator/revisions/test_loads.py", "tests/io_kafka/test_revision_rules.py"
TEST_LOADING, TEST_FILES = "tests/end_to_end/test_loading_tables.py", "tests/stepwell/test_batch_tables.py"
TEST_MACHINE = "tests/coordinator/transition/test_machine.py"
ANSWER = "the batch answer"

LOADED = (
    Breakage(
        "a-reload-that-is-none",
        "A table that is to be loaded again keeps the load that it has.",
        ANSWER,
        (Edit(LOADS, "known is None or source.table.handle in again or", "known is None or"),),
        (f"{TEST_LOADS}::test_what_is_new_is_reloaded_or_has_other_columns_is_loaded",),
    ),
    Breakage(
        "a-load-without-the-new-columns",
        "A table of a catalog that got other columns keeps its load, which lacks them.",
        ANSWER,
        (
            Edit(
                LOADS,
                "return not source.table.format.schema.equals(known.table.format.schema)",
                "return source.table.handle != known.table.handle",
            ),
        ),
        (f"{TEST_LOADS}::test_what_is_new_is_reloaded_or_has_other_columns_is_loaded",),
    ),
    Breakage(
        "a-load-behind-the-former-one",
        "A load has the topic of the one before it, so its nodes are kept and have the rows of both.",
        ANSWER,
        (Edit(LOADS, "topic = load_topic_of(name, load)", "topic = name"),),
        (f"{TEST_LOADS}::test_what_is_new_is_reloaded_or_has_other_columns_is_loaded",),
    ),
    Breakage(
        "files-without-their-loads",
        "A start compares the files with the recorded project as if no table had been loaded again, so it refuses them.",
        "a service starts with the project that was applied",
        (
            Edit(
                "coordinator/starting/project/same_project.py",
                "with_marks_of(recorded, named).spec(named)",
                "with_marks_of(recorded, files).spec(files)",
            ),
        ),
        (f"{TEST_LOADING}::test_an_old_copy_of_the_state_that_would_read_a_deleted_load_is_refused",),
        tells="the project is not the one that the state belongs to",
    ),
    Breakage(
        "half-a-load",
        "The intent of a transition may have a load that is not whole.",
        ANSWER,
        (Edit(RECORDS, "        if not load.is_whole:\n", "        if load.is_whole is None:\n"),),
        (f"{TEST_RULES}::test_a_transition_has_whole_loads_in_topics_of_their_own",),
    ),
    Breakage(
        "two-loads-in-one-topic",
        "Two loads may be in one topic, of which one would be deleted with the other.",
        ANSWER,
        (Edit(RECORDS, "        if load.topic.topic in topics:\n", "        if load.topic.topic in ():\n"),),
        (f"{TEST_RULES}::test_a_transition_has_whole_loads_in_topics_of_their_own",),
    ),
    Breakage(
        "a-load-that-never-ends",
        "A load that no revision reads any more stays in the step log, so its topic is never deleted.",
        "nothing is left after a transition",
        (
            Edit(
                STATE,
                "for name, load in self.tables.items() if name not in gone",
                "for name, load in self.tables.items()",
            ),
        ),
        (f"{TEST_RULES}::test_a_load_counts_from_the_intent_on_and_until_nobody_needs_it",),
    ),
    Breakage(
        "a-load-that-leaves-positions",
        "The positions in the topic of each former load stay in the step log, so every step costs more after each load.",
        "9 bounded",
        (
            Edit(
                STATE,
                "            next_offsets={where: at for where, at in self.next_offsets.items() if where.topic not in gone},\n",
                "",
            ),
        ),
        (f"{TEST_RULES}::test_a_load_counts_from_the_intent_on_and_until_nobody_needs_it",),
    ),
    Breakage(
        "the-load-in-force-deleted",
        "With the end of a transition all loads go, also those that the revision in force reads.",
        "6 two versions",
        (
            Edit(
                "coordinator/transition/transitions.py",
                "tables = (source.table for source in self.course.plan_of(revision).inputs if source.is_table)",
                "tables = (source.table for source in self.course.plan_of(revision).inputs if not source.is_table)",
            ),
        ),
        (f"{TEST_LOADING}::test_an_abort_leaves_the_former_load",),
        tells="UnknownTopic",
    ),
    Breakage(
        "an-old-copy-without-its-load",
        "An old copy of the state is opened although the steps after it read a load that is deleted.",
        "no silence: what cannot be replayed is named",
        (Edit("coordinator/starting/workers/usable_versions.py", "if step < log.replayed_from:", "if step < 0:"),),
        ("tests/coordinator/test_start.py::test_a_version_whose_steps_would_read_deleted_loads_is_not_opened",),
    ),
    Breakage(
        "rows-behind-a-load",
        "What somebody else has written behind a load is read for new nodes.",
        ANSWER,
        (
            Edit(
                "coordinator/transition/reread_portions.py",
                "known = {**ends_of_loads(log, self._table_topics & log.tables.keys()), **live}",
                "known = dict(live)",
            ),
        ),
        (
            "tests/coordinator/transition/test_reread_portions.py::test_a_table_that_only_new_nodes_read_ends_with_its_load",
        ),
    ),
    Breakage(
        "loads-deleted-by-a-fenced-run",
        "A run that was fenced deletes the topics of loads of the run that has taken over.",
        "5 fences",
        (
            Edit(
                TABLES,
                "            writer.log.confirm()\n            topics.delete(lost)\n",
                "            topics.delete(lost)\n",
            ),
        ),
        (f"{TEST_LOADS}::test_a_run_that_was_fenced_deletes_nothing",),
    ),
    Breakage(
        "loads-of-another-pipeline-deleted",
        "A pipeline takes the topics of one with a longer name for its own, and deletes them.",
        "a pipeline leaves what is not its own alone",
        (Edit("coordinator/topic_names.py", "[0-9a-f]{{16}}(\\.[0-9a-f]+)?", ".*[0-9a-f]{{16}}(\\.[0-9a-f]+)?"),),
        (f"{TEST_LOADS}::test_the_topics_of_a_pipelines_loads_are_told_from_all_others",),
    ),
    Breakage(
        "a-failed-load-left",
        "A load that fails leaves its topic until the next start.",
        "nothing is left after a transition",
        (Edit(LOADING, "        remove_loads(tables, topics)\n        raise\n", "        raise\n"),),
        (f"{TEST_LOADS}::test_a_load_that_fails_leaves_no_topic",),
    ),
    Breakage(
        "a-stranger-in-a-load",
        "It is not noticed that somebody else writes into the topic of a load, so rows are missing at its end.",
        ANSWER,
        (Edit("io_kafka/clients/table_writer.py", "if offset != self.ends.get(number, 0):", "if offset < 0:"),),
        ("tests/io_kafka/test_table_writer.py::test_what_somebody_else_has_written_is_noticed",),
    ),
    Breakage(
        "loads-match-a-pattern",
        "A source that names its topics by a pattern reads the rows of batch tables as messages, and misses those that are deleted.",
        ANSWER,
        (
            Edit(
                "coordinator/starting/topics/patterns.py",
                "names = {name for name in topics.names() if not has_rows_of_tables(name)}",
                "names = set(topics.names())",
            ),
        ),
        ("tests/coordinator/starting/test_patterns.py::test_no_pattern_matches_the_topics_of_batch_tables",),
    ),
    Breakage(
        "a-table-below-other-names",
        "A table whose columns all get other names in a query is not found in its plan, and the query is refused.",
        "a query of Spark's runs",
        (
            Edit(
                "stepwell/planning/leaves.py",
                'if leaf.getClass().getSimpleName() == "InMemoryRelation":',
                'if leaf.getClass().getSimpleName() == "LogicalRDD":',
            ),
        ),
        (f"{TEST_FILES}::test_columns_may_get_other_names",),
        tells="neither a table of this project nor rows written in it",
    ),
    Breakage(
        "a-reload-that-is-not-asked-for",
        "The service forgets which tables are to be loaded again.",
        "a command does what it says",
        (
            Edit(
                "stepwell/service/revisions.py",
                "            reload=self.reload,\n",
                "",
            ),
        ),
        ("tests/stepwell/test_apply.py::test_tables_that_are_to_be_loaded_anew_reach_the_plan_and_the_loop",),
    ),
    Breakage(
        "an-abort-that-came-too-early",
        "An abort is forgotten that was asked for while a table was loaded, and the change is made.",
        "a command does what it says",
        (
            Edit(
                "coordinator/transition/machine.py",
                "self.asked = TransitionRequests(turn=self.asked.turn)",
                "self.asked = NO_REQUESTS",
            ),
        ),
        (f"{TEST_MACHINE}::test_an_abort_of_a_transition_that_is_prepared_comes_as_soon_as_it_has_begun",),
    ),
    Breakage(
        "an-abort-of-the-transition-before",
        "An abort that came after the switch of a transition takes back the next one.",
        "a command does what it says",
        (
            Edit(
                "coordinator/transition/machine.py",
                "self.asked = replace(self.asked, turn=None)",
                "self.asked = replace(self.asked)",
            ),
        ),
        (f"{TEST_MACHINE}::test_an_abort_of_a_transition_that_is_prepared_comes_as_soon_as_it_has_begun",),
    ),
)
