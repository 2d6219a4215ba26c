"""Mistakes in how a release goes on with the state of another one."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

UPGRADES = "tests/end_to_end/test_upgrades.py"
RELEASE, START = "engine/analysis/release.py", "coordinator/starting/project/release.py"
CORRECTED = f"{UPGRADES}::test_a_correction_is_made_and_everything_else_is_kept[1]"
REBUILT = "what a release corrects is rebuilt, and outputs receive what the correction changes"
NOT_MIXED = "no step of one release is run by another one"


def broken_off(point: str) -> str:
    return f"{UPGRADES}::test_a_correction_that_is_broken_off_goes_on[{point}-1]"


RELEASES = (
    Breakage(
        "identity-of-this-release",
        "The state of the release before is taken to have the revisions of this one, so what was corrected is kept.",
        REBUILT,
        (
            Edit(
                "coordinator/revisions/leaves.py",
                "for leaf in leaves.outputs}, project.made_with)",
                "for leaf in leaves.outputs}, {})",
            ),
        ),
        (CORRECTED,),
    ),
    Breakage(
        "bodies-without-revisions",
        "The operators in the body of a recursion have no part in its identity.",
        REBUILT,
        (Edit(RELEASE, "(node, *node.body) if isinstance(node, Recursion) else (node,)", "(node,)"),),
        ("tests/engine/test_release.py::test_what_a_recursion_computes_with_counts",),
    ),
    Breakage(
        "frozen-nodes-go-on",
        "The recorded project runs with the operators of this release, which take back rows that were never passed on.",
        NOT_MIXED,
        (Edit(RELEASE, "Frozen(node.inputs, node.types, holder=node) if index in nodes else node", "node"),),
        ("tests/engine/test_release.py::test_a_frozen_node_says_of_itself_what_the_node_said",),
    ),
    Breakage(
        "former-result-from-totals",
        "The former rows of an aggregate are made of its totals by this release, so a correction never reaches the output.",
        REBUILT,
        (Edit("engine/analysis/history.py", " and before not in self.frozen:", ":"),),
        (f"{UPGRADES}::test_what_was_computed_in_another_way_and_not_stored_cannot_be_compared",),
    ),
    Breakage(
        "former-steps-again",
        "Steps of the release before are run again by this one, with frozen nodes.",
        NOT_MIXED,
        (Edit(START, "    if phase is None and state.division_next > last:", "    if False:"),),
        (f"{UPGRADES}::test_steps_of_the_release_before_are_not_run_again",),
        tells="DigestMismatch",
    ),
    Breakage(
        "frozen-nodes-alone",
        "After an abort the run goes on with frozen nodes, and views stand still for ever.",
        NOT_MIXED,
        (
            Edit(
                "coordinator/transition/machine.py",
                "return self.blocks_steps(log) and log.revisions.phase is None",
                "return False and log.revisions.phase is None",
            ),
        ),
        (f"{UPGRADES}::test_an_abort_ends_the_run_for_nothing_could_go_on",),
    ),
    Breakage(
        "steps-before-the-intent",
        "Steps are divided while the transition away from a frozen revision is prepared.",
        NOT_MIXED,
        (
            Edit(
                "coordinator/core.py",
                "return Wait() if self.transition.blocks_steps(log) else Divide(self.step)",
                "return Divide(self.step)",
            ),
        ),
        (broken_off("plan.written"),),
        tells="have to be run again as the former version",
    ),
    Breakage(
        "programs-of-any-release",
        "A transition that another release has begun goes on with the operators of this one.",
        NOT_MIXED,
        (Edit("coordinator/transition/documents.py", "        if otherwise:\n", "        if False:\n"),),
        (f"{UPGRADES}::test_a_transition_of_the_release_before_is_ended_by_it",),
    ),
    Breakage(
        "python-is-no-revision",
        "Functions that another version of Python has planned are kept, and cannot be called.",
        REBUILT,
        (Edit("engine/analysis/identity.py", '"python": python_in(node, self._project.made_with)', '"python": None'),),
        (f"{UPGRADES}::test_functions_of_another_python_are_planned_again",),
    ),
)
