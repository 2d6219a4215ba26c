"""Mistakes about connections to Kafka that fail, brokers that are away, and rights that are missing."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

CONNECTIONS, RIGHTS = "io_kafka/clients/connection_faults.py", "io_kafka/clients/rights.py"
TEST_CONNECTIONS, TEST_SECURED = "tests/io_kafka/test_connection_faults.py", "tests/stepwell/test_secured.py"
STATUS, TEST_STATUS = "coordinator/status.py", "tests/coordinator/test_status.py"
WATCH, TEST_WATCH = "stepwell/service/kafka_watch.py", "tests/stepwell/test_kafka_watch.py"
NAMED, OUTLIVED, SEEN, LEAST = (
    "faults are named",
    "a service outlives its broker",
    "what is shown is true",
    "least privilege",
)

CONNECTION_BREAKAGES = (
    Breakage(
        "login-kills-a-connected-client",
        "A client that was answered before gives up at the first login that fails.",
        OUTLIVED,
        (Edit(CONNECTIONS, "return None if self.has_answered else self.lasting()", "return self.lasting()"),),
        (f"{TEST_CONNECTIONS}::test_a_client_that_was_answered_waits_for_a_login_too",),
    ),
    Breakage(
        "kerberos-is-a-password",
        "After a login by Kerberos that fails, the text names user and password, which have no part in it.",
        NAMED,
        (
            Edit(
                "io_kafka/clients/kerberos.py",
                "(_mechanism(options) or MECHANISM).upper()",
                "(_mechanism(options) or '')",
            ),
        ),
        (f"{TEST_CONNECTIONS}::test_a_lasting_reason_is_named_with_what_to_do",),
    ),
    Breakage(
        "one-broker-speaks-for-all",
        "A reason of one broker ends a command, although another broker may come back.",
        OUTLIVED,
        (
            Edit(
                CONNECTIONS,
                "return faults[0] if all(fault is not None for fault in faults) else None",
                "return next((fault for fault in faults if fault is not None), None)",
            ),
        ),
        (f"{TEST_CONNECTIONS}::test_one_broker_that_may_come_back_is_a_reason_to_wait",),
    ),
    Breakage(
        "named-broker-speaks-for-all",
        "A broker that another one has named and that is gone ends a command, although the others answer.",
        OUTLIVED,
        (
            Edit(
                CONNECTIONS,
                "return not has_numbers and {f",
                "return has_numbers or {f",
            ),
        ),
        (f"{TEST_CONNECTIONS}::test_a_broker_that_another_one_has_named_does_not_speak_for_it",),
    ),
    Breakage(
        "answer-to-one-client-only",
        "A new client of a process that is connected gives up at the first reason that looks lasting.",
        OUTLIVED,
        (Edit(CONNECTIONS, "self._key = (process, ", "self._key = (id(self), "),),
        (f"{TEST_CONNECTIONS}::test_an_answer_to_one_client_is_an_answer_to_all_of_the_process",),
        tells="UnknownHost",
    ),
    Breakage(
        "worker-doubts-its-broker",
        "A worker that is started while a broker restarts ends the run.",
        OUTLIVED,
        (Edit("engine/resident/entry.py", "        settings.reports().answered()\n", ""),),
        ("tests/engine/resident/test_crew.py::test_no_reader_of_a_worker_gives_up_at_once",),
    ),
    Breakage(
        "old-reason-is-told",
        "A fault is told with the reason of an older one.",
        NAMED,
        (
            Edit(
                CONNECTIONS,
                '            self._by_place.pop((place["server"], place["node"]), None)  # a key that is there would keep its place\n',
                "",
            ),
        ),
        (f"{TEST_CONNECTIONS}::test_the_reason_is_the_last_one_of_all_brokers",),
    ),
    Breakage(
        "reader-keeps-an-old-trouble",
        "A read without progress is explained by what was reported days ago.",
        NAMED,
        (
            Edit(
                "io_kafka/clients/positioned_consumer.py",
                "        self.trouble = NO_ANSWER\n        self.reports.answered()\n",
                "        self.reports.answered()\n",
            ),
        ),
        (f"{TEST_CONNECTIONS}::test_what_was_reported_before_an_answer_is_no_reason_of_a_reader",),
    ),
    Breakage(
        "reasons-are-not-collected",
        "What a client reports beside its calls is dropped.",
        NAMED,
        (
            Edit(
                CONNECTIONS,
                '            self._by_place[place["server"], place["node"]] = error\n',
                "            return\n",
            ),
        ),
        (
            f"{TEST_CONNECTIONS}::test_a_connection_that_is_refused_is_waited_for_and_explained_at_the_end",
            f"{TEST_SECURED}::test_a_password_that_is_changed_while_a_client_lives_is_waited_for",
        ),
    ),
    Breakage(
        "tls-port-is-not-recognised",
        "A port that speaks TLS is taken for one that does not.",
        NAMED,
        (
            Edit(
                "io_kafka/clients/tls_probe.py",
                'return "tls" if _speaks_tls(connection, host) else "plain"',
                'return "plain"',
            ),
        ),
        (f"{TEST_CONNECTIONS}::test_what_listens_and_why_its_certificate_is_not_trusted",),
    ),
    Breakage(
        "rate-of-the-past",
        "A pipeline that is idle goes on to show the rate of its last steps.",
        SEEN,
        (Edit(STATUS, "if now - self._recent[-1][0] > max(IDLE_SECONDS, 2 * longest_s):", "if False:"),),
        (f"{TEST_STATUS}::test_the_rate_is_zero_as_soon_as_a_pipeline_is_idle_and_does_not_remember_the_pause",),
    ),
    Breakage(
        "age-of-an-idle-checkpoint",
        "The age of a checkpoint grows although it has everything.",
        SEEN,
        (Edit(STATUS, "            if self._status.step < step:\n                self._uncovered_since = None\n", ""),),
        (f"{TEST_STATUS}::test_the_age_of_a_checkpoint_grows_only_while_it_lacks_something",),
    ),
    Breakage(
        "return-of-a-broker-not-told",
        "When a broker answers again, the status goes on to say that none does.",
        SEEN,
        (Edit(WATCH, "            self._board.kafka_is_back()\n", ""),),
        (f"{TEST_WATCH}::test_a_loss_is_told_once_and_its_end_once",),
    ),
    Breakage(
        "group-right-required",
        "The step log cannot be read without a right on a group that is never used.",
        LEAST,
        (Edit("io_kafka/clients/step_log_reader.py", "not in {*_PASSING, *_OF_NO_CONCERN}", "not in _PASSING"),),
        (f"{TEST_SECURED}::test_nobody_needs_a_right_on_the_group",),
        tells="GROUP_AUTHORIZATION_FAILED",
    ),
    Breakage(
        "hidden-log-taken-for-none",
        "A step log that the user may not see is taken for one of a pipeline that has never run.",
        LEAST,
        (
            Edit(
                "io_kafka/clients/step_log_reader.py",
                "            return hidden\n",
                "            return StepLogGone(self._topic)\n",
            ),
        ),
        (f"{TEST_SECURED}::test_a_log_that_the_user_may_not_see_is_not_taken_for_one_that_is_gone",),
        tells="StepLogGone",
    ),
    Breakage(
        "truncation-right-required",
        "A run ends at the first truncation of its log, if it has no right to delete.",
        LEAST,
        (
            Edit(
                "coordinator/checkpoints/truncation.py",
                "        except NotAuthorized as fault:\n",
                "        except MemoryError as fault:\n",
            ),
        ),
        (f"{TEST_SECURED}::test_a_log_that_cannot_be_truncated_is_told_once_an_hour",),
        tells="NotAuthorized|MemoryError|AttributeError",
    ),
    Breakage(
        "purged-message-hides-the-reason",
        "A message that was dropped with its transaction tells only that it was dropped.",
        NAMED,
        (
            Edit(
                "io_kafka/clients/open_transaction.py",
                "            if self.error.code() in _OF_THE_QUEUE:\n",
                "            if False:\n",
            ),
        ),
        (f"{TEST_SECURED}::test_a_writer_names_the_right_that_is_missing",),
        tells="OutcomeUnknown",
    ),
    Breakage(
        "refresh-begins-without-its-rights",
        "A full refresh begins although it cannot end.",
        LEAST,
        (Edit(RIGHTS, "    if missing:\n        raise rights_missing(settings, missing, doing)\n", ""),),
        (
            "tests/end_to_end/test_rights.py::"
            "test_the_rights_of_the_table_suffice_and_a_full_refresh_is_refused_before_it_begins",
        ),
    ),
)
