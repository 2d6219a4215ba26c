"""Mistakes in what leads users: pages of errors, reference pages, pictures, and messages by hand."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

PAGES_OF_STATE, TABLE = "stepwell/error_pages/of_state.py", "stepwell/error_pages/table.py"
COMMON, BY_HAND = "stepwell/commands/common.py", "stepwell/commands/dev_messages.py"
TEST_PAGES, TEST_REFERENCE = "tests/stepwell/test_error_pages.py", "tests/stepwell/test_reference.py"
TEST_GRAPH, TEST_BY_HAND = "tests/stepwell/test_graph.py", "tests/stepwell/test_dev_messages.py"

GUIDES = (
    Breakage(
        "error-without-page",
        "A class of errors has no page, so a command that fails with it fails once more.",
        "every error has a page",
        (Edit(PAGES_OF_STATE, '("CorruptRecord", "CorruptFile")', '("CorruptRecord",)'),),
        (f"{TEST_PAGES}::test_every_class_of_faults_has_one_page",),
    ),
    Breakage(
        "page-with-another-exit-code",
        "A page says another exit code than the command ends with.",
        "every error has a page",
        (
            Edit(
                "stepwell/error_pages/of_runs.py",
                'classes=("HeldByAnother",),\n        exit_code=ExitCode.HELD',
                'classes=("HeldByAnother",),\n        exit_code=ExitCode.STATE',
            ),
        ),
        (f"{TEST_PAGES}::test_a_page_has_the_exit_code_of_its_errors",),
    ),
    Breakage(
        "error-does-not-name-its-page",
        "The last line of an error leads nowhere.",
        "every error has a page",
        (Edit(COMMON, """            err.print(more_line(more), markup=False)\n""", ""),),
        (f"{TEST_PAGES}::test_the_last_line_of_an_error_names_its_page",),
    ),
    Breakage(
        "page-of-the-first-error-alone",
        "Of several errors only the first has its page named.",
        "every error has a page",
        (Edit(TABLE, "fault.errors if isinstance", "fault.errors[:1] if isinstance"),),
        (f"{TEST_PAGES}::test_several_errors_have_the_page_of_each_kind",),
    ),
    Breakage(
        "setting-out-of-its-page",
        "The bound of a setting changes, and its page does not.",
        "reference pages are those of the code",
        (Edit("stepwell/project/stepwell_settings.py", "le=6 * 3600,", "le=7 * 3600,"),),
        (f"{TEST_REFERENCE}::test_a_page_is_made_from_the_code",),
    ),
    Breakage(
        "dry-run-explains-everything",
        "dry-run shows the circuits of views that nobody has asked about.",
        "what dry-run says",
        (
            Edit(
                "stepwell/inspection/dry_run.py",
                "        if view.name in explained:\n            lines += [*_node_lines(view)",
                "        if view.nodes:\n            lines += [*_node_lines(view)",
            ),
        ),
        ("tests/stepwell/test_dry_run.py::test_a_view_is_shown_with_its_exchanges_traces_and_why_it_retracts",),
    ),
    Breakage(
        "picture-without-a-namespace",
        "An SVG in a file is drawn by no browser, because it does not say that it is one.",
        "a picture stands alone",
        (Edit("stepwell/service/page/svg.py", "' xmlns=\"http://www.w3.org/2000/svg\"'", '""'),),
        (f"{TEST_GRAPH}::test_the_svg_is_whole_and_needs_nothing_else",),
    ),
    Breakage(
        "null-is-no-tombstone",
        "dev produce sends the text null where a key should be deleted.",
        "messages by hand",
        (Edit(BY_HAND, "None if value == TOMBSTONE else value.encode()", "value.encode()"),),
        (f"{TEST_BY_HAND}::test_a_line_may_have_a_key_and_delete_it",),
    ),
)
