"""Mistakes in what `stepwell doctor` says of topics, and of a service that does not answer."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

RULES, TOPICS = "stepwell/doctor/topic_rules.py", "io_kafka/clients/topics.py"
TEST_RULES = "tests/stepwell/test_topic_rules.py"

DOCTOR = (
    Breakage(
        "keyed-changelog-must-not-be-compacted",
        "doctor refuses a compacted topic of Debezium, whose table has a key.",
        "what doctor says",
        (
            Edit(
                RULES,
                "if not facts.compacted or source.is_keyed:",
                'if not facts.compacted or source.mode == "upsert":',
            ),
        ),
        (f"{TEST_RULES}::test_compaction_is_right_where_the_last_message_of_a_key_is_its_row",),
    ),
    Breakage(
        "compaction-hides-what-expires",
        "doctor takes a topic of which messages expire for one that keeps them, because it is compacted too.",
        "what doctor says",
        (Edit(TOPICS, '        if "delete" not in self', '        if self.compacted or "delete" not in self'),),
        (f"{TEST_RULES}::test_compaction_does_not_keep_what_the_policy_deletes_too",),
    ),
    Breakage(
        "size-of-a-topic-without-notice",
        "doctor looks at the age at which input expires, and not at the size.",
        "what doctor says",
        (Edit(TOPICS, 'EXPIRY_CONFIG = ("retention.ms", "retention.bytes")', 'EXPIRY_CONFIG = ("retention.ms",)'),),
        (f"{TEST_RULES}::test_input_that_expires_by_size_may_be_lost_before_it_is_in_a_checkpoint",),
    ),
    Breakage(
        "tombstones-without-notice",
        "doctor finds a keyed input good whose tombstones vanish at once.",
        "what doctor says",
        (Edit(RULES, "stay_ms is None or int(stay_ms) >= least_ms:", "stay_ms is None or int(stay_ms) >= 0:"),),
        (f"{TEST_RULES}::test_a_tombstone_has_to_stay_until_it_is_read",),
    ),
    Breakage(
        "compaction-before-a-replay-without-notice",
        "doctor finds a keyed input good that may be compacted before its messages are in a checkpoint.",
        "what doctor says",
        (Edit(RULES, "lag_ms is None or int(lag_ms) >= least_ms:", "lag_ms is None or int(lag_ms) >= 0:"),),
        (f"{TEST_RULES}::test_messages_stay_until_no_step_is_replayed_with_them",),
    ),
    Breakage(
        "letters-without-room",
        "A topic of dead letters takes no more than the topic of their messages.",
        "no repeated work",
        (
            Edit(
                "coordinator/starting/topics/same_topics.py",
                "topics.ensure(name, 1, LARGE_MESSAGES, ",
                "topics.ensure(name, 1, ",
            ),
        ),
        ("tests/end_to_end/test_bad_input.py::test_letters_larger_than_their_messages_do_not_end_the_run",),
        tells="max.message.bytes",
    ),
    Breakage(
        "letters-without-bound",
        "A letter has a value as text, however long its escapes make it.",
        "no silence",
        (Edit("engine/run/dead_letters.py", "<= LETTER_TEXT_BYTES_MAX else None", "<= 1 << 40 else None"),),
        ("tests/engine/test_dead_letters.py::test_no_letter_is_larger_than_its_message_lets_expect",),
    ),
    Breakage(
        "letters-with-bytes-as-text",
        "A letter has a value that is no text as the text of its escapes.",
        "no silence",
        (
            Edit(
                "engine/run/dead_letters.py",
                "    except UnicodeDecodeError:\n        return None\n    if ESCAPED",
                '    except UnicodeDecodeError:\n        return value.decode("utf-8", "backslashreplace")\n    if ESCAPED',
            ),
        ),
        ("tests/engine/test_dead_letters.py::test_letters_tell_bytes_from_the_text_of_their_escapes",),
    ),
    Breakage(
        "letters-of-csv-in-base64",
        "The dead letter of a line of CSV is in base64, so that nobody can read it.",
        "no silence",
        (
            Edit(
                "io_kafka/formats/reading.py", "reading_of(source.encoding).values_are_text", "source.encoding is None"
            ),
        ),
        ("tests/engine/test_dead_letters.py::test_what_people_can_read_is_shown_as_text",),
    ),
    Breakage(
        "room-for-letters-without-notice",
        "doctor finds a topic good that does not take the letters of the largest messages.",
        "what doctor says",
        (Edit(RULES, "if value < needed}", "if value < message_bytes}"),),
        ("tests/stepwell/test_doctor.py::test_topics_of_dead_letters_take_the_largest_letters",),
    ),
    Breakage(
        "timeout-of-transactions-without-advice",
        "A run whose transactions may not last so long is told to correct a topic.",
        "an error says what to do",
        (Edit("io_kafka/clients/writer_faults.py", "    KafkaError.INVALID_TRANSACTION_TIMEOUT: SHORTER,\n", ""),),
        ("tests/io_kafka/test_writer.py::test_a_timeout_of_transactions_above_the_brokers_limit_is_named",),
    ),
    Breakage(
        "rebuild-of-a-whole-state",
        "doctor advises to rebuild a state that the system does not let it open.",
        "what doctor says",
        (
            Edit(
                "stepwell/doctor/state.py",
                "_REBUILD if is_lost or not fault.what_to_do else fault.what_to_do",
                "_REBUILD",
            ),
        ),
        ("tests/stepwell/test_doctor.py::test_only_a_state_that_is_lost_is_to_be_rebuilt",),
    ),
    Breakage(
        "silence-is-death",
        "A service that is stopped is said to be killed.",
        "what doctor says",
        (Edit("stepwell/service/silence.py", "    if status is None:\n", "    if status is None or status:\n"),),
        ("tests/stepwell/test_silence.py::test_a_process_that_is_stopped_can_be_woken",),
    ),
    Breakage(
        "full-disk-without-a-word",
        "A run that ended for a full disk tells no other command why.",
        "an error is told",
        (
            Edit(
                "stepwell/service/last_run.py",
                "            _fill_reserve(folder, _short_enough(kept))\n",
                "            raise\n",
            ),
        ),
        ("tests/stepwell/test_last_run.py::test_a_full_disk_does_not_hide_from_others_why_the_run_ended",),
    ),
    Breakage(
        "each-transaction-hangs",
        "A partition in which one short transaction follows another is told as one with a transaction that stays open.",
        "what doctor says",
        (
            Edit(
                "io_kafka/clients/blocked_partitions.py",
                "if where in before and before[where].stable == found.stable}",
                "if where in before}",
            ),
        ),
        (
            "tests/stepwell/test_doctor.py::test_a_transaction_that_stays_open_is_seen",
            "tests/coordinator/stepping/test_open_transactions.py::test_a_producer_that_goes_on_is_none_of_them",
        ),
    ),
    Breakage(
        "silence-is-an-end",
        "A service that does not answer counts as ended, and a command does beside it what it does without one.",
        "an error is told",
        (
            Edit(
                "stepwell/service/client.py",
                "kind = NotRunning if silence.is_gone else ServiceSilent",
                "kind = NotRunning",
            ),
        ),
        (
            "tests/stepwell/test_silence.py::test_who_waits_for_a_service_waits_while_it_is_silent",
            "tests/stepwell/test_silence.py::test_no_command_does_beside_a_silent_service_what_it_does_without_one[backup create]",
        ),
    ),
    Breakage(
        "one-silence-ends-the-following",
        "A command that follows a transition gives up when the service is silent once.",
        "an error is told",
        (Edit("stepwell/commands/transition.py", "client.status_when_it_answers()", "client.status()"),),
        ("tests/stepwell/test_silence.py::test_a_transition_and_a_rescale_are_followed_through_a_silence",),
        tells="does not answer",
    ),
    Breakage(
        "a-lost-log-names-no-topics",
        "The advice for a step log that cannot be read does not name the topics that have to go with it.",
        "an error says what to do",
        (Edit("stepwell/commands/serve.py", "            _add_written_topics(fault, project, definitions)\n", ""),),
        ("tests/end_to_end/test_lost_state.py::test_the_advice_of_a_lost_step_log_leads_to_the_batch_answer[1]",),
    ),
    Breakage(
        "a-lost-log-passes",
        "doctor does not read the step log, and finds one that has lost records in order.",
        "what doctor says",
        (
            Edit(
                "stepwell/doctor/kafka.py",
                "    except StepLogUnreadable as fault:\n        fault.name_written(written)\n",
                "    except StepLogUnreadable as fault:\n        return [check]\n",
            ),
        ),
        ("tests/end_to_end/test_lost_state.py::test_the_advice_of_a_lost_step_log_leads_to_the_batch_answer[1]",),
    ),
    Breakage(
        "foreign-messages-beside-the-log",
        "A run takes a step log into which something else writes, behind its first partition.",
        "no silence",
        (
            Edit(
                "io_kafka/clients/first_partition.py",
                "if where.partition and end > begins[where]]",
                "if where.partition and end < begins[where]]",
            ),
        ),
        ("tests/end_to_end/test_first_partition.py::test_partitions_behind_the_first_are_not_used[steps]",),
        tells="DID NOT RAISE",
    ),
    Breakage(
        "compacted-log-without-advice",
        "A run whose step log was made compacted is told to look at permissions.",
        "an error says what to do",
        (Edit("io_kafka/clients/writer_faults.py", "    KafkaError.INVALID_RECORD: KEYED,\n", ""),),
        ("tests/io_kafka/test_writer.py::test_a_log_that_becomes_compacted_under_a_run_is_named",),
    ),
    Breakage(
        "tombstones-in-former-partitions",
        "A refresh alone is advised for an upsert topic with more partitions, where a consumer may read a tombstone after the new row.",
        "an error says what to do",
        (
            Edit(
                "coordinator/starting/topics/same_topics.py",
                "WITH_TOMBSTONES if fact.compacted or output.compacted else WITH_DELETION",
                "WITH_DELETION",
            ),
        ),
        (
            "tests/coordinator/starting/test_refresh.py::test_an_output_with_more_partitions_is_rebuilt_as_the_error_says[upsert]",
        ),
    ),
    Breakage(
        "advice-without-a-full-stop",
        "An error whose message ends with another program's text runs into its advice.",
        "an error says what to do",
        (Edit("base/fault.py", "'' if is_sentence else '.'", "''"),),
        ("tests/base/test_fault.py::test_a_message_is_a_sentence_of_its_own_before_the_advice",),
    ),
    Breakage(
        "lost-input-is-fine",
        "doctor says nothing of messages that were deleted before they were read.",
        "what doctor says",
        (Edit("stepwell/doctor/positions.py", "    if begin > at:\n", "    if begin > at + 1_000_000:\n"),),
        (
            "tests/stepwell/test_doctor_positions.py::test_what_a_start_reads_has_to_be_there",
            "tests/end_to_end/test_changed_topics.py::test_input_that_expired_before_it_was_read_stops_the_run",
        ),
    ),
    Breakage(
        "replayed-input-is-fine",
        "doctor says nothing of messages that were deleted before they are in a checkpoint.",
        "what doctor says",
        (
            Edit(
                "stepwell/doctor/positions.py",
                "        if division.step >= step:\n",
                "        if division.step > step:\n",
            ),
        ),
        ("tests/stepwell/test_doctor_positions.py::test_what_a_start_reads_has_to_be_there",),
    ),
    Breakage(
        "plans-are-not-written-again",
        "A topic of plan documents that is deleted under a run is noticed by the next start, when nobody knows the documents any more.",
        "no silence",
        (
            Edit(
                "coordinator/running/plan_topic.py",
                "        if found is None or found != self._id:\n",
                "        if found == '':\n",
            ),
        ),
        (
            "tests/coordinator/running/test_plan_topic.py::test_documents_are_written_again_to_a_topic_that_has_lost_them",
            "tests/coordinator/running/test_plan_topic.py::test_a_document_that_nobody_knows_ends_the_run",
        ),
    ),
    Breakage(
        "plans-of-the-start-are-not-known",
        "A run does not keep the plan document that it has read at its start.",
        "no silence",
        (Edit("coordinator/loop.py", "            course.add_document(revision)\n", "            pass\n"),),
        (
            "tests/end_to_end/test_changed_topics.py::test_a_topic_of_plan_documents_that_is_deleted_under_a_run_is_written_again",
        ),
        tells="PlanMissing",
    ),
    Breakage(
        "open-transactions-are-not-told",
        "Messages wait behind a transaction that nobody ends, and the status and the metrics say that all is read.",
        "no silence",
        (Edit("coordinator/stepping/open_transactions.py", "self._board.update(blocked=", "dict(blocked="),),
        (
            "tests/coordinator/stepping/test_open_transactions.py::test_what_waits_behind_a_transaction_is_shown_and_told_once",
        ),
    ),
    Breakage(
        "a-full-store-is-a-mistake-of-ours",
        "A checkpoint store in a folder of a full disk ends the run, because closing the file raises what the disk says.",
        "no silence",
        (
            Edit(
                "storage/remote/folder.py",
                "            with suppress(OSError):\n                file.close()\n            with suppress",
                "            file.close()\n            with suppress",
            ),
        ),
        ("tests/storage/remote/test_folder.py::test_a_full_disk_is_a_full_store[10]",),
    ),
    Breakage(
        "deleted-outputs-are-made-again",
        "A start creates an output topic that was deleted, and then says that somebody has.",
        "an error is told",
        (
            Edit(
                "coordinator/starting/topics/same_topics.py",
                "deleted = sorted(written - topics.existing(written))",
                "deleted = sorted(written & {spec.name})",
            ),
        ),
        ("tests/end_to_end/test_changed_topics.py::test_an_output_topic_that_is_gone_is_not_made_again",),
    ),
    Breakage(
        "deleted-outputs-are-new-ones",
        "doctor says of an output topic that was deleted that the first run makes it.",
        "no silence",
        (
            Edit(
                "stepwell/doctor/kafka.py",
                "        elif facts is None and output.topic in recorded:\n",
                "        elif facts is None and not output.topic:\n",
            ),
        ),
        ("tests/stepwell/test_doctor.py::test_outputs_and_the_step_log",),
    ),
    Breakage(
        "a-folder-that-cannot-be-written-is-a-lost-state",
        "A run begins whose workers cannot make their databases, and says that these are lost.",
        "no silence",
        (
            Edit(
                "stepwell/commands/serve.py",
                "    place = None if project.on_cluster else",
                "    place = None if project.storage else",
            ),
        ),
        ("tests/stepwell/test_places.py::test_a_run_whose_state_cannot_be_written_does_not_begin",),
    ),
    Breakage(
        "hidden-topics-count-as-deleted",
        "A topic that the user may not see is told to be deleted, with the advice to rebuild.",
        "an error is told",
        (
            Edit(
                "io_kafka/clients/topics.py",
                "for name in sorted(wanted - found):",
                "for name in sorted(wanted & {''}):",
            ),
        ),
        (
            "tests/end_to_end/test_rights.py::test_a_topic_that_the_user_may_not_see_is_not_taken_for_one_that_was_deleted",
        ),
        tells="was deleted",
    ),
    Breakage(
        "a-lag-that-nobody-asks-for",
        "While a run is paused, its status shows the lag of before as that of now.",
        "what users are told",
        (Edit("coordinator/status.py", "phase in LAG_IS_STALE", "phase == WAITING_FOR_KAFKA"),),
        ("tests/coordinator/test_status.py::test_a_lag_is_old_while_no_step_is_divided",),
    ),
    Breakage(
        "doctor-trusts-databases-of-a-lost-log",
        "doctor finds the state good although the step log that it belongs to was deleted.",
        "what doctor says",
        (Edit("stepwell/doctor/state_log.py", "not in {None, topic.id}]", "in {topic}]"),),
        ("tests/end_to_end/test_lost_state.py::test_without_its_step_log_the_state_is_not_used[True]",),
    ),
    Breakage(
        "doctor-takes-a-lost-state-for-a-new-one",
        "doctor finds nothing wrong although the databases are gone and the step log has a checkpoint of them.",
        "what doctor says",
        (
            Edit(
                "stepwell/doctor/kafka.py",
                "return log is not None and not log.checkpoints and log.intent is None and log.first == 0",
                "return log is not None and log.first == 0",
            ),
        ),
        (
            "tests/end_to_end/test_lost_state.py::test_the_doctor_knows_a_start_that_was_refused_from_a_state_that_is_gone",
        ),
    ),
)
