"""Mistakes in who answers a query, and with what."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

KEEPER, TEST_KEEPER = "stepwell/commands/query_keeper.py", "tests/stepwell/test_query_keeper.py"
ANSWERING, TEST_SERVICE = "stepwell/commands/query_answering.py", "tests/stepwell/test_query_service.py"
SAME = f"{TEST_SERVICE}::test_a_service_answers_what_the_command_prints_without_one"

QUERIES = (
    Breakage(
        "query-of-other-settings",
        "The service answers also a command that has other files or settings, as if it had those of the service.",
        "an answer is the same with and without a service",
        (Edit(ANSWERING, "if key is None or query_key(project) != key:", "if key is None:"),),
        (SAME,),
    ),
    Breakage(
        "query-of-files-elsewhere",
        "The service reads files for a query, whose names mean others in the folder of its process.",
        "an answer is the same with and without a service",
        (Edit(ANSWERING, "only_views=True", "only_views=False"),),
        (SAME,),
    ),
    Breakage(
        "query-without-end",
        "A query that takes too long goes on, and its process with it, beside the next one.",
        "9 bounded",
        (
            Edit(
                KEEPER,
                "        except TimeoutError:\n            self._end()\n",
                "        except TimeoutError:\n            self._process = None\n",
            ),
        ),
        (f"{TEST_KEEPER}::test_a_query_that_takes_too_long_is_ended",),
    ),
    Breakage(
        "error-of-kept-views",
        "What is wrong with a query is told by what is kept of the project, which does not know its sources.",
        "an error says what to do",
        (
            Edit(
                "stepwell/commands/query_answers.py",
                "            except Fault:\n",
                "            except ZeroDivisionError:\n",
            ),
        ),
        (f"{TEST_SERVICE}::test_the_definitions_are_read_for_what_is_wrong_alone",),
    ),
)
