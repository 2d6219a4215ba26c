"""A start that finds a transition under way: whether the files and choices of this run are the ones that it leads to.

Such a transition can still be taken back. A service that applies a change may end in the middle of it, and is then started with the same
command again. It goes on with the transition. If the files have changed since, or other choices are given, the user wants another transition,
and there is one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from base.logger import Logger
from base.on_change import OnChange
from coordinator.revisions.choices import Chosen, recorded_choices
from coordinator.revisions.document import Revision
from coordinator.revisions.loads import chosen_tables
from coordinator.revisions.requests import TransitionRefused
from coordinator.specification import InputTopic, PipelineSpec
from coordinator.starting.project.same_project import what_differs
from io_kafka.step_log.revision_records import Choices

_log = Logger("coordinator.starting.project.transition_found")

WAYS_OUT = (
    "`stepwell run --as-recorded` goes on with the transition, and when it is settled, another change can be applied. `stepwell revision abort` "
    "takes it back while that runs."
)


def check_files_match_transition(
    files: PipelineSpec, next_one: Revision, choices: Choices, on_change: OnChange, chosen: Chosen
) -> None:
    """`next_one`: the revision to which the transition leads. `choices`: those that it was begun with. Raises TransitionRefused if the
    files are to be applied and have another project, or if other choices are given; and UnknownTable. A run that applies nothing is only told
    that the files have another project."""
    differs = "" if on_change == "keep" else what_differs(files, next_one.document)
    if differs:
        text = (
            f"the transition to revision {next_one.number} is under way, and the files have another project, which is not applied; what "
            f"differs from that revision: {differs}."
        )
        if on_change == "apply":
            raise TransitionRefused(text, f"{WAYS_OUT} Or put the files of revision {next_one.number} back.")
        _log.warning(text)
    if not is_as_chosen(chosen, choices, files.inputs):
        raise TransitionRefused(
            f"the transition to revision {next_one.number} is under way, and it was begun without the choices of this run (--from-now, "
            "--append, --retract or --reload), or with others.",
            f"Without these options the run goes on with it. {WAYS_OUT}",
        )
    if chosen.gradual and not choices.gradual:
        _log.warning(f"--gradual has no effect: the transition to revision {next_one.number} was begun without it")


def is_as_chosen(chosen: Chosen, choices: Choices, inputs: Iterable[InputTopic]) -> bool:
    """Whether a transition with these choices does what this run names, if it names anything. In how many steps the differences leave is no
    part of that. `inputs`: of the files. Raises UnknownTable."""
    if replace(chosen, gradual=False).is_nothing:
        return True
    tables = chosen_tables(chosen.reload, inputs)
    return replace(chosen, reload=tables, gradual=choices.gradual).normal() == recorded_choices(choices).normal()
