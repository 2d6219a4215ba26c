"""Mistakes in functions in Python: what identifies them, how they reach workers, and how they are called."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CALLS, TEST_CALLS = "engine/python/calls.py", "tests/engine/test_python_calls.py"
DIGEST = "stepwell/planning/function_digest.py"
TEST_DIGEST = "tests/stepwell/test_function_digest.py::test_only_a_change_of_what_it_does_shows"
TEST_FUNCTIONS = "tests/stepwell/test_python_functions.py"

PYTHON = (
    Breakage(
        "weights-lost-in-python",
        "A row that is taken back comes out of a function in Python as one that is inserted.",
        "the batch answer",
        (Edit("engine/operators/python_map.py", "zset.weights_of(rows))", "abs(zset.weights_of(rows)))"),),
        (f"{TEST_CALLS}::test_rows_keep_their_columns_and_weights",),
    ),
    Breakage(
        "a-batch-decides-a-row",
        "A result is refused because of the other rows of its batch, which depend on the layout.",
        "3. Placement independence",
        (Edit(CALLS, 'if call.form == "row" else', 'if call.form == "arrow" else'),),
        (f"{TEST_CALLS}::test_the_other_rows_of_a_batch_decide_nothing",),
        tells=r"\[PYTHON_FUNCTION\]",
    ),
    Breakage(
        "the-last-failing-row",
        "The error of a function names another row than the first one that fails.",
        "the error names the row",
        (Edit(CALLS, "rows = front if _error_on(call, front) is not None else rows.slice(half)", "rows = rows.slice(half)"),),
        (f"{TEST_CALLS}::test_an_error_names_the_first_row_on_which_the_function_fails",),
    ),
    Breakage(
        "a-group-of-no-rows",
        "A function of all rows is called although there is no row, and gives one that Spark does not give.",
        "the batch answer",
        (Edit("stepwell/lowering/rules/python_aggregates.py", "    if not keys:", "    if keys and not grouping:"),),
        ("tests/stepwell/lowering/test_against_spark.py::test_a_lowered_query_holds_what_spark_answers[python: of no rows]",),
    ),
    Breakage(
        "two-kinds-of-aggregates-without-a-word",
        "An aggregate function beside one in Python is refused as an expression that is not supported.",
        "an error is told",
        (Edit("stepwell/lowering/rules/python_aggregates.py", "    _refuse_others(items, calls)\n", ""),),
        (
            "tests/stepwell/lowering/test_refusals.py::test_a_python_function_of_groups_is_refused_beside_another_function",
        ),
    ),
    Breakage(
        "a-digest-of-the-code-alone",
        "A changed value that a function reads by a global name leaves the circuit as it was.",
        "the state belongs to the circuit",
        (Edit(DIGEST, '"function", (*plain, read))', '"function", plain)'),),
        (TEST_DIGEST,),
    ),
    Breakage(
        "a-module-is-its-name",
        "A module of the project that a function has as a value counts by its name. A change within it leaves the circuit as it was.",
        "the state belongs to the circuit",
        (Edit(DIGEST, "        if is_installed(module.__name__):\n            return", "        if module.__name__:\n            return"),),
        (TEST_DIGEST,),
    ),
    Breakage(
        "a-digest-with-docstrings",
        "A changed docstring is a changed circuit, and the state of an unchanged project is refused.",
        "the state belongs to the circuit",
        (Edit(DIGEST, "constants[0] = None  # the docstring", "pass"),),
        (TEST_DIGEST,),
    ),
    Breakage(
        "a-class-is-its-text",
        "A number or text of a class of the project counts by its text. A changed method of its class leaves the circuit as it was.",
        "the state belongs to the circuit",
        (Edit(DIGEST, "(isinstance(value, _PLAIN) and self._is_told_by_its_text(value))", "isinstance(value, _PLAIN)"),),
        (TEST_DIGEST,),
    ),
    Breakage(
        "a-decorator-is-what-it-wraps",
        "What a class that decorates a function is given does not count.",
        "the state belongs to the circuit",
        (Edit(DIGEST, '.get("__wrapped__") if _is_of_library(type(value)) else None', '.get("__wrapped__")'),),
        (TEST_DIGEST,),
    ),
    Breakage(
        "a-module-has-what-it-has",
        "What a module of the project makes when it is asked for a name does not count.",
        "the state belongs to the circuit",
        (Edit(DIGEST, "        if wanted - names:\n", "        if not wanted:\n"),
         Edit(DIGEST, 'if each[0] == "__getattr__" or not each[0]', "if not each[0]")),
        (TEST_DIGEST,),
    ),
    Breakage(
        "digests-of-another-release",
        "A number of a library is told in another way than before, and every project with one counts as changed.",
        "the state belongs to the circuit",
        (Edit(DIGEST, 'return _is_of_library(kind) and not getattr(value, "__dict__", None)', "return False"),),
        ("tests/stepwell/test_function_digest.py::test_a_release_changes_no_digest[np.float64(2.5)]",),
    ),
    Breakage(
        "a-module-is-made-with-what-it-has",
        "Modules of the project that have each other cannot be sent to workers.",
        "a worker needs no file of the project",
        (Edit("stepwell/planning/python_functions.py", "return make, (name, {}), content", "return make, (name, content)"),),
        (f"{TEST_FUNCTIONS}::test_modules_that_have_each_other_are_sent",),
        tells="deep recursion",
    ),
    Breakage(
        "neighbours-make-doubles",
        "A function over pandas objects is given rows together that have NULLs in different places.",
        "the batch answer",
        (Edit("engine/python/null_patterns.py", "    if not patterns:\n", "    if rows:\n"),),
        ("tests/engine/test_python_calls.py::test_a_function_over_series_sees_of_a_row_what_it_would_see_of_the_row_alone[integers-pandas]",),
    ),
    Breakage(
        "modules-stay-at-home",
        "A function is sent to workers with the names of the project's modules, and not with what it needs of them.",
        "a worker needs no file of the project",
        (Edit("stepwell/planning/python_functions.py", "        cloudpickle.register_pickle_by_value(module)", "        pass"),
         Edit("stepwell/planning/python_functions.py", "        cloudpickle.unregister_pickle_by_value(module)", "        pass")),
        (f"{TEST_FUNCTIONS}::test_a_module_of_the_project_is_sent_and_one_of_a_library_is_not",),
    ),
)  # fmt: skip
