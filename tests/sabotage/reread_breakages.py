"""Mistakes in how messages are read again for the new nodes of a transition."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

RULES, LOG, VALUE = "io_kafka/step_log/rules.py", "io_kafka/step_log/state.py", "io_kafka/step_log/value.py"
RECORDS, READING = "io_kafka/step_log/division_records.py", "coordinator/transition/reread_portions.py"
STEPPING, TASKS, SOURCES = "coordinator/stepping/stepping.py", "engine/run/tasks.py", "engine/run/sources.py"
TIME_BOUND = "io_kafka/clients/time_bound.py"
TEST_RULES, TEST_READING = (
    "tests/io_kafka/test_read_again_rules.py",
    "tests/coordinator/transition/test_reread_portions.py",
)
TEST_RUNS, TEST_FILLING = "tests/end_to_end/test_reading_again.py", "tests/engine/test_filling.py"
ONCE, BATCH, RECORDED = "exactly once", "the batch answer", "a step runs what the log says"
A_RUNS_ON = "new nodes cannot hurt the revision in force"

REREAD = (
    Breakage(
        "a-gap-in-what-is-read-again",
        "The log takes a range that does not begin where the last one of its partition ended.",
        ONCE,
        (Edit(RULES, "if r.start != start or not r.start <= r.end <= ends", "if not r.start <= r.end <= ends"),),
        (f"{TEST_RULES}::test_what_cannot_follow_is_refused",),
    ),
    Breakage(
        "new-nodes-ahead-of-the-revision",
        "New nodes are given messages that the revision in force has not read.",
        ONCE,
        (Edit(RULES, "<= r.end <= ends.get(r.where, r.end)", "<= r.end"),),
        (f"{TEST_RULES}::test_what_cannot_follow_is_refused",),
    ),
    Breakage(
        "a-cut-leaves-new-nodes-ahead",
        "A division over less input still reads again beyond it.",
        ONCE,
        (Edit(RECORDS, "self.with_reread_ends(epoch, {r.where: r.end for r in ranges})", "self.with_epoch(epoch)"),),
        (f"{TEST_RULES}::test_a_division_that_is_recorded_again_keeps_what_is_read_again",),
    ),
    Breakage(
        "a-switch-before-new-nodes-are-level",
        "The switch comes while new nodes lack input that the revision in force has read.",
        BATCH,
        (
            Edit(
                VALUE,
                "return all(at == self.next_offsets.get(where, at) for where, at in found if where not in only_new)",
                "return bool(only_new) or True",
            ),
        ),
        (f"{TEST_RULES}::test_what_cannot_follow_is_refused",),
    ),
    Breakage(
        "a-new-topic-is-read-twice",
        "From the switch on, a topic that only the next revision reads begins where it began for the new nodes.",
        ONCE,
        (
            Edit(
                LOG,
                "            next_offsets={**self.next_offsets, **self.reads_again},\n",
                "            next_offsets={**self.next_offsets, **live},\n",
            ),
        ),
        (f"{TEST_RULES}::test_the_next_revision_goes_on_where_its_nodes_were_given_input",),
    ),
    Breakage(
        "filled-anew-from-the-middle",
        "After a detachment new nodes are filled from nothing, and read again from where they were.",
        BATCH,
        (
            Edit(
                LOG,
                '        if record.reason != "taken_back":  # what was filled is void\n            log = replace(log, again={})\n',
                "",
            ),
        ),
        (f"{TEST_RULES}::test_what_was_read_again_is_void_with_what_was_filled",),
    ),
    Breakage(
        "equal-shares-of-what-is-read-again",
        "Partitions are read in proportion in place of by time, so a watermark runs away from what comes later.",
        BATCH,
        (
            Edit(
                READING,
                "        return self.order.find_ends(step, starts, ends, rows)\n",
                "        return proportional(starts, ends, rows)\n",
            ),
        ),
        (f"{TEST_READING}::test_partitions_are_read_beside_each_other_by_time",),
    ),
    Breakage(
        "a-partition-that-came-later-is-forgotten",
        "A partition that a topic got since the transition was planned is not read for the new nodes.",
        BATCH,
        (Edit(READING, "starts = {**self._starts_added(log, division, known), **known}", "starts = dict(known)"),),
        (f"{TEST_READING}::test_a_partition_that_has_come_is_announced_though_nothing_is_read",),
    ),
    Breakage(
        "the-whole-search-for-each-portion",
        "The search for the time of a portion begins anew each time.",
        "a portion costs few questions",
        (Edit(TIME_BOUND, "self.width_ms or 1", "0"),),
        (f"{TEST_READING}::test_a_portion_costs_few_questions",),
    ),
    Breakage(
        "portions-that-mostly-pay-their-fixed-cost",
        "A portion beside small steps is as large as its share of their time, of which nothing is left after its fixed cost.",
        "a transition ends",
        (Edit("coordinator/transition/portions.py", "max(budget_ms, USEFUL * cost.fixed)", "budget_ms"),),
        ("tests/coordinator/transition/test_portions.py::test_portions_are_as_large_as_their_fixed_cost_asks_for",),
    ),
    Breakage(
        "new-nodes-fall-behind",
        "With input new nodes get their share of the time alone, and never catch up.",
        "a transition ends",
        (
            Edit(
                "coordinator/transition/portions.py",
                "max(1, min(most, max(self.messages, int(CATCH_UP * rows))))",
                "max(1, min(most, self.messages))",
            ),
        ),
        ("tests/coordinator/transition/test_portions.py::test_messages_catch_up_with_input_whatever_they_cost",),
    ),
    Breakage(
        "new-input-reaches-new-nodes-twice",
        "A source that is read again also gets what the revision in force reads.",
        ONCE,
        (
            Edit(
                SOURCES,
                "every = again if is_read_again(node.handle) else batches",
                "every = [*again, *batches] if is_read_again(node.handle) else batches",
            ),
        ),
        (f"{TEST_RUNS}::test_views_over_a_stream_are_changed_and_come[1]",),
    ),
    Breakage(
        "a-malformed-message-is-nobodys",
        "A malformed message that is read again is not said to be of a new node, so it ends the run.",
        A_RUNS_ON,
        (
            Edit(
                SOURCES,
                "        if is_read_again(table.handle):  # the revision in force can go on without the node\n",
                "        if not table.handle:\n",
            ),
        ),
        (f"{TEST_RUNS}::test_a_message_that_cannot_be_read_for_new_nodes_leaves_the_old_project",),
        tells="malformed message",
    ),
    Breakage(
        "expired-input-ends-the-run",
        "Messages that expire before they are read again end the run.",
        A_RUNS_ON,
        (Edit(TASKS, "        except CANNOT_READ as fault:\n", "        except ZeroDivisionError as fault:\n"),),
        (f"{TEST_RUNS}::test_messages_that_expire_while_they_are_read_again_leave_the_old_project",),
        tells="OffsetGone",
    ),
    Breakage(
        "a-replay-reads-again-after-an-abort",
        "A replay reads for new nodes that are there no more.",
        RECORDED,
        (
            Edit(
                STEPPING,
                "        if self._writer.state.revisions.passage_that_fills(record.step) is None:\n            return ()\n",
                "",
            ),
        ),
        (f"{TEST_RUNS}::test_messages_that_expire_while_they_are_read_again_leave_the_old_project",),
        tells="WorkerMistake",
    ),
    Breakage(
        "what-is-read-again-has-no-bound",
        "A step reads again as many bytes as its messages have.",
        "memory is bounded",
        (
            Edit(
                TASKS,
                "read(mine, ahead=True, bytes_max=given.bytes_max_of(mine))\n        except",
                "read(mine, ahead=True)\n        except",
            ),
        ),
        (f"{TEST_RUNS}::test_large_messages_are_read_again_within_the_bound_of_bytes",),
    ),
    Breakage(
        "old-content-is-read-with-the-columns-of-now",
        "The old content of a view is made of the messages as the next revision reads them.",
        BATCH,
        (
            Edit(
                "engine/analysis/filling_circuit.py",
                "            source=self._read_as_before,\n",
                "            source=self._read_again,\n",
            ),
        ),
        (f"{TEST_FILLING}::test_old_content_is_read_again_with_the_columns_that_it_had",),
    ),
    Breakage(
        "replays-read-as-the-next-revision",
        "A worker reads of each message what it read at its start, also where a program needs the timestamps.",
        RECORDED,
        (
            Edit(
                "engine/run/program_document.py", "        kafka=replace(like.kafka, extras=extras_of_all(read)),\n", ""
            ),
        ),
        (f"{TEST_RUNS}::test_a_source_that_wants_the_timestamps_of_messages_comes",),
    ),
    Breakage(
        "topics-of-a-pattern-as-they-were-divided",
        "A topic that matches a pattern and that no step has read is not read for new nodes.",
        BATCH,
        (
            Edit(
                "coordinator/transition/course.py",
                "topics = {*spec.input_topics, *(",
                "topics = {*(where.topic for where in self._writer.state.next_offsets), *(",
            ),
        ),
        (f"{TEST_RUNS}::test_a_topic_that_joins_a_pattern_is_read_again_too",),
    ),
    Breakage(
        "a-topic-of-the-next-project-ends-the-run",
        "A topic that only the next project reads is deleted, and that ends the run.",
        A_RUNS_ON,
        (
            Edit(
                "io_kafka/errors.py",
                "CANNOT_READ = (OffsetGone, UnknownTopic, NotAuthorized)",
                "CANNOT_READ = (OffsetGone, NotAuthorized)",
            ),
        ),
        (f"{TEST_RUNS}::test_a_topic_that_only_the_next_project_reads_and_that_goes_leaves_the_old_one",),
        tells="UnknownTopic",
    ),
    Breakage(
        "no-checkpoint-before-the-switch",
        "The switch comes while a replay across it would need messages that were read again.",
        "a run goes on after a crash",
        (
            Edit(
                "coordinator/transition/machine.py",
                "        if reads_again and not obstacles:\n",
                "        if False:\n",
            ),
        ),
        (
            "tests/coordinator/transition/test_machine.py::test_what_was_read_again_is_in_a_checkpoint_before_the_switch",
        ),
    ),
    Breakage(
        "no-password-for-adopted-programs",
        "Workers that have adopted a program have no password for the registries of its sources.",
        "no silence",
        (Edit("engine/run/program_document.py", ".with_auth(like.registry_auth)", ""),),
        ("tests/engine/test_program_document.py::test_workers_know_the_password_of_a_registry_that_no_document_has",),
    ),
    Breakage(
        "a-new-topic-that-was-made-anew",
        "A topic that only new nodes read is deleted and created again while they are filled, and the switch comes.",
        "no silence",
        (
            Edit(
                "coordinator/transition/switch_obstacles.py",
                "        for recreated in lost_topics(intent.topics, there).recreated.values():\n",
                "        for recreated in lost_topics((), there).recreated.values():\n",
            ),
        ),
        (
            "tests/coordinator/transition/test_switch_obstacles.py::test_a_topic_that_was_made_anew_while_it_was_read_again_holds_the_switch",
            "tests/end_to_end/test_reading_again.py::test_a_topic_that_was_made_anew_meanwhile_leaves_the_old_project",
        ),
    ),
    Breakage(
        "new-topics-are-not-recorded",
        "The record of a transition does not say which topics its new nodes read.",
        "no silence",
        (Edit("coordinator/transition/transitions.py", "            topics=prepared.rereads.topics,\n", ""),),
        ("tests/end_to_end/test_reading_again.py::test_a_topic_that_was_made_anew_meanwhile_leaves_the_old_project",),
    ),
)
