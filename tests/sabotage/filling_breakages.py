"""Mistakes in how young nodes are filled, and in what kept ones get in the step of the switch."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

FEEDS, COMPARING = "engine/operators/feeds.py", "engine/analysis/comparing.py"
DIFFERENCES = "engine/operators/differences.py"
FILLING_CIRCUIT, SWITCHING_CIRCUIT = "engine/analysis/filling_circuit.py", "engine/analysis/switching_circuit.py"
PROJECT_MATCH, CONTEXT = "engine/analysis/project_match.py", "engine/operators/context.py"
TESTS = "tests/engine/test_filling.py"
BEGIN_ONCE = f"{TESTS}::test_young_constants_and_aggregates_without_groups_begin_once"
TAKES_BACK = f"{TESTS}::test_what_reads_a_changed_view_takes_rows_back"
FILLED = "filled state is that of a fresh run"
PASSED = "passed = _within(change, node.colocation, 0, before) if before else zset.empty(node.types)"

FILLING = (
    Breakage(
        "growth-of-what-fills",
        "A young node is filled as if it grew like what it is filled from, which the former project has, and is another node after that.",
        FILLED,
        (Edit(FILLING_CIRCUIT, "            found[at] = says\n", "            found[at] = found[at] or says\n"),),
        (f"{TESTS}::test_a_view_that_grows_otherwise_now_has_readers",),
    ),
    Breakage(
        "change-above-the-position",
        "A feed passes on changes of rows that it has not given yet, and gives these rows once more.",
        FILLED,
        (Edit(FEEDS, PASSED, "passed = change"),),
        (f"{TESTS}::test_a_changed_project_is_as_a_fresh_run_of_it[0]",),
    ),
    Breakage(
        "change-below-the-position",
        "A feed forgets the changes of rows that it has given.",
        FILLED,
        (Edit(FEEDS, PASSED, "passed = zset.empty(node.types)"),),
        (f"{TESTS}::test_rows_that_were_given_go_on_to_change",),
    ),
    Breakage(
        "content-before-the-change",
        "A feed gives the content of before the step, so the change of the rows that it gives in the step is lost.",
        FILLED,
        (
            Edit(
                FEEDS,
                "        return zset.add([passed, content(node, values, context, before, after)])\n",
                "        now = content(node, values, context, before, after)\n"
                "        return zset.add([passed, now, zset.negate(_within(change, node.colocation, before, after))])\n",
            ),
        ),
        (f"{TESTS}::test_a_changed_project_is_as_a_fresh_run_of_it[0]",),
    ),
    Breakage(
        "kept-reader-without-the-difference",
        "A kept reader of a changed view gets the change of the switch alone, so it keeps what is gone.",
        FILLED,
        (Edit(SWITCHING_CIRCUIT, "return self.switched[below][reader]", "return self.raw[below]"),),
        (f"{TAKES_BACK}[sums-3]",),
    ),
    Breakage(
        "young-reader-with-the-difference",
        "A young reader of a changed view gets the difference beside the new content from which it was filled.",
        FILLED,
        (
            Edit(
                SWITCHING_CIRCUIT,
                "            young=self.raw.__getitem__,\n",
                "            young=lambda node: next(iter(self.switched[node].values()), self.raw[node]),\n",
            ),
        ),
        (f"{TESTS}::test_a_young_reader_of_a_changed_view_was_filled_from_its_new_content",),
    ),
    Breakage(
        "difference-twice",
        "A kept reader gets the difference twice.",
        FILLED,
        (
            Edit(
                DIFFERENCES,
                "zset.add([change, zset.as_schema(as_zset(left), zset.schema_of(node.types))])",
                "zset.add([change, *[zset.as_schema(as_zset(left), zset.schema_of(node.types))] * 2])",
            ),
        ),
        (f"{TAKES_BACK}[sums-3]",),
        tells="than were ever in it",
    ),
    Breakage(
        "growth-behind-a-change",
        "A maximum that was kept as an accumulator is kept although the switch takes rows back below it.",
        FILLED,
        (
            Edit(
                PROJECT_MATCH,
                "return is_reached and operator_of(node).growth.is_relied_on(node)",
                "return is_reached and operator_of(node).growth.is_needed",
            ),
        ),
        (f"{TAKES_BACK}[highest-3]", f"{TAKES_BACK}[leading-3]"),
    ),
    Breakage(
        "young-constants-never-begin",
        "A constant of a young view is inserted in the first step of the pipeline, which is over.",
        FILLED,
        (
            Edit(
                CONTEXT,
                "return begins and self.step.division.number == self.step.first",
                "return begins and self.step.division.number == 0",
            ),
        ),
        (BEGIN_ONCE,),
    ),
    Breakage(
        "constants-begin-with-each-program",
        "Constants are inserted again in the step of the switch, and in the one after it.",
        FILLED,
        (
            Edit(
                CONTEXT,
                "begins = self.run.begins is None or self.node in self.run.begins or self.step.first == 0",
                "begins = self.run.begins is None or self.node >= 0",
            ),
        ),
        (BEGIN_ONCE,),
    ),
    Breakage(
        "difference-elsewhere",
        "The rows of a difference lie by all their columns, and those of the view by its key.",
        "9 bounded",
        (Edit(COMPARING, "    return colocation if colocation is not None else view.key or", "    return"),),
        (f"{TESTS}::test_a_difference_lies_where_its_view_lies",),
    ),
    Breakage(
        "a-twin-in-the-tables-of-its-node",
        "A twin has the number of the kept node of which it is a copy.",
        FILLED,
        (Edit(COMPARING, 'return self._number_of_twin(("now", node))', "return self.numbers_now[node]"),),
        (f"{TESTS}::test_numbers_name_one_node",),
    ),
    Breakage(
        "error-rows-of-copies-are-counted",
        "The error rows of a kept node are counted once more where it is computed again.",
        FILLED,
        (Edit("engine/run/stage.py", "is_uncounted = index in task.run.uncounted", "is_uncounted = index < 0"),),
        (f"{TESTS}::test_error_rows_of_a_copy_are_those_of_the_node_that_is_copied",),
    ),
    Breakage(
        "old-rows-by-position",
        "Old rows of a view that gets a column in front have each value in the column before it.",
        FILLED,
        (
            Edit(
                FILLING_CIRCUIT,
                "tuple(places.get(column) for column in _columns(now))",
                "tuple(i if now.types[i : i + 1] == before.types[i : i + 1] else None for i in range(len(now.types)))",
            ),
        ),
        (f"{TESTS}::test_old_rows_have_the_columns_of_now_by_name[False]",),
        tells="than were ever in it",
    ),
    Breakage(
        "a-topic-with-another-view",
        "A topic that goes on with another view keeps the rows of the one that it had.",
        FILLED,
        (
            Edit(
                "engine/analysis/topic_columns.py",
                "is_same_view=before == counterpart(found, view) and not is_changed,",
                "is_same_view=not is_changed,",
            ),
        ),
        (f"{TESTS}::test_an_output_that_goes_on_with_another_view_gets_what_differs",),
    ),
    Breakage(
        "filled-with-one-content-and-compared-with-another",
        "What is filled from a view that is dropped is compared with the new content that is computed below it.",
        FILLED,
        (Edit("engine/analysis/history.py", "        if index in self.otherwise:\n", "        if index in ():\n"),),
        ("tests/end_to_end/test_changes_below_kept_views.py::test_readers_have_the_new_answer_once[3]",),
    ),
    Breakage(
        "rebuilt-views-by-the-names-of-now",
        "A view that is rebuilt because of what is below it is compared by names that have changed.",
        FILLED,
        (
            Edit(
                COMPARING,
                'return "place" if found.was.views.get(leaf) == found.ids.views[leaf] else "name"',
                'return "name"',
            ),
        ),
        ("tests/end_to_end/test_changes_below_kept_views.py::test_readers_have_the_new_answer_once[3]",),
    ),
    Breakage(
        "written-again-although-withheld",
        "An output that is withheld writes all rows once more at the switch, and a row that is gone before it is released leaves its message.",
        FILLED,
        (
            Edit(
                "engine/operators/output.py",
                "        if node.handle in context.step.written_again:\n",
                "        if not node.handle:\n",
            ),
        ),
        (
            "tests/end_to_end/test_written_again.py::test_messages_of_rows_that_go_while_they_are_withheld_are_deleted[False-1]",
            "tests/end_to_end/test_written_again.py::test_messages_of_rows_that_go_while_they_are_withheld_are_deleted[True-3]",
        ),
    ),
    Breakage(
        "append-from-now-through-a-kept-view",
        "`--append OUTPUT=from-now` is accepted where old rows come through a kept view.",
        FILLED,
        (
            Edit(
                "coordinator/revisions/chosen_comparison.py",
                "    if output.inputs[0] in usual.receiving:\n",
                "    if output.inputs[0] in ():\n",
            ),
        ),
        ("tests/stepwell/test_choices.py::test_what_comes_through_a_kept_view_cannot_be_left_out",),
    ),
)
