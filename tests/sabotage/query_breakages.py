"""Mistakes in who answers a query, and with what."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

KEEPER, TEST_KEEPER = "stepwell/commands/query_keeper.py", "tests/stepwell/test_query_keeper.py"
ANSWERING, TEST_SERVICE = "stepwell/commands/query_answering.py", "tests/stepwell/test_query_service.py"
SAME = f"{TEST_SERVICE}::test_a_service_answers_what_the_command_prints_without_one"

PLAIN, TEST_PLAIN = "stepwell/inspection/plain_query.py", "tests/stepwell/test_plain_query.py"
AS_SPARK = "an answer is the same with and without Spark"

QUERIES = (
    Breakage(
        "nulls-first-without-spark",
        "A query that needs no Spark has its nulls first, also if the order is descending.",
        AS_SPARK,
        (Edit(PLAIN, "nulls_first = not descending", "nulls_first = True"),),
        (f"{TEST_PLAIN}::test_an_answer_without_spark_is_that_of_spark[False]",),
    ),
    Breakage(
        "word-taken-for-a-name",
        "A word that is a function for Spark is the name of a column in a query that needs no Spark.",
        AS_SPARK,
        (Edit(PLAIN, "CURRENT CURRENT_PATH", "CURRENT"),),
        (f"{TEST_PLAIN}::test_a_word_that_is_taken_for_a_name_is_one_for_spark",),
    ),
    Breakage(
        "settings-of-sql-without-effect",
        "A query is answered without Spark, although a setting says that names differ by case.",
        AS_SPARK,
        (Edit("stepwell/inspection/plain_answer.py", 'NEUTRAL = ("spark.sql.adaptive.",', 'NEUTRAL = ("spark.sql.",'),),
        (f"{TEST_PLAIN}::test_what_spark_has_to_answer_is_left_to_it",),
    ),
    Breakage(
        "query-of-another-circuit",
        "A query reads the state of another circuit.",
        "state of another circuit is never read",
        (
            Edit(
                "stepwell/inspection/view_contents.py",
                "        check_same_circuit(circuit, owner.fingerprint, owner.circuit)\n",
                "",
            ),
        ),
        (f"{TEST_PLAIN}::test_the_circuit_is_known_by_the_files_and_a_fault_is_left_to_spark",),
    ),
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
