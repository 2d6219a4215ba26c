"""Mistakes in how secrets are kept out of sight, in what is logged, and in how a run gives its pipeline up."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

SECRETS, TEST_SECRETS = "base/secrets.py", "tests/base/test_secrets.py"
SOURCES, TEST_SETTINGS = "stepwell/project/value_sources.py", "tests/stepwell/test_settings.py"
LAUNCH, TEST_LAUNCH = "stepwell/spark/launch.py", "tests/stepwell/test_launch.py"
LINES, LOGS, TEST_LINES = (
    "stepwell/commands/log_lines.py",
    "stepwell/commands/logs.py",
    "tests/stepwell/test_log_lines.py",
)
HOLDER, TEST_HOLDER = "stepwell/service/holder.py", "tests/stepwell/test_holder.py"
OPTIONS, TEST_READER = "stepwell/project/kafka_options.py", "tests/stepwell/test_kafka_reader.py"

SECRETS_AND_LOGS = (
    Breakage(
        "secret-in-json",
        "A secret is replaced as it is, and not as a JSON text quotes it.",
        "no secret is shown",
        (
            Edit(
                SECRETS,
                "json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]",
                "value",
            ),
        ),
        (f"{TEST_SECRETS}::test_known_secrets_are_found_in_every_notation",),
    ),
    Breakage(
        "shorter-secret-first",
        "Of two secrets of which one begins with the other, the rest of the longer one stays.",
        "no secret is shown",
        (Edit(SECRETS, "key=len, reverse=True", "key=len"),),
        (f"{TEST_SECRETS}::test_the_longer_of_two_secrets_is_replaced_whole",),
    ),
    Breakage(
        "password-in-dry-run",
        "An error about two client settings that differ shows both.",
        "no secret is shown",
        (Edit(OPTIONS, 'what = "is not set" if own is None else f"is {mask_value(name, own)}"', 'what = f"is {own}"'),),
        (f"{TEST_READER}::test_neither_password_is_in_the_text_of_two_that_differ",),
    ),
    Breakage(
        "file-that-is-no-secret",
        "What comes from a file is secret only if the name of the setting says so.",
        "no secret is shown",
        (Edit(SOURCES, "    remember(text)\n    return text\n", "    return text\n"),),
        (f"{TEST_SETTINGS}::test_values_stand_in_variables_and_in_files",),
    ),
    Breakage(
        "secret-on-the-command-line-of-java",
        "Spark's JVM gets all settings on its command line.",
        "no secret is shown",
        (Edit(LAUNCH, "return launch(conf and _visible_conf(conf), ", "return launch(conf, "),),
        (f"{TEST_LAUNCH}::test_no_secret_is_on_the_command_line_or_inherited",),
    ),
    Breakage(
        "secret-that-is-inherited",
        "Spark's JVM, and its workers, inherit the variables that have secrets.",
        "no secret is shown",
        (Edit(LAUNCH, 'for_java(without_secrets(options["env"], hidden))', 'for_java(options["env"])'),),
        (f"{TEST_LAUNCH}::test_no_secret_is_on_the_command_line_or_inherited",),
    ),
    Breakage(
        "lines-with-secrets",
        "A line is written to standard error as it is.",
        "no secret is shown",
        (Edit(LINES, "        line = hidden(line)\n", ""),),
        (
            f"{TEST_LINES}::test_all_lines_are_json",
            f"{TEST_LINES}::test_lines_for_people_have_no_secret_and_the_file_keeps_them_all",
        ),
    ),
    Breakage(
        "traces-between-json",
        "A thread that dies leaves a plain stack trace among the objects.",
        "all lines of a log have one form",
        (Edit(LOGS, "threading.excepthook = _say_end_of_thread\n", "return\n"),),
        (f"{TEST_LINES}::test_all_lines_are_json",),
    ),
    Breakage(
        "first-line-in-another-form",
        "structlog is loaded after the command has said how to write, and writes in its own way.",
        "all lines of a log have one form",
        (Edit("base/logger.py", "            if _configure is not None:\n", "            if _configure is None:\n"),),
        ("tests/base/test_logger.py::test_the_first_line_is_written_as_configured_before",),
    ),
    Breakage(
        "silent-secret-on-our-line",
        "Nobody is told that a secret on the command line can be read by others.",
        "no secret is shown",
        (Edit("stepwell/commands/common.py", "    for key in visible:\n", "    for key in visible[:0]:\n"),),
        (f"{TEST_LINES}::test_a_secret_on_the_command_line_is_warned_of",),
    ),
    Breakage(
        "bundle-that-gives-up",
        "A part of the bundle that fails ends the command.",
        "a bug report can always be made",
        (
            Edit(
                "stepwell/commands/bundle.py",
                "        except Exception as fault:",
                "        except ZeroDivisionError as fault:",
            ),
        ),
        (
            "tests/stepwell/test_secrets.py::test_a_bundle_needs_neither_broker_nor_service_nor_a_project_file_that_can_be_read",
        ),
        tells="no service runs for this project",
    ),
    Breakage(
        "end-that-is-waited-for",
        "A holder that has recorded its end is waited for as if it might be alive.",
        "a clean stop gives the pipeline up",
        (Edit(HOLDER, "if take_over or state.has_ended or _is_gone(claim):", "if take_over or _is_gone(claim):"),),
        (f"{TEST_HOLDER}::test_a_holder_that_has_recorded_its_end_is_followed_at_once",),
        tells="it answers at http://it",
    ),
    Breakage(
        "end-of-a-former-run",
        "The end of a former run counts as that of the present one, which may be alive.",
        "a run that may be alive is waited for",
        (
            Edit(
                "io_kafka/step_log/state.py",
                "return replace(self, claim=record, has_ended=False)",
                "return replace(self, claim=record)",
            ),
        ),
        (f"{TEST_HOLDER}::test_the_end_of_a_former_run_says_nothing_of_the_present_one",),
    ),
    Breakage(
        "records-after-the-end",
        "A run that has recorded its end may go on writing.",
        "5 fences",
        (
            Edit(
                "io_kafka/step_log/rules.py", "    if log.has_ended:\n", "    if log.has_ended and log.claim is None:\n"
            ),
        ),
        ("tests/io_kafka/test_step_log.py::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "quota-of-the-own-group-alone",
        "The quota of a group above that of the process does not count.",
        "cores are those that may be used",
        (Edit("base/cpu_quota.py", "for each in (place, *place.parents))", "for each in (place,))"),),
        ("tests/base/test_machine_limits.py::test_the_quota_is_the_least_of_all_groups",),
    ),
    Breakage(
        "password-to-the-first-at",
        "A password in a URL ends at its first @.",
        "no secret is shown",
        (Edit(SECRETS, "(?<=://)([^/\\s]+|", "(?<=://)([^/\\s@]+|"),),
        (f"{TEST_SECRETS}::test_a_secret_inside_a_value_is_masked_to_its_end",),
    ),
    Breakage(
        "secret-inside-that-is-forgotten",
        "What is secret inside the value of an option is masked there, and stays in other texts.",
        "no secret is shown",
        (Edit(SECRETS, "    _without_inner(value, inner.append)\n", ""),),
        (
            f"{TEST_SECRETS}::test_what_is_secret_inside_a_value_is_remembered",
            f"{TEST_SETTINGS}::test_a_variable_is_secret_by_what_is_inside_it",
        ),
    ),
    Breakage(
        "name-of-the-pipeline-masked",
        "A password that is the name of the pipeline makes its run one that nobody knows.",
        "a run that may be alive is waited for",
        (Edit("stepwell/service/bodies.py", "hidden_in(content, COMPARED)", "hidden_in(content)"),),
        ("tests/stepwell/test_page.py::test_no_secret_is_on_the_page_and_no_name_is_replaced",),
    ),
    Breakage(
        "fields-that-are-masked",
        "The fields of the last status that commands compare are masked.",
        "a run that may be alive is waited for",
        (Edit(SECRETS, "return content if name in exact else hidden(content)", "return hidden(content)"),),
        (
            "tests/stepwell/test_last_run.py::test_a_password_that_is_a_word_of_the_status_leaves_its_fields_as_they_are",
        ),
    ),
    Breakage(
        "secret-that-is-cut",
        "The text of an event is cut before its secrets are found.",
        "no secret is shown",
        (
            Edit(
                "coordinator/measures.py",
                'hidden(str(getattr(fault, "message", "") or fault))[:EVENT_CHARACTERS_MAX]',
                'hidden(str(getattr(fault, "message", "") or fault)[:EVENT_CHARACTERS_MAX])',
            ),
        ),
        ("tests/stepwell/test_page.py::test_no_secret_is_on_the_page_and_no_name_is_replaced",),
    ),
)
