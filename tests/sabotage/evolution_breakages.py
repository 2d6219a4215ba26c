"""Mistakes in what a changed project keeps of the previous one."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

IDENTITY, PROJECT_MATCH = "engine/analysis/identity.py", "engine/analysis/project_match.py"
TEST_IDENTITY = "tests/engine/test_identity.py"
TEST_CHANGED_TABLES = "tests/stepwell/test_tables_that_change.py::test_after_an_edit_of_a_source_its_views_have_the_answer_of_the_new_project"
DOCUMENT, TEST_DOCUMENT = "engine/run/plan_document.py", "tests/engine/test_plan_document.py"
CONTINUING = "coordinator/revisions/continuing.py"
REVISION_RULES, REVISION_STATE = "io_kafka/step_log/revision_rules.py", "io_kafka/step_log/revision_state.py"
REVISIONS = "tests/end_to_end/test_revisions.py"
HISTORY, TEST_HISTORY = "engine/analysis/history.py", "tests/engine/test_history.py"
REREADING, OUTPUTS = "coordinator/revisions/rereadable.py", "coordinator/revisions/output_plans.py"
TEST_PLANNED = "tests/stepwell/test_planned.py"
COPIES = "tests/engine/test_filling.py::test_a_view_that_copies_a_changed_one_does_not_hold_its_new_content"
FED = "tests/engine/test_descriptors.py::test_an_output_that_is_fed_from_state_changes_only_with_the_state"
STORED_IS_FED = "        if before in self._stored:\n            return Feed(index, self._stored[before])\n        if index in self.otherwise"
TEST_FED, TEST_TRACE = "tests/engine/test_fed.py", "tests/engine/test_trace.py"
KINDS_FED = f"{TEST_FED}::test_what_is_fed_from_state_is_the_sum_of_all_changes"
ODD_FED = f"{TEST_FED}::test_what_is_fed_from_state_is_that_sum_for_unusual_rows"
SCHEMAS = "coordinator/starting/topics/schemas.py"
REFUSED_SCHEMA = (
    "tests/end_to_end/test_formats.py::test_a_schema_that_the_registry_refuses_is_refused_before_anything_is_recorded"
)
FILLED = "filled state is that of a fresh run"
KEPT_STATE = "state is kept exactly if it is what the new project would have"


def edit(name: str) -> str:
    return f"tests/stepwell/test_transition.py::test_what_an_edit_keeps[{name}]"


def refused(code: str) -> str:
    return f"{TEST_PLANNED}::test_a_view_whose_messages_cannot_be_read_again_is_refused[{code}]"


EVOLUTION = (
    Breakage(
        "identity-without-growth",
        "Whether an input only grows is no part of a node's identity, so an accumulator of a maximum is kept where rows are taken back.",
        KEPT_STATE,
        (Edit(IDENTITY, "return [grows, self._colocation[index]]", "return [self._colocation[index]]"),),
        (edit("a view that only grew takes rows back: a maximum over it has to keep all values"),),
    ),
    Breakage(
        "identity-without-placement",
        "By which columns rows lie is no part of a node's identity, so state is kept on workers that do not get its rows any more.",
        KEPT_STATE,
        (Edit(IDENTITY, "return [grows, self._colocation[index]]", "return [grows]"),),
        (edit("a view whose rows lie elsewhere, and a reader that had no need to exchange them"),),
    ),
    Breakage(
        "identity-without-topic",
        "A source is known by its columns alone, so the state of another topic is kept.",
        KEPT_STATE,
        (
            Edit(
                "coordinator/revisions/leaves.py",
                '{"handle": "", "columns": fixed}',
                '{"handle": "", "topics": (), "columns": fixed}',
            ),
        ),
        (edit("another topic of a source"),),
    ),
    Breakage(
        "identity-without-not-null",
        "That a column became NOT NULL is no part of a source's identity, although messages are malformed that were rows.",
        KEPT_STATE,
        (Edit("coordinator/revisions/leaves.py", "if not by_name or NOT_NULL in text", "if not by_name"),),
        (edit("a column that is NOT NULL"),),
    ),
    Breakage(
        "identity-without-revisions-of-functions",
        "A function that gives other results is taken for the previous one.",
        KEPT_STATE,
        (Edit("engine/analysis/release.py", "for text in _texts(plain_fields(node))", "for text in _texts(None)"),),
        (f"{TEST_IDENTITY}::test_a_function_with_other_results_is_another_function",),
    ),
    Breakage(
        "identity-by-positions",
        "Readers of a leaf know its columns by their positions, so a column that is added rebuilds all of them.",
        "a nullable column keeps all state",
        (
            Edit(
                IDENTITY,
                "self._sources[node.handle], leaf.text]), (*leaf.columns, *more))",
                'self._sources[node.handle], leaf.text]), tuple(f"c{place}" for place, _ in enumerate((*leaf.columns, *more))))',
            ),
        ),
        (edit("a column at the front of a source"),),
    ),
    Breakage(
        "selections-are-not-seen-through",
        "A Map that only selects columns counts, so a join over a source is another one as soon as the source has a column that nobody reads.",
        "a nullable column keeps all state",
        (Edit(IDENTITY, "(selected := node.selected) is not None", "(selected := None) is not None"),),
        (edit("a column of a keyed source: its table is rebuilt, and its readers stay"),),
    ),
    Breakage(
        "growth-relied-on-behind-a-change",
        "A node that cannot take rows back is kept behind a view whose content changes.",
        KEPT_STATE,
        (
            Edit(
                PROJECT_MATCH,
                "index not in young and not relies_on_growth(node, grows[index], disturbed)",
                "index not in young",
            ),
        ),
        (edit("another filter below a maximum, which only grew"),),
    ),
    Breakage(
        "kept-over-a-young-node",
        "A node is kept although one below it in its view is rebuilt.",
        KEPT_STATE,
        (Edit(PROJECT_MATCH, "if index in pairs and below_kept and", "if index in pairs and"),),
        (edit("another filter below a maximum, which only grew"),),
    ),
    Breakage(
        "one-view-changes-another",
        "A pass counts the readers in all views, so a view that is added changes how another one is computed.",
        "a view that is added keeps all state",
        (
            Edit(
                "stepwell/lowering/eager_aggregation.py",
                "isinstance(below, Map) and len(definition.readers[at]) == 1",
                "isinstance(below, Map) and sum(node.inputs.count(at) for node in circuit.nodes) == 1",
            ),
        ),
        (edit("a view is added that has the join of another one"),),
    ),
    Breakage(
        "a-renamed-view-is-a-new-one",
        "A view is only known by its name.",
        "a renamed view keeps its state",
        (Edit(IDENTITY, "if self._previous[name] == definition]", "if False]"),),
        (
            edit("a view is renamed, and its output keeps its topic"),
            f"{TEST_IDENTITY}::test_views_are_paired_by_name_and_then_by_definition",
        ),
    ),
    Breakage(
        "one-state-for-two-nodes",
        "Two equal nodes are both paired with the first one.",
        KEPT_STATE,
        (Edit(IDENTITY, "waiting[identity].pop(0)", "waiting[identity][0]"),),
        (f"{TEST_IDENTITY}::test_two_equal_nodes_have_one_state_each",),
    ),
    Breakage(
        "sources-of-one-topic-are-one",
        "Readers know a source by its topic alone, so a view of a second table over the topic gets the state of one over the first table.",
        KEPT_STATE,
        (
            Edit(
                IDENTITY, "_hash([node.kind, self._sources[node.handle], leaf.text])", "_hash([node.kind, leaf.text])"
            ),
            Edit(
                IDENTITY,
                "return [self._sources[node.handle], leaf.text, leaf.columns]",
                "return [leaf.text, leaf.columns]",
            ),
        ),
        (
            f"{TEST_CHANGED_TABLES}[one of two views of two sources goes]",
            f"{TEST_CHANGED_TABLES}[a view that reads the other source]",
            f"{TEST_IDENTITY}::test_two_sources_of_one_topic_have_one_state_each",
        ),
    ),
    Breakage(
        "a-renamed-source-is-any-of-its-topic",
        "Where two sources of one topic were renamed, columns and policies do not tell which is which.",
        KEPT_STATE,
        (Edit(IDENTITY, "if len(were) == len(handles) == 1:", "if were:"),),
        (f"{TEST_IDENTITY}::test_a_renamed_source_is_known_if_there_is_no_doubt",),
    ),
    Breakage(
        "another-key-is-the-same-source",
        "The type of a key is not in what readers know of a source, so they keep the rows of keys that have become one.",
        KEPT_STATE,
        (Edit("coordinator/revisions/leaves.py", "or NOT_NULL in text or name in leaf.key}", "or NOT_NULL in text}"),),
        (f"{TEST_CHANGED_TABLES}[keys of another type]",),
    ),
    Breakage(
        "readers-of-a-table-that-is-read-otherwise-stay",
        "A keyed source that leaves out malformed messages is read again with other columns, and its readers keep rows that its table lacks.",
        KEPT_STATE,
        (Edit(PROJECT_MATCH, "young = _readers_of_tables(now.circuit, read_otherwise)", "young = frozenset[int]()"),),
        (f"{TEST_CHANGED_TABLES}[a column of another type]", f"{TEST_CHANGED_TABLES}[a new column]"),
    ),
    Breakage(
        "columns-of-one-form-are-alike",
        "A table is made of the former one if the values of its columns have the same form, whatever is declared of them.",
        KEPT_STATE,
        (
            Edit(
                "coordinator/revisions/carrying.py",
                "if had.get(name, text) != text]",
                "if had.get(name, text).split()[0].split('(')[0] != text.split()[0].split('(')[0]]",
            ),
        ),
        (f"{TEST_CHANGED_TABLES}[a longer CHAR]", f"{TEST_CHANGED_TABLES}[a column of the record]"),
    ),
    Breakage(
        "unknown-members-are-passed-over",
        "A plan document of a newer version is read without what this one does not know.",
        "a document is read whole or not at all",
        (Edit(DOCUMENT, "forbid_extra_keys=True", "forbid_extra_keys=False"),),
        (f"{TEST_DOCUMENT}::test_what_is_no_circuit_is_refused_with_the_reason",),
    ),
    Breakage(
        "passwords-in-documents",
        "The password of a registry is written into the plan document.",
        "no secret is stored",
        (Edit(DOCUMENT, "auth=override(omit=True)", "auth=override(omit=False)"),),
        (f"{TEST_DOCUMENT}::test_every_source_is_read_back_without_the_password_of_its_registry",),
    ),
    Breakage(
        "growth-that-is-not-claimed",
        "The descriptor of the first rows of an order does not say that its state lacks the other rows while its input only grows.",
        KEPT_STATE,
        (Edit("engine/operators/top_k.py", "is_relied_on=lambda node: True", "is_relied_on=lambda node: False"),),
        ("tests/engine/test_descriptors.py::test_an_operator_that_does_not_rely_on_growth_can_take_rows_back",),
    ),
    Breakage(
        "a-view-is-lost-in-silence",
        "A project that lacks a view continues the state of the one that has it, and the view's output stands still.",
        KEPT_STATE,
        (
            Edit(
                CONTINUING,
                " or not _that_last(before.circuit) <= {*now.kept.values()}:\n",
                " or not _that_last(before.circuit):\n",
            ),
        ),
        (edit("a view is removed"),),
    ),
    Breakage(
        "a-view-without-its-history",
        "A project with another view continues the state, and the view has only what came since.",
        KEPT_STATE,
        (Edit(CONTINUING, "not _that_last(project.circuit) <= now.kept.keys() or", ""),),
        (edit("a view is added"),),
    ),
    Breakage(
        "numbers-are-given-anew",
        "The nodes of a changed project get new numbers, so they find the state of others or none.",
        KEPT_STATE,
        (
            Edit(
                "engine/analysis/numbering.py",
                "numbers_of(found.now.circuit, kept, taken=numbers)",
                "numbers_of(found.now.circuit)",
            ),
        ),
        (edit("a column at the front of a source"),),
    ),
    Breakage(
        "numbers-are-used-twice",
        "A new node gets the number of a node of the former revision.",
        KEPT_STATE,
        (Edit("engine/model/numbers.py", "    used = {*taken, *kept.values()}\n", "    used = {*kept.values()}\n"),),
        ("tests/engine/test_numbers.py::test_nodes_get_the_lowest_numbers_of_their_kind_that_nobody_has",),
    ),
    Breakage(
        "withheld-changes-without-tables",
        "An output has no number that names tables, so the first error of a row that it waits for ends the run.",
        KEPT_STATE,
        (
            Edit(
                "engine/analysis/numbering.py", "{*nodes_with_state(circuit), *outputs}", "{*nodes_with_state(circuit)}"
            ),
        ),
        ("tests/engine/test_numbers.py::test_every_node_that_may_have_a_trace_has_a_number_that_names_tables",),
    ),
    Breakage(
        "the-next-revision-at-once",
        "A changed project begins while steps of the former one are in no checkpoint, and replays them.",
        "1 division first",
        (
            Edit(
                "coordinator/pipeline.py",
                "            self._finish_recorded_steps(revision, begins.spec, log_id)\n",
                "",
            ),
            Edit(
                REVISION_RULES,
                "    if step > 0 and not (ground.is_drained and ground.is_checkpointed):\n",
                "    if step > 0 and ground.checkpoint_step is None:\n",
            ),
        ),
        (f"{REVISIONS}::test_a_project_that_computes_the_same_continues_its_state_and_writes_nothing[all at once-3]",),
        tells="begins with step",
    ),
    Breakage(
        "a-copy-from-before-the-revision",
        "A database from before the revision in force is opened, and its steps are replayed with another circuit.",
        "3 the recorded steps",
        (Edit("coordinator/starting/workers/usable_versions.py", "step < root.step:", "step < 0:"),),
        (f"{REVISIONS}::test_a_copy_of_the_storage_folder_from_before_the_revision_is_refused",),
    ),
    Breakage(
        "the-same-term-twice",
        "The workers of the changed project have the term of those before them.",
        "5 fences",
        (Edit("coordinator/running/recovery.py", "        self._attempts += 1\n", ""),),
        (f"{REVISIONS}::test_the_workers_of_each_revision_have_a_higher_term",),
    ),
    Breakage(
        "error-rows-by-index",
        "The step log names nodes with error rows by their place in the circuit, which changes with the project.",
        KEPT_STATE,
        (
            Edit(
                "coordinator/stepping/views_in_error.py",
                "{numbered.numbers[index]: change for index, change in changes.items()}",
                "changes",
            ),
        ),
        ("tests/coordinator/stepping/test_views_in_error.py::test_the_error_rows_of_the_steps_are_added",),
    ),
    Breakage(
        "a-plan-that-a-pattern-reads",
        "A source with a pattern of topics reads the plan documents.",
        "no silence",
        (Edit("coordinator/starting/topics/patterns.py", "{spec.log_topic, spec.plan_topic, ", "{spec.log_topic, "),),
        ("tests/coordinator/starting/test_patterns.py::test_the_topics_whose_whole_names_match",),
    ),
    Breakage(
        "feeds-of-anti-joins",
        "The content of an anti join is read from its state, which has no row with a NULL key.",
        FILLED,
        (
            Edit(
                "engine/operators/semi_join.py",
                "fed=Fed(lambda node: not node.anti, ",
                "fed=Fed(lambda node: True, ",
            ),
        ),
        (FED, f"{TEST_HISTORY}::test_a_new_view_over_a_node_of_every_kind_has_a_history"),
    ),
    Breakage(
        "feeds-of-offsets",
        "The content of an OFFSET without a LIMIT is read from its state, which has the rows that are left out.",
        FILLED,
        (
            Edit(
                "engine/operators/top_k.py",
                "fed=Fed(lambda node: node.count is not None, ",
                "fed=Fed(lambda node: True, ",
            ),
        ),
        (FED,),
    ),
    Breakage(
        "stored-views-are-not-fed-from",
        "What a view has stored is not used, so messages are read again that may have expired.",
        "state goes first",
        (Edit(HISTORY, STORED_IS_FED, "        if index in self.otherwise"),),
        (f"{TEST_HISTORY}::test_a_new_view_over_a_node_of_every_kind_has_a_history",),
    ),
    Breakage(
        "missing-messages-below-a-twin",
        "A node is computed once more although a source below it cannot be read again.",
        FILLED,
        (
            Edit(
                HISTORY,
                "lacking = [each for each in below if isinstance(each, NoHistory)]",
                "lacking: list[NoHistory] = []",
            ),
        ),
        (f"{TEST_HISTORY}::test_without_its_messages_a_node_has_a_history_only_if_state_has_it",),
    ),
    Breakage(
        "expired-offsets-are-passed-over",
        "A source is read again although a partition begins above the offset at which the pipeline began.",
        "what a plan can tell is refused before anything is written",
        (Edit(REREADING, "if facts.begins[where] > start]", "if facts.begins[where] > facts.ends[where]]"),),
        (refused("expired_input"),),
    ),
    Breakage(
        "compacted-topics-are-streams",
        "A compacted topic is read again as if all its messages were there.",
        "what a plan can tell is refused before anything is written",
        (Edit(REREADING, "if compacted and not (keyed and", "if compacted and (keyed and"),),
        (refused("compacted_input"),),
    ),
    Breakage(
        "an-unknown-start-is-the-beginning",
        "Where nobody has recorded it, the pipeline is said to have begun where the topic begins today.",
        "what a plan can tell is refused before anything is written",
        (
            Edit(
                REREADING,
                'source.starting_offsets == "earliest" else None',
                'source.starting_offsets == "earliest" else facts.begins[where]',
            ),
        ),
        (refused("unknown_start"),),
    ),
    Breakage(
        "another-key-for-a-topic",
        "The key of a topic changes under its consumers.",
        "what a plan can tell is refused before anything is written",
        (Edit(OUTPUTS, "        if keys[0] != keys[1]:\n", "        if keys[0] != keys[1] and not node.key:\n"),),
        (f"{TEST_PLANNED}::test_the_key_of_a_topic_stays",),
    ),
    Breakage(
        "a-topic-of-another-view",
        "Two views change topics, so each topic gets the difference of views that have nothing to do with each other.",
        "what a plan can tell is refused before anything is written",
        (Edit(OUTPUTS, ".ids.leaves[self.view.name]:", ".ids.leaves[self.view.name] and not self.view.kept:"),),
        (f"{TEST_PLANNED}::test_two_views_cannot_change_topics",),
    ),
    Breakage(
        "append-outputs-take-rows-back",
        "An append output receives a difference, and nothing says that it may be held.",
        "an append topic is never retracted",
        (Edit(OUTPUTS, "            held_if=RETRACTS,\n", ""),),
        (f"{TEST_PLANNED}::test_an_append_output_is_held_if_rows_would_be_taken_back",),
    ),
    Breakage(
        "a-reader-of-a-changed-view-gets-nothing",
        "The plan says of a view behind a changed one that nothing happens to it.",
        "a plan tells all that is written",
        (
            Edit(
                "coordinator/revisions/view_plans.py",
                "if below in seen or below not in disturbed:",
                "if below in seen or below in disturbed:",
            ),
        ),
        (f"{TEST_PLANNED}::test_another_column_of_a_view_leaves_its_readers_as_they_are",),
    ),
    Breakage(
        "too-many-nodes-are-planned",
        "A plan does not ask whether there are numbers for the new nodes beside the previous ones.",
        "what a plan can tell is refused before anything is written",
        (Edit("coordinator/revisions/planned.py", "    refusals += _too_many(comparison)\n", ""),),
        (f"{TEST_PLANNED}::test_too_many_nodes_are_refused",),
    ),
    Breakage(
        "a-new-topic-without-a-history",
        "A new topic of a view that nobody keeps is planned although the messages are gone from which its rows would come.",
        "what a plan can tell is refused before anything is written",
        (Edit(OUTPUTS, "needed = self.comparison.needed_by((self.index,))", "needed = self.comparison.needed_by(())"),),
        (f"{TEST_PLANNED}::test_a_new_append_topic_gets_what_the_first_run_wrote",),
    ),
    Breakage(
        "event-time-is-compared",
        "An append output over event time gets a difference, although what it has written depends on how its messages were read.",
        "an append topic is never retracted",
        (
            Edit(
                OUTPUTS,
                "if is_changed and (comparison.is_unrecoverable(view)",
                "if not is_changed and (comparison.is_unrecoverable(view)",
            ),
        ),
        (f"{TEST_PLANNED}::test_an_append_output_over_event_time_is_not_compared",),
    ),
    Breakage(
        "keys-of-joins-by-the-left",
        "The key of the right side of a join is called like a column of the left side.",
        "a plan names the user's columns",
        (
            Edit(
                "coordinator/revisions/node_words.py",
                "right[other] or f'c{other}'",
                "left[other] or f'c{other}'",
            ),
        ),
        ("tests/coordinator/revisions/test_node_words.py::test_the_keys_of_a_join_are_columns_of_its_sides",),
    ),
    Breakage(
        "names-of-columns-change-places",
        "Two columns of a view change names, and what reads one of them keeps the sums of the other.",
        KEPT_STATE,
        (Edit(IDENTITY, "        if name in self._previous_columns and", "        if not name and"),),
        (f"{REVISIONS}::test_a_project_that_only_looks_the_same_is_refused[two columns of a view change names]",),
    ),
    Breakage(
        "former-snapshots-contradict",
        "A log that begins with a snapshot of the former format cannot be read on, because later ones say where inputs began.",
        "no silence",
        (
            Edit(
                "io_kafka/step_log/rules.py",
                "return log.firsts.items() <= said.items() and said.keys() <= log.next_offsets.keys()",
                "return log.firsts == said",
            ),
        ),
        (
            "tests/io_kafka/test_step_log.py::"
            "test_a_log_that_was_made_short_at_a_former_snapshot_takes_what_later_ones_say_of_the_beginnings",
        ),
        tells="contradicts",
    ),
    Breakage(
        "the-last-steps-have-former-policies",
        "The last steps of a revision do with malformed messages what the files said when it was recorded.",
        "no silence",
        (Edit("coordinator/revisions/project_of_revision.py", "        on_error=now.on_error,\n", ""),),
        (f"{REVISIONS}::test_the_last_steps_of_a_revision_have_the_policies_of_today",),
    ),
    Breakage(
        "the-last-steps-are-not-the-last",
        "While the recorded steps of a revision are finished, new input is divided.",
        "1 division first",
        (Edit("coordinator/stepping/inputs.py", "if not self.topics.goal.divides_input or log", "if log"),),
        (f"{REVISIONS}::test_the_last_steps_of_a_revision_read_nothing_new",),
    ),
    Breakage(
        "errors-of-nodes-that-are-gone",
        "A project continues a state with error rows of a node that it lacks, which nothing can end.",
        KEPT_STATE,
        (Edit(CONTINUING, "numbers if set(counted) <= set(numbers) else None", "numbers"),),
        ("tests/stepwell/test_transition.py::test_error_rows_of_a_node_that_is_gone_would_stay",),
    ),
    Breakage(
        "a-plan-topic-that-forgets",
        "Plan documents are written to a topic that deletes them after a week.",
        "no silence",
        (Edit("io_kafka/clients/plan_topic.py", '    if policy != "compact":\n', "    if not policy:\n"),),
        (f"{REVISIONS}::test_a_topic_that_would_lose_plan_documents_is_refused",),
    ),
    Breakage(
        "a-content-of-all-slots",
        "Each range of slots gives the content of all of them.",
        FILLED,
        (Edit("engine/operators/context.py", "Trace(self.store, layout, self.slots)", "Trace(self.store, layout)"),),
        (
            KINDS_FED,
            ODD_FED,
        ),
    ),
    Breakage(
        "a-bounded-read-opens-all-runs",
        "A read of some slots opens the runs of all buckets, so a feed costs the whole state for each range.",
        FILLED,
        (Edit("engine/state/trace.py", "            if first >= high or end <= low:\n                continue\n", ""),),
        (f"{TEST_TRACE}::test_a_bounded_read_opens_the_runs_of_its_buckets_alone",),
    ),
    Breakage(
        "rows-of-several-runs-are-not-added-up",
        "A scan gives a row once for each run that has it.",
        FILLED,
        (Edit("engine/state/merging.py", "number[starts] != number[ends - 1]", "number[starts] > number[ends - 1]"),),
        (
            f"{TEST_TRACE}::test_a_scan_is_what_a_merge_of_all_runs_would_be",
            ODD_FED,
        ),
    ),
    Breakage(
        "error-rows-end-a-feed",
        "An error row, which was counted when it came, ends the step in which its node is fed from.",
        FILLED,
        (Edit("engine/operators/descriptor.py", "replace(context, errors=ErrorRows())", "context"),),
        (ODD_FED,),
        tells="DIVIDE_BY_ZERO|does not fit",
    ),
    Breakage(
        "a-table-is-fed-without-its-changes",
        "The content of a keyed source has the former rows of its keys, which merges of runs have not removed yet.",
        FILLED,
        (
            Edit(
                "engine/operators/last_by_key.py",
                "    stored = context.trace(0, (*node.types, pa.int32()), node.key).scan()\n",
                "    trace = context.trace(0, (*node.types, pa.int32()), node.key)\n"
                "    stored = pa.concat_tables([trace.scan().slice(0, 0), *trace.parts()])\n",
            ),
        ),
        (ODD_FED,),
    ),
    Breakage(
        "feeds-of-views-that-store-nothing",
        "A view that stores nothing is fed from its empty state.",
        FILLED,
        (Edit("engine/operators/view.py", "Fed(lambda node: node.stored, ", "Fed(lambda node: True, "),),
        (
            KINDS_FED,
            FED,
        ),
    ),
    Breakage(
        "a-negative-weight-is-a-distinct-row",
        "A row that is taken back before it comes is told as one that is there.",
        FILLED,
        (
            Edit(
                "engine/operators/distinct.py",
                "np.flatnonzero(zset.weights_of(stored) > 0)",
                "np.flatnonzero(zset.weights_of(stored))",
            ),
        ),
        (ODD_FED,),
    ),
    Breakage(
        "all-rows-of-a-key-are-fed",
        "All rows of a key are told, and not the one that is kept.",
        FILLED,
        (
            Edit(
                "engine/operators/distinct.py",
                "return _least(node, zset.consolidate(as_zset(context.trace(0, node.types, node.key).scan())))",
                "return as_zset(context.trace(0, node.types, node.key).scan())",
            ),
        ),
        (
            KINDS_FED,
            ODD_FED,
        ),
    ),
    Breakage(
        "the-row-without-keys-in-each-range",
        "The one row of an aggregate without keys is told in each range of slots.",
        FILLED,
        (
            Edit(
                "engine/operators/aggregate.py",
                "np.full(1, context.reads_keyless)",
                "np.full(1, context.step.owns_keyless)",
            ),
        ),
        (
            KINDS_FED,
            ODD_FED,
        ),
    ),
    Breakage(
        "groups-in-error-are-fed",
        "A group of which a result does not fit has a row in what is fed.",
        FILLED,
        (
            Edit(
                "engine/operators/aggregate.py",
                "    exists, results = fit_results(plan, keys, exists, results_of(plan, totals), context.errors, sign=1)\n    rows",
                "    results = results_of(plan, totals)\n    rows",
            ),
        ),
        (ODD_FED,),
    ),
    Breakage(
        "the-content-has-the-rows-before-the-offset",
        "What is fed of an OFFSET with a LIMIT begins with the first row.",
        FILLED,
        (Edit("engine/operators/top_k.py", " - clip(node.offset - before, weights)\n", "\n"),),
        (ODD_FED,),
    ),
    Breakage(
        "rows-in-error-of-a-window-are-fed",
        "A row for which a window function raises is told.",
        FILLED,
        (
            Edit(
                "engine/operators/window.py",
                "computed.select_rows(computed.right, 1)",
                "computed.select_rows(np.ones_like(computed.right), 1)",
            ),
        ),
        (ODD_FED,),
    ),
    Breakage(
        "rows-are-fed-without-their-sessions",
        "Rows are told with their own ranges in place of those of their sessions.",
        FILLED,
        (
            Edit(
                "engine/operators/sessions.py",
                "    return merge_sessions(node, as_zset(context.trace(0, node.types, node.key).scan()))",
                "    return as_zset(context.trace(0, node.types, node.key).scan())",
            ),
        ),
        (KINDS_FED,),
    ),
    Breakage(
        "rows-are-fed-with-former-values",
        "What is fed is computed with the values of subqueries before the step.",
        FILLED,
        (
            Edit(
                "engine/operators/scalar.py",
                "as_zset(stored), _values(values).after, context)",
                "as_zset(stored), _values(values).before, context)",
            ),
        ),
        (KINDS_FED,),
    ),
    Breakage(
        "pairs-that-are-gone-are-fed",
        "A pair of a join is told although its right row is gone, because two runs still have it.",
        FILLED,
        (
            Edit(
                "engine/operators/join.py",
                "zset.consolidate(zset.as_schema(pairs, zset.schema_of(node.types)))",
                "zset.as_schema(pairs, zset.schema_of(node.types))",
            ),
        ),
        (ODD_FED,),
    ),
    Breakage(
        "rows-without-a-match-are-fed",
        "Of IN and EXISTS, the rows without a match are told too.",
        FILLED,
        (Edit("engine/operators/semi_join.py", "    return only(left, matches > 0)", "    return left"),),
        (
            KINDS_FED,
            ODD_FED,
        ),
    ),
    Breakage(
        "a-query-before-the-first-step",
        "A query before the first step finds a row of an aggregate without keys.",
        FILLED,
        (
            Edit(
                "engine/analysis/content.py",
                "            if context.step.division.number == 0:\n                return zset.empty(node.types)\n",
                "",
            ),
        ),
        (f"{TEST_FED}::test_a_query_before_the_first_step_finds_no_row_of_an_aggregate_without_keys",),
    ),
    Breakage(
        "schemas-are-not-compared",
        "A plan does not ask whether a registry takes the schema of a changed output.",
        "refused before anything is written",
        (Edit(SCHEMAS, "            if reason is not None:", "            if reason == subject.text:"),),
        (REFUSED_SCHEMA,),
    ),
    Breakage(
        "all-schemas-are-compared",
        "A plan asks registries also for schemas that do not change, so one that is away stops changes that do not concern it.",
        "refused before anything is written",
        (
            Edit(
                SCHEMAS,
                "if subject in known or output.registry is None:",
                "if known is None or output.registry is None:",
            ),
        ),
        (REFUSED_SCHEMA,),
    ),
    Breakage(
        "keys-of-another-name",
        "A view with keys in Avro is renamed over its topic, which has each row under two keys from then on.",
        "exactly once",
        (
            Edit(
                "coordinator/revisions/output_plans.py",
                "elif keys[0] == keys[1] and self._key_schema(",
                "elif keys[0] != keys[1] and self._key_schema(",
            ),
        ),
        ("tests/stepwell/test_planned.py::test_a_view_whose_keys_have_its_name_is_not_renamed_over_its_topic",),
    ),
    Breakage(
        "rows-of-another-type-taken-back",
        "A column of a changelog gets another type, and NULL is taken back in place of its former values.",
        "exactly once",
        (
            Edit(
                "coordinator/revisions/output_plans.py",
                "yield from self._refusals_of_columns(other)",
                "yield from ()",
            ),
        ),
        ("tests/stepwell/test_planned.py::test_a_changelog_keeps_the_types_of_its_columns",),
    ),
    Breakage(
        "a-copy-tells-what-a-changed-view-is",
        "The new content of a changed view is read from a kept copy of it, which has the former one until the switch.",
        "a changed project is as a fresh run of it",
        (Edit("engine/analysis/history.py", " if view not in self.behind", ""),),
        (
            f"{COPIES}[aggregate-None-hash(c0) % 3 <> 0]",
            f"{COPIES}[stream-hash(c0) % 3 <> 0-None]",
        ),
    ),
    Breakage(
        "readers-get-a-difference-over-event-time",
        "What reads a changed table over event time is kept, and gets a difference to rows that the table did not have.",
        "a changed project is as a fresh run of it",
        (Edit("engine/analysis/project_match.py", " | _kept_readers(made)", ""),),
        ("tests/end_to_end/test_event_time.py::test_what_reads_a_changed_table_over_event_time_has_its_new_rows[a]",),
    ),
    Breakage(
        "a-query-reads-former-views-by-the-numbers-of-new-ones",
        "A query of a state that a run has taken back to before a transition reads the tables of other views, or none.",
        "a query has the rows of its view",
        (Edit("stepwell/inspection/view_contents.py", "version.step < owner.since", "version.step < 0"),),
        (
            "tests/end_to_end/test_store.py::"
            "test_a_query_of_a_state_from_before_a_transition_has_no_rows_of_another_view[recovery.opened]",
        ),
    ),
    Breakage(
        "circuit-json-follows-the-log-in-a-replay",
        "While a run replays from before a transition, circuit.json has the views of the last checkpoint of the log, which the databases lack.",
        "a query has the rows of its view",
        (
            Edit(
                "coordinator/running/circuit_json.py",
                "self._course.revision_at(step)",
                "self._course.revision_at(max((version.step for version in log.checkpoints), default=0))",
            ),
        ),
        (
            "tests/end_to_end/test_store.py::"
            "test_a_query_of_a_state_from_before_a_transition_has_no_rows_of_another_view[replay.compared]",
        ),
        tells="is that of a former revision",
    ),
)
