"""Mistakes in how a changed project is asked for and shown while the service runs."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

REQUESTS, ROUTES, CLIENT = "coordinator/requests.py", "stepwell/service/revisions.py", "stepwell/service/client.py"
APPLY, FOLLOWING = "stepwell/commands/apply.py", "stepwell/commands/transition.py"
FILES_NOW, KEPT = "stepwell/planning/files_now.py", "stepwell/planning/kept_plan.py"
TEST_APPLY, TEST_REVISION = "tests/stepwell/test_apply.py", "tests/stepwell/test_revision_commands.py"
TEST_FILES = "tests/stepwell/test_files_now.py"
SEEN = "only a plan that the user has seen is applied"
ANSWERED = "each request is answered once"
TOLD = "a command tells how a transition has ended"
NOW = "the service plans what the files say now"

APPLIED = (
    Breakage(
        "revision-requests-forgotten",
        "A run that ends leaves requests for its revision without an answer, so a command waits for a minute.",
        ANSWERED,
        (Edit(REQUESTS, "        self.revision.end()\n", ""),),
        (f"{TEST_APPLY}::test_the_loop_answers_every_request_also_at_the_end",),
    ),
    Breakage(
        "unseen-files-applied",
        "The service does not compare the files with what the user has seen, so a file that is saved meanwhile is applied.",
        SEEN,
        (
            Edit(
                ROUTES,
                "if expected is not None and key_of_project(spec) != expected:",
                "if expected is not None and not key_of_project(spec):",
            ),
        ),
        (f"{TEST_APPLY}::test_files_that_are_not_those_that_were_shown_are_not_applied",),
    ),
    Breakage(
        "plan-of-another-revision-applied",
        "A plan that was made for another revision than the one in force is applied.",
        SEEN,
        (Edit(APPLY, "    if in_force != shown:", "    if in_force < shown:"),),
        (f"{TEST_APPLY}::test_a_plan_for_another_revision_is_not_applied",),
    ),
    Breakage(
        "refused-plan-applied",
        "A plan that is refused is shown, and the service is asked nevertheless.",
        SEEN,
        (Edit(APPLY, "    is_refused = not look.planned.can_be_applied", "    is_refused = look.planned.is_nothing"),),
        (f"{TEST_APPLY}::test_a_plan_that_is_refused_is_shown_and_nothing_is_asked",),
    ),
    Breakage(
        "applied-without-asking",
        "The service is asked before the user has agreed.",
        SEEN,
        (Edit(APPLY, 'not in ("y", "yes")', 'in ("n", "no")'),),
        (f"{TEST_APPLY}::test_nothing_begins_before_the_user_agrees",),
    ),
    Breakage(
        "former-abort-for-this-one",
        "The end of an earlier transition with the same number is taken for the end of this one.",
        TOLD,
        (Edit(FOLLOWING, 'found != self.before and found["number"]', 'found["number"]'),),
        (f"{TEST_APPLY}::test_a_transition_that_is_not_shown_at_once_is_waited_for",),
    ),
    Breakage(
        "aborted-is-success",
        "A transition that was aborted ends the command as if it had led to its revision.",
        TOLD,
        (Edit(FOLLOWING, 'ended["outcome"] == "aborted"', 'ended["outcome"] == ""'),),
        (f"{TEST_APPLY}::test_a_transition_that_ends_otherwise_has_an_exit_code_of_its_own",),
    ),
    Breakage(
        "held-is-success",
        "A transition that is held although nobody has asked for it ends the command with exit code 0.",
        TOLD,
        (
            Edit(
                APPLY,
                'if expected.stands_still(status) and not (expected.hold and transition["phase"] in ("held", "ready")):',
                'if expected.stands_still(status) and transition["phase"] not in ("held", "ready"):',
            ),
        ),
        (f"{TEST_APPLY}::test_a_transition_that_is_held_says_why_and_what_can_be_done",),
    ),
    Breakage(
        "reasons-of-a-refusal-lost",
        "A refusal with the reasons of a plan is told without them, and with the exit code of the state.",
        TOLD,
        (Edit(CLIENT, 'found.get("planned", {}).get("refused", ())', "()"),),
        (f"{TEST_APPLY}::test_what_the_service_refuses_is_told_with_its_reason",),
    ),
    Breakage(
        "module-of-the-start-planned",
        "A module that a definition imports is not read again, so its change is not applied.",
        NOW,
        (Edit(FILES_NOW, "            del sys.modules[name]\n", "            pass\n"),),
        (f"{TEST_FILES}::test_a_module_of_the_project_is_read_again",),
    ),
    Breakage(
        "byte-code-of-a-moment-ago",
        "A module that is changed within a second and keeps its size is taken from its byte code, so its change is not applied.",
        NOW,
        (Edit("stepwell/project/definitions.py", "    sys.dont_write_bytecode = True\n", ""),),
        (f"{TEST_FILES}::test_a_module_of_the_project_is_read_again",),
    ),
    Breakage(
        "settings-of-the-files",
        "The service plans with the settings of the files, which its run does not have.",
        NOW,
        (Edit(FILES_NOW, "replace(found, settings=started.settings)", "found"),),
        (f"{TEST_FILES}::test_the_settings_are_those_of_the_start",),
    ),
    Breakage(
        "another-pipeline-applied",
        "Files that name another pipeline are applied to the one that runs.",
        NOW,
        (Edit(FILES_NOW, "        if before != now:", "        if not now:"),),
        (f"{TEST_FILES}::test_another_pipeline_is_refused",),
    ),
    Breakage(
        "edited-files-end-the-run",
        "A service that started with a kept plan ends because its files are edited.",
        NOW,
        (Edit(KEPT, "if content_key(self._project) != self._key:", "if self._key is None:"),),
        ("tests/stepwell/test_kept_plan.py::test_files_that_change_meanwhile_are_no_reason_to_end_the_run",),
        tells="DefinitionsChanged",
    ),
    Breakage(
        "held-not-in-the-log",
        "Without a service, a transition whose switch was taken back is shown as one that waits for its switch.",
        TOLD,
        (
            Edit(
                "stepwell/inspection/revisions.py",
                "if phase.is_held and phase.turn is not None:",
                "if phase.is_held and phase.turn is None:",
            ),
        ),
        (f"{TEST_REVISION}::test_without_a_service_the_step_log_is_shown",),
    ),
    Breakage(
        "demo-counts-all-outputs",
        "The demo counts the messages of all outputs as those that its edited view has received.",
        TOLD,
        (Edit("examples/flights/edit.py", " if part.handle == VIEW", ""),),
        ("tests/test_demo.py::test_the_edit_of_the_demo_fits_its_project_and_only_its_view_counts",),
    ),
    Breakage(
        "metrics-without-a-hold",
        "The metrics do not say that a transition is held.",
        TOLD,
        (
            Edit(
                "stepwell/service/metrics/changes.py",
                "lambda seen: [((name,), float(name == _phase(seen))) for name in PHASES]",
                'lambda seen: [((name,), float(name == _phase(seen) != "held")) for name in PHASES]',
            ),
        ),
        (f"{TEST_REVISION}::test_status_and_metrics_have_the_transition",),
    ),
    Breakage(
        "plans-for-any-revision",
        "A plan is applied although another change was made since it was shown.",
        "what users are told",
        (
            Edit(
                "coordinator/transition/transitions.py",
                "if request.expect_revision not in (None, revision.number):",
                "if request.expect_revision is revision:",
            ),
        ),
        ("tests/end_to_end/test_transitions.py::test_an_abort_of_nothing_and_an_outdated_plan_are_refused",),
    ),
    Breakage(
        "other-lines-are-the-same-project",
        "A project whose definitions stand in other lines counts as the one in force, and its errors name the old lines.",
        "what users are told",
        (
            Edit(
                "coordinator/revisions/planned.py",
                "(before.inputs, before.outputs, before.places) == (now.inputs, now.outputs, now.places)",
                "(before.inputs, before.outputs) == (now.inputs, now.outputs)",
            ),
        ),
        ("tests/end_to_end/test_plan_command.py::test_only_the_same_lines_are_the_project_in_force",),
    ),
)
