"""Mistakes where processes of a run fail: workers that answer nonsense, coordinators that are gone, task slots that are not there."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

RESIDENT, TESTS = "engine/resident", "tests/engine/resident"
ANSWERS, TEST_OUTPUT = "coordinator/stepping/step_answers.py", "tests/coordinator/stepping/test_step_output.py"
LIES = f"{TEST_OUTPUT}::test_an_answer_that_cannot_be_right_is_a_loss_of_its_worker"
STREAMS = "tests/base/test_standard_streams.py"
SILENCE, BOUNDED, ONCE = "no silence", "9 bounded", "exactly once"

FAULTS = (
    Breakage(
        "unreadable-rows-end-the-run",
        "What Arrow says about bytes that it cannot read is raised as it is, and no run recovers from that.",
        SILENCE,
        (
            Edit(
                f"{RESIDENT}/received.py",
                "    except (pa.ArrowException, OSError, ValueError) as fault:\n",
                "    except MemoryError as fault:\n",
            ),
        ),
        (
            f"{TESTS}/test_received.py::test_a_part_of_a_table_is_none",
            "tests/end_to_end/test_fences.py::test_a_worker_that_answers_nonsense_is_replaced",
        ),
        tells="WorkerMistake",
    ),
    Breakage(
        "rows-of-other-columns-taken",
        "A table that another process sends is not compared with the columns that it should have.",
        SILENCE,
        (Edit(f"{RESIDENT}/received.py", "    if schema is not None and not table.schema.equals(schema):\n", "    if False:\n"),),
        (f"{TESTS}/test_received.py::test_a_table_of_other_columns_is_none",),
    ),
    Breakage(
        "channel-numbers-not-checked",
        "The rows of a peer are filed under whatever channel it names, counted from the end if it is negative.",
        ONCE,
        (
            Edit(
                f"{RESIDENT}/mesh.py",
                "            if not 0 <= number < len(self._channels) or self._channels[number] in tables:\n",
                "            if number >= len(self._channels):\n",
            ),
        ),
        (f"{TESTS}/test_mesh.py::test_what_cannot_be_the_rows_of_a_stage_is_a_loss_of_its_sender",),
    ),
    Breakage(
        "answer-not-looked-at",
        "What a worker says about a step is believed: nodes, handles, numbers of stages.",
        SILENCE,
        (Edit(ANSWERS, "        if why is not None:\n", "        if why is None and worker.worker < 0:\n"),),
        (LIES,),
    ),
    Breakage(
        "input-read-by-nobody",
        "Nobody looks whether each range of a step was read by exactly one worker.",
        ONCE,
        (Edit(ANSWERS, "    _check_inputs(expected.step, expected.ranges, [(each.worker, each.done.inputs) for each in workers])\n", ""),),
        (LIES,),
    ),
    Breakage(
        "unasked-answer-kept",
        "An answer that nobody has asked for is kept, and taken for the answer to a later order.",
        ONCE,
        (Edit(f"{RESIDENT}/roster.py", "        if name not in member.asked:\n", "        if False:\n"),
         Edit(f"{RESIDENT}/roster.py", "        member.asked.remove(name)\n", "        member.asked.discard(name)\n")),
        (
            f"{TESTS}/test_roster.py::test_what_nobody_has_asked_is_not_kept_for_a_later_order",
            f"{TESTS}/test_roster.py::test_a_second_answer_is_a_loss_of_its_sender",
        ),
    ),
    Breakage(
        "nonsense-between-orders-ends-a-worker",
        "A worker that gets nonsense from a peer while it has no order ends without a word, and the innocent one is named.",
        SILENCE,
        (
            Edit(
                f"{RESIDENT}/worker/worker.py",
                "                self._control.answer(self._control.failure(BETWEEN_ORDERS, fault))\n",
                "                raise CoordinatorGone(str(fault)) from fault\n",
            ),
        ),
        (f"{TESTS}/test_crew.py::test_nonsense_of_a_peer_between_two_orders_is_told",),
    ),
    Breakage(
        "fields-of-a-fault-believed",
        "A fault is raised with whatever fields a worker has sent, also without those that its text needs.",
        SILENCE,
        (Edit(f"{RESIDENT}/faults.py", "        str(error)  # it needs the fields of the class\n", ""),),
        (f"{TESTS}/test_faults.py::test_fields_that_do_not_belong_to_the_class_are_a_loss_of_the_worker",),
    ),
    Breakage(
        "pieces-absorbed-unseen",
        "What a peer sends as the state of slots goes into the database whatever it is.",
        "7 one owner",
        (Edit(f"{RESIDENT}/slots.py", "            check_pieces(pieces, slots)\n", ""),),
        (f"{TESTS}/test_slots.py::test_pieces_that_are_no_state_are_a_loss_of_their_sender",),
    ),
    Breakage(
        "copies-stored-unseen",
        "What a peer sends as copies of slots is stored under whatever key it names.",
        "7 one owner",
        (Edit(f"{RESIDENT}/copies.py", "            _check(peer, copies, message.slots)\n", ""),),
        (f"{TESTS}/test_slots.py::test_copies_that_are_no_state_are_a_fault_of_the_order_which_names_their_sender",),
    ),
    Breakage(
        "views-not-looked-at",
        "The rows of a question are handed out unread, and whoever asked cannot read them.",
        SILENCE,
        (Edit("coordinator/checkpoints/view_queries.py", "        check_rows(question.views, found)\n", ""),),
        ("tests/coordinator/checkpoints/test_view_queries.py::test_an_answer_that_cannot_be_read_is_a_loss_of_its_worker_and_the_new_ones_are_asked",),
    ),
    Breakage(
        "watch-begins-after-the-registration",
        "A task watches its coordinator only when it has looked at the folder of its host.",
        BOUNDED,
        (
            Edit(f"{RESIDENT}/entry.py", "    pulse.start()\n    try:\n", "    try:\n"),
            Edit(
                f"{RESIDENT}/entry.py",
                "        pulse.is_registered = True\n",
                "        pulse.is_registered = True\n        pulse.start()\n",
            ),
        ),
        (f"{TESTS}/test_crew.py::test_a_task_without_a_number_ends_with_its_coordinator_whatever_it_does",),
    ),
    Breakage(
        "silent-before-its-first-sign",
        "A coordinator that waits for the broker counts as dead before it has given a sign of life.",
        BOUNDED,
        (
            Edit(
                f"{RESIDENT}/pulse.py",
                "        if self.has_spoken and silent_s > self.silence_s:\n",
                "        if silent_s > self.silence_s:\n",
            ),
        ),
        (f"{TESTS}/test_pulse.py::test_a_coordinator_may_be_busy_with_the_broker_before_its_first_sign",),
    ),
    Breakage(
        "silent-while-the-machine-stood-still",
        "After a pause of the whole machine, every other process counts as silent.",
        BOUNDED,
        (
            Edit(
                f"{RESIDENT}/liveness.py",
                "min(at - (at if self._at is None else self._at), self.gap_s_max)",
                "at - (at if self._at is None else self._at)",
            ),
        ),
        (
            f"{TESTS}/test_roster.py::test_nobody_was_silent_or_idle_while_the_machine_stood_still",
            f"{TESTS}/test_pulse.py::test_a_coordinator_was_not_silent_while_the_machine_stood_still",
        ),
    ),
    Breakage(
        "first-sign-waited-for-for-ever",
        "A task whose driver was stopped while it started never ends.",
        BOUNDED,
        (
            Edit(
                f"{RESIDENT}/pulse.py",
                "        if not self.has_spoken and silent_s > FIRST_SIGN_SECONDS_MAX:\n",
                "        if silent_s < 0:\n",
            ),
        ),
        (
            f"{TESTS}/test_pulse.py::test_a_coordinator_may_be_busy_with_the_broker_before_its_first_sign",
            f"{TESTS}/test_crew.py::test_a_task_does_not_wait_for_ever_for_the_first_sign_of_life",
        ),
    ),
    Breakage(
        "sleeping-jvm-waited-for",
        "A command whose JVM is asleep does not end.",
        BOUNDED,
        (Edit("stepwell/commands/spark.py", "        process.kill()\n", "        process.poll()\n"),),
        ("tests/stepwell/test_jvm.py::test_a_jvm_that_is_asleep_is_killed_at_the_end",),
    ),
    Breakage(
        "default-takes-all-task-slots",
        "A new pipeline gets as many workers as local[N] has task slots, so nothing else finds one.",
        "task slots",
        (Edit("stepwell/planning/pipeline.py", "[max(1, slots - 1)]", "[slots]"),),
        ("tests/stepwell/test_serve.py::test_the_default_number_of_workers_leaves_a_task_slot_free",),
    ),
    Breakage(
        "all-cores-taken-at-their-word",
        "local[*] has one task slot for each core, and the workers take them all.",
        "task slots",
        (
            Edit(
                "stepwell/spark/session.py",
                "        chosen[MASTER_KEY] = f\"local[{cores() + WORKER_SLOTS}{of_all_cores[1] or ''}]\"\n",
                "        chosen.setdefault(MASTER_KEY, f\"local[{cores() + WORKER_SLOTS}{of_all_cores[1] or ''}]\")\n",
            ),
        ),
        ("tests/stepwell/test_session.py::test_local_mode_with_all_cores_has_task_slots_for_any_number_of_workers",),
    ),
    Breakage(
        "slots-of-a-cluster-not-told",
        "The error for missing task slots knows only the slots that local[N] names.",
        SILENCE,
        (Edit(f"{RESIDENT}/crew/recruiting.py", "self._launcher.slots_now()", "self._launcher.slots"),),
        (f"{TESTS}/test_crew.py::test_too_few_task_slots_are_named",),
    ),
    Breakage(
        "sleeping-jvm-asked-for-ever",
        "Whoever asks how many task slots Spark has waits for a JVM that is asleep.",
        BOUNDED,
        (Edit(f"{RESIDENT}/spark_launcher.py", "        asking.join(ASK_SECONDS_MAX)\n", "        asking.join(100 * ASK_SECONDS_MAX)\n"),),
        (f"{TESTS}/test_spark_launcher.py::test_a_jvm_that_ends_or_sleeps_has_no_answer_and_nobody_waits_for_it",),
    ),
    Breakage(
        "untrusted-network-used",
        "The key of the run is handed out on any network, whether Spark's channel is secured or not.",
        "a trusted network",
        (
            Edit(
                f"{RESIDENT}/spark_launcher.py",
                "        if missing := missing_of_secured(conf.get):\n",
                "        if not (missing := missing_of_secured(conf.get)):\n",
            ),
        ),
        (
            f"{TESTS}/test_spark_launcher.py::test_a_channel_that_is_not_secured_gets_no_key",
            "tests/stepwell/test_serve.py::test_a_network_beyond_loopback_is_used_only_if_the_setting_says_so",
        ),
    ),
    Breakage(
        "permission-does-not-arrive",
        "stepwell.cluster.insecure is read and not passed on.",
        "a trusted network",
        (
            Edit(
                "stepwell/commands/serve.py",
                "insecure=project.settings.stepwell.cluster_insecure)",
                "insecure=not project.settings.stepwell)",
            ),
        ),
        ("tests/stepwell/test_serve.py::test_a_network_beyond_loopback_is_used_only_if_the_setting_says_so",),
    ),
    Breakage(
        "a-full-log-ends-a-process",
        "What cannot be written to standard error is raised where it is written.",
        SILENCE,
        (
            Edit(
                "base/standard_streams.py",
                "with suppress(OSError, ValueError):  # the disk is full, the reader is gone, or the stream is closed",
                "with suppress(ValueError):",
            ),
        ),
        (
            f"{STREAMS}::test_a_process_that_may_lose_lines_ends_with_its_own_code",
            f"{STREAMS}::test_a_worker_ends_although_nobody_can_take_its_last_line",
        ),
    ),
    Breakage(
        "an-error-that-cannot-be-told-has-another-code",
        "A command ends with code 1 where its error cannot be written to standard error.",
        SILENCE,
        (Edit("stepwell/cli.py", "    forgive_standard_error()  # a line", "    # a line"),),
        (f"{STREAMS}::test_a_command_whose_error_nobody_can_take_ends_with_the_code_of_the_error",),
    ),
    Breakage(
        "a-run-that-cannot-tell-has-another-code",
        "A run ends with another code where its last line cannot be written to standard output.",
        SILENCE,
        (Edit("stepwell/commands/run.py", "    forgive_standard_output()  # it has", "    # it has"),),
        (f"{STREAMS}::test_a_command_whose_error_nobody_can_take_ends_with_the_code_of_the_error",),
    ),
)  # fmt: skip
