"""Mistakes in how what differs leaves in several steps."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

DIFFERENCES, DRAINING = "engine/operators/differences.py", "engine/analysis/draining.py"
SWITCHING_CIRCUIT = "engine/analysis/switching_circuit.py"
RULES, STATE, VALUE = (f"io_kafka/step_log/{name}.py" for name in ("revision_rules", "revision_state", "value"))
STEPPING, INPUTS = "coordinator/stepping/stepping.py", "coordinator/stepping/inputs.py"
CHOICE, TRANSITIONS = "coordinator/transition/program_choice.py", "coordinator/transition/transitions.py"
PORTIONS, OBSTACLES = "coordinator/transition/draining.py", "coordinator/transition/switch_obstacles.py"
CORE, FORM = "coordinator/core.py", "io_kafka/step_log/form.py"
IN_PROCESS, RECORDS = "tests/engine/test_draining.py", "tests/io_kafka/test_revision_rules.py"
STEPS, MACHINE = "tests/coordinator/transition/test_draining.py", "tests/coordinator/transition/test_machine.py"
SCENARIO = "tests/simulator/test_scenarios.py::test_a_drain_is_broken_off_at_every_step"
READERS = f"{IN_PROCESS}::test_what_reads_a_changed_view_gets_its_difference_gradually"
REFUSED = f"{RECORDS}::test_what_cannot_follow_is_refused_and_changes_nothing"
OF_STEPS = f"{RECORDS}::test_each_step_of_a_drain_passes_a_part_on"
FILLED, TOPICS = "filled state is that of a fresh run", "a topic has the rows of its view"

DRAINED = (
    Breakage(
        "a-change-above-the-position-passes",
        "A change of rows that have still to leave passes at once, so that a row leaves after its retraction.",
        FILLED,
        (Edit(DIFFERENCES, "        change = _kept_back(node, change, context, end)\n", ""),),
        (f"{IN_PROCESS}::test_no_key_of_a_topic_is_gone_while_its_rows_move",),
    ),
    Breakage(
        "a-change-above-the-position-is-lost",
        "A change of rows that have still to leave is not added to what differs.",
        FILLED,
        (Edit(DIFFERENCES, "    if waiting.num_rows:\n", "    if waiting.num_rows < 0:\n"),),
        (f"{READERS}[sums]",),
    ),
    Breakage(
        "drained-from-the-beginning",
        "Each step of a drain passes on what has left before, too.",
        FILLED,
        (Edit(DIFFERENCES, "slots=(first, end))).scan()", "slots=(0, end))).scan()"),),
        (f"{IN_PROCESS}::test_no_key_of_a_topic_is_gone_while_its_rows_move",),
    ),
    Breakage(
        "a-key-in-two-steps",
        "The old and the new row of a key leave by the columns by which the view lies, so that the retraction may come last.",
        TOPICS,
        (
            Edit(
                DRAINING,
                "    if all(set(usual) <= set(group) for group in groups):\n",
                "    if all(set(usual) | set(group) for group in groups):\n",
            ),
        ),
        (
            f"{IN_PROCESS}::test_no_key_of_a_topic_is_gone_while_its_rows_move",
            f"{IN_PROCESS}::test_rows_that_readers_need_together_leave_together",
        ),
    ),
    Breakage(
        "a-unique-key-in-two-steps",
        "A node that relies on a unique key gets the new row of a key before the old one is taken back.",
        FILLED,
        (
            Edit(
                DRAINING,
                "    if len(outputs) < len(difference.readers):\n",
                "    if len(outputs) > len(difference.readers):\n",
            ),
        ),
        (f"{IN_PROCESS}::test_a_reader_that_relies_on_a_unique_key_gets_its_rows_together",),
    ),
    Breakage(
        "drained-to-another-place",
        "Rows that leave by other columns than those of their view stay where these are.",
        "3 placement independence",
        (
            Edit(
                SWITCHING_CIRCUIT,
                "        made = made if at == wanted else self.into.add(Placed((made,), types, wanted))\n",
                "",
            ),
        ),
        (f"{IN_PROCESS}::test_what_lies_elsewhere_comes_back_to_its_place",),
    ),
    Breakage(
        "a-drain-goes-back",
        "The log takes a division with which a drain goes back.",
        "2 determinism",
        (Edit(RULES, "    if not before <= filled <= drain.whole:\n", "    if not 0 <= filled <= drain.whole:\n"),),
        (REFUSED,),
    ),
    Breakage(
        "a-drain-without-a-position",
        "A division of a drain does not say how far it goes, so that a replay passes on something else.",
        "2 determinism",
        (
            Edit(
                RULES,
                '    if filled is None:\n        return f"of step {step}: it does not say how far what differs',
                "    if filled is None:\n        return None\n    if before < 0:\n"
                '        return f"of step {step}: it does not say how far what differs',
            ),
        ),
        (REFUSED,),
    ),
    Breakage(
        "divided-beyond-a-drain",
        "A step after the last one of a drain is divided before that is written, as one more of the drain.",
        "2 determinism",
        (Edit(RULES, "    if before == drain.whole:\n", "    if before > drain.whole:\n"),),
        (REFUSED,),
    ),
    Breakage(
        "drained-unasked",
        "The log takes a switch that drains, although its user wants all rows in one step.",
        "2 determinism",
        (
            Edit(
                RULES,
                "    if (record.drain is not None) != phase.intent.choices.gradual:\n",
                "    if phase.intent.number < 0:\n",
            ),
        ),
        (REFUSED,),
    ),
    Breakage(
        "settled-in-a-drain",
        "The log takes the first step of a drain for its last one, so that tables are cleared that have still to leave.",
        FILLED,
        (Edit(STATE, "            if drained != drain.whole:\n", "            if drained is None:\n"),),
        (OF_STEPS, REFUSED),
        tells="BrokenStepLog.*(fills up to|drains up to)",
    ),
    Breakage(
        "a-drain-is-one-step",
        "A replay runs the steps of a drain after the first as steps of the next revision alone.",
        "2 determinism",
        (
            Edit(
                STATE,
                "        last = self.switch if self.drain is None else self.last\n",
                "        last = self.switch\n",
            ),
        ),
        (OF_STEPS,),
        tells="BrokenStepLog.*(fills up to|drains up to)",
    ),
    Breakage(
        "a-drain-begins-where-filling-ended",
        "The first step of a drain begins at the position of the filling.",
        FILLED,
        (
            Edit(
                VALUE,
                "        if passage is None or passage.drain is None or step == passage.switch:\n",
                "        if passage is None or passage.drain is None:\n",
            ),
        ),
        (OF_STEPS,),
        tells="BrokenStepLog.*(fills up to|drains up to)",
    ),
    Breakage(
        "a-later-field-in-each-record",
        "Records have the fields of a drain although there is none, so that a former release cannot read the log.",
        "states of a release open in the next one",
        (Edit(FORM, "if name not in usual}", "if name or usual}"),),
        (f"{RECORDS}::test_a_record_without_a_drain_is_what_it_was",),
    ),
    Breakage(
        "all-in-each-step",
        "The workers pass everything on in each step of a drain.",
        FILLED,
        (
            Edit(
                STEPPING,
                "            return (0, HASHES) if drained is None else drained\n",
                "            return 0, HASHES\n",
            ),
        ),
        (f"{SCENARIO}[messages-output.committed-3-coordinator-once-1]",),
    ),
    Breakage(
        "a-program-of-each-step",
        "A recovery in a drain takes its step for the first one of the program, so that constants come once more.",
        FILLED,
        (
            Edit(
                CHOICE,
                "                first=first,\n                former=",
                "                first=step,\n                former=",
            ),
        ),
        ("tests/coordinator/transition/test_program_choice.py::test_the_first_step_of_a_drain_is_that_of_its_program",),
    ),
    Breakage(
        "a-drain-waits-for-input",
        "A run that ends with its input leaves a drain before everything has left.",
        "a transition comes to an end",
        (
            Edit(
                CORE,
                "is_switch_left = log.revisions.is_to_pass_on(self.step)",
                "is_switch_left = log.revisions.switch_step == self.step",
            ),
        ),
        (f"{MACHINE}::test_a_drain_is_some_steps_of_one_program_in_which_nothing_is_due",),
    ),
    Breakage(
        "released-once-more-in-a-drain",
        "Each step of a drain says of the outputs of the former revision that they are released.",
        "one view does not stop the others",
        (
            Edit(
                "coordinator/stepping/new_nodes.py",
                "        before = self._before if step == log.revisions.switch_step else None\n",
                "        before = self._before\n",
            ),
        ),
        (
            "tests/coordinator/stepping/test_inputs.py::test_only_the_first_step_of_a_switch_releases_what_the_former_revision_held",
        ),
    ),
    Breakage(
        "a-step-of-all-rows",
        "A drain passes all rows on in its first step, whatever their number is.",
        "9 bounded",
        (
            Edit(
                PORTIONS,
                "int(min(SLOTS, self.rows_max / rows_per_slot))",
                "int(max(SLOTS, self.rows_max / rows_per_slot))",
            ),
        ),
        (f"{STEPS}::test_a_step_has_its_share_of_many_rows",),
    ),
    Breakage(
        "a-new-topic-at-once",
        "A new topic gets all its rows in the first step of a drain.",
        "9 bounded",
        (Edit(PORTIONS, "        if gives_contents:\n", "        if not gives_contents:\n"),),
        (f"{STEPS}::test_the_rows_of_a_new_topic_are_seen_as_they_leave",),
    ),
    Breakage(
        "one-slot-of-all-rows",
        "A difference that cannot leave in parts leaves at once, however large it is.",
        "9 bounded",
        (Edit(OBSTACLES, "if leaves_at_once(node) and size > rows_max:", "if leaves_at_once(node) and size < 0:"),),
        ("tests/coordinator/transition/test_switch_obstacles.py::test_rows_that_leave_in_several_steps_may_be_more",),
    ),
)
