"""Mistakes where processes of a run fail: workers that answer nonsense, coordinators that are gone, task slots that are not there."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

RESIDENT, TESTS = "engine/resident", "tests/engine/resident"
ANSWERS, TEST_OUTPUT = "coordinator/step_answers.py", "tests/coordinator/test_step_output.py"
LIES = f"{TEST_OUTPUT}::test_an_answer_that_cannot_be_right_is_a_loss_of_its_worker"
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
            f"{TESTS}/test_mesh.py::test_what_cannot_be_the_rows_of_a_stage_is_a_loss_of_its_sender",
            "tests/end_to_end/test_fences.py::test_a_worker_that_answers_nonsense_is_replaced",
        ),
        tells="ArrowInvalid|WorkerMistake|recoveries|OSError",
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
        tells="IndexError|KeyError|AssertionError|DID NOT RAISE|ValueError",
    ),
    Breakage(
        "input-read-by-nobody",
        "Nobody looks whether each range of a step was read by exactly one worker.",
        ONCE,
        (Edit(ANSWERS, "    _check_inputs(expected, workers)\n", ""),),
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
                f"{RESIDENT}/worker.py",
                "                self._answer(Failed(doing=BETWEEN_ORDERS, fault=self._wire_fault(fault)))\n",
                "                raise CoordinatorGone(str(fault)) from fault\n",
            ),
        ),
        (f"{TESTS}/test_crew.py::test_nonsense_of_a_peer_between_two_orders_is_told",),
        tells="TaskLost",
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
        tells="Arrow|KeyError|AssertionError|DID NOT RAISE|IndexError",
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
        (Edit("coordinator/questions.py", "        _check(question.views, found)\n", ""),),
        (f"tests/coordinator/test_questions.py::test_an_answer_that_cannot_be_read_is_a_loss_of_its_worker_and_the_new_ones_are_asked",),
    ),
)  # fmt: skip
