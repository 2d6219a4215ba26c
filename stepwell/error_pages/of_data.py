"""Errors of the data: what a step finds in its input or computes from it."""

from __future__ import annotations

from base.fault import ExitCode
from stepwell.error_pages.page import Page

TITLE = "The data"

PAGES = (
    Page(
        slug="data",
        classes=("DataError", "ScatteredKey"),
        exit_code=ExitCode.DATA,
        what="The input of a step cannot be read, or does not fit the definitions. Nothing of the step was written.",
        why="The most frequent one is a malformed message: it is not in the table's format, misses a NOT NULL column, or its key "
        "contradicts its value. Others are a key with messages in two partitions, a row that was retracted and would have to leave an "
        "append topic, and a limit on the rows of a step. The text names source, topic, partition and offset, or the view.",
        do="Correct the producer. To go on past malformed messages, set `on.error` = `skip` or `dead-letter` on the table and start "
        "again: the step is read again with that policy. For the others the text says what to change. [How to find a wrong "
        "row](debug-wrong-row.md).",
    ),
    Page(
        slug="row-in-error",
        classes=("ExpressionError", "ResultOverflow", "RangeExceeded"),
        exit_code=ExitCode.DATA,
        what="An expression raises on a row, where Spark raises too: a division by zero, a cast, an overflow.",
        why="Spark's ANSI mode has no result for such a row, so the view has no answer. The other views go on ([sql.md](sql.md), "
        "Errors).",
        do="Correct or delete the row in the input; the view has its answer again after that. Or guard against it in the view (`CASE`, "
        "`nullif`, `try_cast`, a wider type) and make the change with `stepwell apply`. `stepwell status` and the page show one such "
        "row.",
    ),
    Page(
        slug="views-in-error",
        classes=("ViewsInError",),
        exit_code=ExitCode.DATA,
        what="A run with `--available-now` has read all that is there, and some views have no answer over it.",
        why="A row gives an error in these views. The others are up to date, and all progress is kept.",
        do="As for a [row in error](#row-in-error). The next run goes on from here.",
    ),
    Page(
        slug="several-rows",
        classes=("SeveralRows",),
        exit_code=ExitCode.DATA,
        what="Several rows of a view have one key, and its upsert topic can hold one row for a key.",
        why="The declared `key` does not tell the rows of the view apart.",
        do="Declare a key that is different for each row, or write the view with `'mode' = 'changelog'` or `'append'`. If the rows "
        "should not be there, correct the input.",
    ),
    Page(
        slug="too-many-rows",
        classes=("TooManyRows",),
        exit_code=ExitCode.DATA,
        what="A subquery that stands for a value has more than one row.",
        why="Spark refuses that too, when it happens.",
        do="Take one value in the subquery (`max`, `min`), or add a condition that only one row fulfils.",
    ),
    Page(
        slug="row-without-message",
        classes=("RowWithoutMessage",),
        exit_code=ExitCode.DATA,
        what="The format of an output has no message for a row.",
        why="Some formats cannot say every value, such as a null in a Protobuf field that has no presence. [formats.md](formats.md) "
        "says which.",
        do="Guard against the value in the view, or take another format for the output.",
    ),
    Page(
        slug="recursion-limit",
        classes=("LevelLimit", "RowLimit"),
        exit_code=ExitCode.DATA,
        what="A recursive query has more levels or more rows than it may have.",
        why="The data has a cycle, or a longer chain than was expected. Spark has the same limits.",
        do="Bound the depth in the recursive part (`WHERE level < n`), or allow more levels: `WITH RECURSIVE name MAX RECURSION LEVEL n "
        "AS (...)`.",
    ),
    Page(
        slug="negative-count",
        classes=("NegativeCount",),
        exit_code=ExitCode.DATA,
        what="More rows were retracted from a group than were ever in it.",
        why="A changelog without a key retracts rows that it never inserted, or a function in Python has given another result for the "
        "same arguments than before.",
        do="Declare the key of the changelog, so that the former row is known, or correct its source. A function must be deterministic.",
    ),
    Page(
        slug="list-too-long",
        classes=("ListTooLong",),
        exit_code=ExitCode.DATA,
        what="The lists of a step have more elements together than an array can hold.",
        why="`collect_list` and its kind keep every value of a group.",
        do="Collect less: filter, or group by more columns. Lower `stepwell.step.rows.max` if many groups change in one step.",
    ),
    Page(
        slug="python-function",
        classes=("FunctionError",),
        exit_code=ExitCode.DATA,
        what="A function in Python raised on a row, or gave a value that is not of its type.",
        why="The text has the function, the exception, and the arguments of one row.",
        do="Correct the function or the row. The view has its answer again when the row is corrected, or when the corrected function is "
        "applied.",
    ),
    Page(
        slug="python-function-unusable",
        classes=("FunctionUnusable",),
        exit_code=ExitCode.DATA,
        what="A function in Python raised for a reason that need not be the row: a module, a file or a connection.",
        why="It may succeed the next time, so the row cannot be left out and counted. The run ends, and nothing of the step was "
        "written.",
        do="Make what it needs available on every host, then run again. Functions should depend on their arguments alone.",
    ),
)
