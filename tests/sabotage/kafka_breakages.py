"""Mistakes at the edge to Kafka: the step log, the writer, the reader, topics, digests."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

LOG, WRITER, READER = "io_kafka/step_log/state.py", "io_kafka/clients/writer.py", "io_kafka/clients/reader.py"
CONSUMER = "io_kafka/clients/positioned_consumer.py"
RULES, SNAPSHOTS = "io_kafka/step_log/rules.py", "io_kafka/step_log/snapshots.py"
PLANS, TEST_PLANS = "io_kafka/step_log/plans.py", "tests/io_kafka/test_plans.py"
TRANSACTIONS, PROGRESS = "io_kafka/clients/transactions.py", "io_kafka/step_log/output_progress.py"
TEST_LOG, TEST_WRITER, TEST_READER = (f"tests/io_kafka/test_{name}.py" for name in ("step_log", "writer", "reader"))

KAFKA = (
    Breakage(
        "log-takes-an-undivided-step",
        "The step log accepts the output of a step that was never divided.",
        "1 division first",
        (
            Edit(RULES, "    if record.step not in log.divisions:\n", "    if False:\n"),
            Edit(RULES, "set(log.divisions[record.step].counted)", "set(log.counted)"),
        ),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "checkpoint-ahead-of-output",
        "The step log accepts the completion of a checkpoint whose last step has no committed output.",
        "6 two versions",
        (Edit(RULES, "    if version.step > log.steps:\n", "    if False:\n"),),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "log-takes-a-fenced-record",
        "The step log accepts a record of an epoch that has been replaced.",
        "5 fences",
        (Edit(RULES, "    if record.epoch < log.epoch:\n", "    if False:\n"),),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "divisions-without-end",
        "Any number of divisions may be recorded ahead of the output.",
        "9 bounded",
        (Edit(RULES, "    if record.step >= log.steps + PENDING_STEPS_MAX:\n", "    if False:\n"),),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "layout-changed-under-a-state",
        "The step log accepts another layout while steps of the first one have been divided.",
        "7 one owner",
        (
            Edit(
                RULES,
                "        return why_not_layout(record, log.layout_ground, _why_not_first(log, record.kind))\n",
                "        return None\n",
            ),
        ),
        (f"{TEST_LOG}::test_what_cannot_follow_is_refused_and_changes_nothing",),
    ),
    Breakage(
        "step-of-any-size",
        "A division takes all that is there, whatever the limits say.",
        "9 bounded",
        (
            Edit(
                "io_kafka/step_log/division.py",
                "for partition in partitions], limits.rows)",
                "for partition in partitions], max(limits.rows, sum(ends.values())))",
            ),
        ),
        ("tests/io_kafka/test_division.py::test_repeated_division_covers_everything_once",),
    ),
    Breakage(
        "digest-not-compared",
        "A replay's output is discarded without a look at its digest.",
        "2 determinism",
        (
            Edit(
                PROGRESS,
                "        if was != now:\n            raise DigestMismatch",
                "        if False:\n            raise DigestMismatch",
            ),
        ),
        (
            "tests/io_kafka/test_output_progress.py::test_another_output_of_a_recorded_step_stops",
            f"{TEST_WRITER}::test_a_restart_goes_on_and_a_replay_is_compared",
        ),
    ),
    Breakage(
        "replay-written-again",
        "The output of a step that the log has is written a second time.",
        "exactly once",
        (Edit(PROGRESS, "    if step == last:\n", "    if step >= first and step <= last:\n"),),
        ("tests/io_kafka/test_output_progress.py::test_equal_output_of_a_recorded_step_is_discarded",),
    ),
    Breakage(
        "output-in-order-of-arrival",
        "Messages of a step are written in the order in which tasks delivered them.",
        "2 determinism",
        (
            Edit(
                "io_kafka/step_log/digest.py",
                "    return table.take(pc.sort_indices(table, sort_keys=_ORDER))\n",
                "    return table\n",
            ),
        ),
        ("tests/io_kafka/test_digest.py::test_canonical_order",),
    ),
    Breakage(
        "digest-without-encoder",
        "The digest leaves out which encoder wrote the bytes.",
        "2 determinism",
        (Edit("io_kafka/step_log/digest.py", "    state.update(name)\n", ""),),
        ("tests/io_kafka/test_digest.py::test_digests_are_those_of_the_twin",),
    ),
    Breakage(
        "ends-one-short",
        "The step's record says that a partition ends before its last message.",
        "whole steps",
        (
            Edit(
                WRITER,
                "            end = ends.get(where, self.state.ends.get(where, 0))\n",
                "            end = max(0, ends.get(where, self.state.ends.get(where, 0)) - 1)\n",
            ),
        ),
        (f"{TEST_WRITER}::test_steps_are_written_with_their_digests_and_ends",),
    ),
    Breakage(
        "expected-epoch-ignored",
        "A claim is made over whoever holds the pipeline, not over the holder that was found silent.",
        "5 fences",
        (
            Edit(
                TRANSACTIONS,
                "        before = self._state.epoch if expect_epoch is None else expect_epoch\n",
                "        before = self._state.epoch\n",
            ),
        ),
        (f"{TEST_WRITER}::test_a_claim_over_another_holder_than_the_one_looked_at_is_refused",),
    ),
    Breakage(
        "markers-not-waited-for",
        "A run that looks for its successor does not wait for the marker of the successor's claim.",
        "5 fences",
        (Edit(TRANSACTIONS, "            self._reader.wait_decided()\n", ""),),
        (f"{TEST_WRITER}::test_a_successor_whose_claim_has_no_marker_yet_is_waited_for",),
    ),
    Breakage(
        "open-transactions-waited-for",
        "The wait for markers has no end.",
        "9 bounded",
        (
            Edit(
                "io_kafka/clients/step_log_reader.py",
                "            if outside.monotonic() > deadline:\n                why = ",
                "            if not high:\n                why = ",
            ),
        ),
        (f"{TEST_WRITER}::test_a_transaction_that_stays_open_is_not_waited_for",),
    ),
    Breakage(
        "claim-not-compared",
        "A claim is committed although somebody else has claimed since the log was read.",
        "5 fences",
        (Edit(TRANSACTIONS, "                if self._state.epoch != before:\n", "                if False:\n"),),
        (f"{TEST_WRITER}::test_a_claim_over_another_holder_than_the_one_looked_at_is_refused",),
        tells="BrokenStepLog",
    ),
    Breakage(
        "fenced-writer-goes-on",
        "A writer that finds another run's claim in the log makes itself a new producer and goes on.",
        "5 fences",
        (
            Edit(
                TRANSACTIONS,
                "        if self._claim is not None and holder is not None and holder.run_id != self.run_id:\n",
                "        if False:\n",
            ),
        ),
        (f"{TEST_WRITER}::test_the_older_of_two_writers_is_fenced",),
        tells="BrokenStepLog",
    ),
    Breakage(
        "doubt-taken-for-failure",
        "A commit whose answer was lost counts as not made, and its transaction is written again.",
        "exactly once",
        (
            Edit(
                TRANSACTIONS,
                "        if tail and [encode(r) for r in tail] == [encode(r) for r in records]:\n            return\n"
                "        if tail:\n",
                "        if False:\n",
            ),
        ),
        (f"{TEST_WRITER}::test_a_commit_without_an_answer_is_settled_by_the_log[answer_lost]",),
        tells="BrokenStepLog",
    ),
    Breakage(
        "divide-at-the-high-watermark",
        "Divisions end at the high watermark, behind messages of transactions that are open.",
        "no step waits for a producer",
        (
            Edit(
                "io_kafka/clients/topics.py",
                "isolation_level=IsolationLevel.READ_COMMITTED",
                "isolation_level=IsolationLevel.READ_UNCOMMITTED",
            ),
        ),
        ("tests/io_kafka/test_topics.py::test_the_end_is_the_last_stable_offset",),
    ),
    Breakage(
        "aborted-messages-count",
        "Input is read uncommitted.",
        "exactly once",
        (
            Edit(
                "io_kafka/clients/settings.py",
                '    "isolation.level": "read_committed",\n',
                '    "isolation.level": "read_uncommitted",\n',
            ),
        ),
        (
            "tests/io_kafka/test_clients.py::test_what_exactly_once_needs_is_always_set",
            f"{TEST_READER}::test_markers_and_aborted_records_take_offsets_and_yield_nothing",
        ),
    ),
    Breakage(
        "rows-of-the-next-step",
        "A step gets all that was read ahead, beyond the end of its range too.",
        "8 nothing between steps",
        (
            Edit(
                "io_kafka/clients/partition_position.py",
                "            if each.last < end:\n",
                "            if each.last < self.reached:\n",
            ),
        ),
        (
            f"{TEST_READER}::test_what_was_read_ahead_is_handed_out_once_and_a_fault_of_it_is_forgotten",
            f"{TEST_READER}::test_neighbouring_ranges_follow_each_other",
        ),
    ),
    Breakage(
        "fault-of-reading-ahead-kept",
        "A fault met while reading ahead is not told to the next read.",
        "reading ahead is a cache",
        (Edit(READER, "                if held.read_ahead_failed:\n", "                if False:\n"),),
        (f"{TEST_READER}::test_what_was_read_ahead_is_handed_out_once_and_a_fault_of_it_is_forgotten",),
    ),
    Breakage(
        "partition-by-another-murmur2",
        "Keys go to partitions by murmur2 with another seed than Kafka's.",
        "3 placement independence",
        (
            Edit(
                "io_kafka/clients/partitioner.py", "_SEED = np.uint32(0x9747B28C)\n", "_SEED = np.uint32(0x9747B28D)\n"
            ),
        ),
        ("tests/io_kafka/test_partitioner.py::test_the_vectors_of_kafkas_own_tests",),
    ),
    Breakage(
        "delete-without-retraction",
        "A Debezium delete without a key drops its retraction.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/decode.py",
                '    takes, gives = is_op(ops, {"u", "d"}),',
                '    takes, gives = is_op(ops, {"u"}),',
            ),
        ),
        ("tests/io_kafka/formats/test_keyed.py::test_changelog_without_key_retracts_before_and_adds_after",),
    ),
    Breakage(
        "progress-read-before-the-fence",
        "What was written last is read before the older writer is fenced, and not again.",
        "5 fences",
        (
            Edit(
                TRANSACTIONS,
                "        producer.init_transactions(self._limits.init_seconds_max)\n        found += self._read_tail()\n",
                "        producer.init_transactions(self._limits.init_seconds_max)\n",
            ),
        ),
        (f"{TEST_WRITER}::test_what_an_older_writer_commits_until_it_is_fenced_is_known_to_the_next",),
    ),
    Breakage(
        "producer-kept-after-an-error",
        "A producer goes on after its client has seen an error.",
        "exactly once",
        (Edit(TRANSACTIONS, "        self._is_in_doubt = True\n", ""),),
        (f"{TEST_WRITER}::test_a_producer_that_has_seen_an_error_is_not_used_again",),
    ),
    Breakage(
        "doubtful-commit-believed",
        "A commit that was acknowledged counts although the client saw an error on the way.",
        "exactly once",
        (
            Edit(
                TRANSACTIONS,
                "            if not self._is_in_doubt:\n                self._state",
                "            if True:\n                self._state",
            ),
        ),
        (f"{TEST_WRITER}::test_a_producer_that_has_seen_an_error_is_not_used_again",),
    ),
    Breakage(
        "producer-reused",
        "After a commit whose outcome is unknown the same producer aborts and goes on.",
        "exactly once",
        (
            Edit(
                TRANSACTIONS,
                "            raise\n        self._discard()\n        self._recover(tail)\n",
                "            raise\n        self._recover(tail)\n",
            ),
            Edit(
                TRANSACTIONS,
                "        self._discard()\n        found = [] if tail is None else tail\n",
                "        found = [] if tail is None else tail\n",
            ),
            Edit(
                TRANSACTIONS,
                "        # A client without a connection asks for the coordinator of its transactions a second time only after 500 ms.\n"
                "        producer.list_topics(self._log_topic, timeout=self._limits.init_seconds_max)\n"
                "        producer.init_transactions(self._limits.init_seconds_max)\n",
                "",
            ),
            Edit(
                TRANSACTIONS,
                "        producer = self._settings.outside.producer(config)\n",
                "        producer = self._producer\n"
                "        if producer is None:\n"
                "            producer = self._settings.outside.producer(config)\n"
                "            producer.init_transactions(self._limits.init_seconds_max)\n"
                "        else:\n"
                "            with suppress(KafkaException):\n"
                "                producer.abort_transaction(self._limits.abort_seconds_max)\n",
            ),
        ),
        (f"{TEST_WRITER}::test_a_producer_that_has_seen_an_error_is_not_used_again",),
    ),
    Breakage(
        "reading-ahead-without-bound",
        "What is read ahead fills the memory.",
        "9 bounded",
        (
            Edit(
                CONSUMER,
                "if self.closed or self._ahead_bytes() >= self.ahead_bytes_wanted:",
                "if self.closed:",
            ),
        ),
        (f"{TEST_READER}::test_what_is_read_ahead_is_bounded",),
    ),
    Breakage(
        "a-run-under-nohup-ends-with-its-terminal",
        "The end of the terminal stops a run that was started with nohup.",
        "an error is told",
        (Edit("stepwell/commands/serve.py", "is not signal.SIG_IGN:", "is not None:"),),
        ("tests/stepwell/test_serve.py::test_the_end_of_the_terminal_stops_a_run_unless_it_is_to_outlive_it[True]",),
    ),
    Breakage(
        "a-signal-waits-for-its-own-thread",
        "The handler of a signal takes the locks of the requests, which the thread that it interrupts may hold.",
        "a stop ends the run",
        (Edit("stepwell/commands/serve.py", "_thread.start_new_thread(self._stop, ())", "self._stop()"),),
        ("tests/stepwell/test_serve.py::test_a_signal_waits_for_no_lock_of_the_thread_that_it_interrupts",),
    ),
    Breakage(
        "commit-before-a-fence-forgotten",
        "After a fence the writer looks for a claim, and forgets that its own commit was among what it has read.",
        "1 exactly once",
        (
            Edit(
                "io_kafka/clients/transactions.py",
                "lambda: tail.extend(self._read_tail(in_doubt=True))",
                "lambda: self._read_tail(in_doubt=True)",
            ),
        ),
        (f"{TEST_WRITER}::test_a_fence_after_a_commit_without_an_answer_does_not_write_again",),
        tells="BrokenStepLog|was never divided|not the next",
    ),
    Breakage(
        "ahead-of-small-steps-by-much",
        "Beside small steps the messages of many are read ahead, which take the processors from them.",
        "small steps are fast",
        (Edit(CONSUMER, "max(AHEAD_BYTES_MIN, AHEAD_READS * read_bytes))", "AHEAD_BYTES_MAX)"),),
        (f"{TEST_READER}::test_what_is_read_ahead_is_bounded",),
    ),
    Breakage(
        "looks-ahead-without-end",
        "As long as a few messages come at a time, they are looked for each millisecond, which takes the interpreter from the steps.",
        "small steps are fast",
        (
            Edit(
                CONSUMER,
                "                elif (pause_s := next(pauses, None)) is not None:\n",
                "                elif pause_s := 0.001:\n",
            ),
        ),
        (f"{TEST_READER}::test_at_the_end_of_a_log_little_is_looked_for_ahead",),
    ),
    Breakage(
        "place-never-given-up",
        "A partition that runs far ahead of its range keeps its messages in memory.",
        "9 bounded",
        (
            Edit(
                CONSUMER,
                "            if surplus > 0 or (not is_filled and self.positions[where].ahead > SURPLUS_MESSAGES_MAX):\n",
                "            if self.positions[where].ahead < 0:\n",
            ),
        ),
        (f"{TEST_READER}::test_a_partition_far_ahead_of_its_range_gives_up_its_place",),
    ),
    Breakage(
        "bytes-of-a-step-not-bounded",
        "A step takes as many bytes as its messages have.",
        "9 bounded",
        (
            Edit(
                READER,
                "        if sum(position.ahead_bytes for position in positions) <= bytes_max:\n            return set()",
                "        if positions:\n            return set()",
            ),
        ),
        (f"{TEST_READER}::test_ranges_with_more_bytes_than_the_bound_are_cut_by_what_is_in_them",),
    ),
    Breakage(
        "large-message-never-gets-through",
        "A step that is cut by its bytes leaves out a message that is larger than they are.",
        "9 bounded",
        (Edit("io_kafka/step_log/byte_bound.py", "max(1, fitting)", "fitting"),),
        ("tests/io_kafka/test_byte_bound.py::test_cut_ranges_fit_except_for_first_messages",),
    ),
    Breakage(
        "next-step-skips-what-was-cut",
        "After a step was divided again over less input, the next one starts where it ended before.",
        "1 division first",
        (
            Edit(
                LOG,
                "record), **now._present_by(record))",
                'record), **{**now._present_by(record), "next_offsets": now.next_offsets})',
            ),
        ),
        (f"{TEST_LOG}::test_the_last_division_may_be_recorded_again_over_less_input",),
    ),
    Breakage(
        "written-step-is-cut",
        "A step that has output is divided again in a replay, where the bound on its bytes is lower now.",
        "2 determinism",
        (
            Edit(
                "coordinator/stepping/stepping.py",
                "None if action.replay else self._spec.limits.bytes_max",
                "self._spec.limits.bytes_max",
            ),
        ),
        ("tests/end_to_end/test_divisions.py::test_a_step_with_output_is_replayed_whole_where_the_bound_is_lower_now",),
        tells="BrokenStepLog|DigestMismatch",
    ),
    Breakage(
        "leaderless-log-ends-the-run",
        "A step log that nobody leads for a moment, as while a broker comes back, ends the run.",
        "no silence",
        (
            Edit(
                "io_kafka/clients/step_log_reader.py",
                "KafkaError.OFFSET_OUT_OF_RANGE, *OLD_EPOCH, *NO_LEADER}",
                "KafkaError.OFFSET_OUT_OF_RANGE, *OLD_EPOCH}",
            ),
        ),
        (f"{TEST_WRITER}::test_a_step_log_without_a_leader_is_waited_for",),
        tells="NoLeader",
    ),
    Breakage(
        "dead-leader-is-asked-for-ever",
        "A client that gets no answer is kept. It waits for the leader that it knows, and never hears of the successor.",
        "no silence",
        (
            Edit(
                "io_kafka/clients/broker_requests.py",
                "self.admin, client_began, patience_s = self.new_admin(), outside",
                "client_began, patience_s = outside",
            ),
        ),
        ("tests/io_kafka/test_topics.py::test_a_client_that_gets_no_answer_is_replaced",),
        tells="no Kafka broker answered",
    ),
    Breakage(
        "lost-host-keeps-its-executors",
        "The loss of a host ends its daemon only; what that has started goes on.",
        "tests of lost hosts prove what they say",
        (Edit("io_kafka/broker/folder_process.py", "tree = _stopped_tree(process)", "tree = [process]"),),
        ("tests/cluster/test_spark_daemons.py::test_a_tree_is_killed_with_all_its_branches",),
    ),
    Breakage(
        "one-replica-is-enough",
        "With three brokers a message counts as written when one of them has it.",
        "nothing that was acknowledged is lost with a broker",
        (Edit("io_kafka/broker/properties.py", "str(nodes), str(nodes // 2 + 1)", "str(nodes), str(1)"),),
        ("tests/cluster/test_brokers.py::test_the_settings_of_a_group_keep_a_majority",),
    ),
    Breakage(
        "snapshot-without-divisions",
        "A log that begins with a snapshot has forgotten what was divided and not written.",
        "1 division first",
        (
            Edit(
                SNAPSHOTS,
                "lambda record: Numbered(record.steps, record.pending),\n",
                "lambda record: Numbered(record.steps),\n",
            ),
        ),
        (f"{TEST_LOG}::test_a_log_truncated_at_any_snapshot_goes_on_alike",),
        tells="BrokenStepLog",
    ),
    Breakage(
        "null-read-as-empty",
        "Where messages are taken natively, a null key or value becomes an empty one.",
        "the batch answer",
        (Edit("io_kafka/binary_arrays.py", "    valid = each >= 0\n", "    valid = each >= -1\n"),),
        ("tests/io_kafka/test_native.py::test_both_sources_give_the_same",),
    ),
    Breakage(
        "event-without-its-place",
        "Where messages are taken natively, the end of a partition is told without saying of which.",
        "2 determinism",
        (Edit("io_kafka/clients/consumed.py", "KafkaError(code, text), where, ", "KafkaError(code, text), None, "),),
        ("tests/io_kafka/test_native.py::test_both_sources_give_the_same",),
    ),
    Breakage(
        "full-queue-forgotten",
        "Where messages are given natively, those that find the client's queue full are left out.",
        "4 a task may run twice",
        (
            Edit(
                "io_kafka/clients/open_transaction.py",
                "                self.flush()\n                is_flushed = True\n",
                "                self.flush()\n                reached = messages.rows\n",
            ),
        ),
        (f"{TEST_WRITER}::test_more_messages_than_the_clients_queue_holds",),
    ),
    Breakage(
        "given-from-the-start-of-the-array",
        "Where messages are given natively, those of a later partition are the first ones of the step.",
        "the batch answer",
        (
            Edit(
                "io_kafka/clients/native.py",
                "    ends, octets = offsets_and_bytes(array)\n",
                "    ends, octets = offsets_and_bytes(array)\n    ends = ends - ends[0]\n",
            ),
        ),
        ("tests/io_kafka/test_native.py::test_produced_messages_are_consumed_unchanged",),
    ),
    Breakage(
        "waiting-messages-hold-others",
        "Where messages are taken natively, one that waits keeps all that came with it in memory.",
        "9 bounded",
        (Edit("io_kafka/clients/consumed.py", "stretch.alone() if len(stretches) > 1 else stretch", "stretch"),),
        ("tests/io_kafka/test_native.py::test_both_sources_give_the_same",),
    ),
    Breakage(
        "zone-taken-for-none",
        "The extension reads timestamps without a zone as those with one, so that a Z is accepted where Spark refuses it.",
        "the batch answer",
        (Edit("io_kafka/formats/native_json.py", '    pa.timestamp("us"): "T",\n', '    pa.timestamp("us"): "Z",\n'),),
        ("tests/io_kafka/formats/test_native_json.py::test_usual_values_are_read_and_all_others_declined",),
    ),
    Breakage(
        "decimals-wider-than-declared",
        "The extension takes decimals of 38 digits for every DECIMAL, so that a number which does not fit becomes a row.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/native_json.py",
                "decimals, required, (kind.precision, kind.scale)",
                "decimals, required, (38, kind.scale)",
            ),
        ),
        ("tests/io_kafka/formats/test_native_json.py::test_usual_values_are_read_and_all_others_declined",),
    ),
    Breakage(
        "null-objects-are-empty",
        "An object that is null becomes one whose fields are null.",
        "the batch answer",
        (
            Edit(
                "io_kafka/formats/native_json.py",
                "pa.Array.from_buffers(kind, length, [valid], nulls, children=children)",
                "pa.Array.from_buffers(kind, length, [None], 0, children=children)",
            ),
        ),
        (
            "tests/io_kafka/formats/test_native_json.py::test_what_is_accepted_has_the_value_that_the_exact_reader_gives",
        ),
    ),
    Breakage(
        "declined-messages-are-rows",
        "A message that the extension has declined stays a row of nulls, beside the row that the exact reader gives.",
        "the batch answer",
        (Edit("io_kafka/formats/parse.py", "batch.filter(pa.array(~declined))", "batch"),),
        (
            "tests/io_kafka/formats/test_native_json.py::test_what_is_accepted_has_the_value_that_the_exact_reader_gives",
        ),
    ),
    Breakage(
        "a-plan-in-one-message",
        "A plan document of any size is one message, which a topic refuses that takes 1 MiB in a message.",
        "9 bounded",
        (
            Edit(PLANS, "range(0, len(packed), PART_BYTES_MAX)", "range(0, len(packed), len(packed))"),
            Edit(PLANS, "packed[at : at + PART_BYTES_MAX]", "packed[at:]"),
        ),
        (f"{TEST_PLANS}::test_a_document_is_found_among_others_and_in_any_order",),
    ),
    Breakage(
        "any-plan-of-the-name",
        "What has the key of a plan document is taken for it, whatever its content is.",
        "no silence",
        (Edit(PLANS, "return text if digest_of(text) == digest else None", "return text"),),
        (f"{TEST_PLANS}::test_what_is_not_the_document_is_none[another name]",),
    ),
    Breakage(
        "inputs-begin-anew",
        "Truncation forgets at which offset each input began, so nobody knows whether its messages are all there.",
        "no silence",
        (Edit(SNAPSHOTS, "as_offsets(record.firsts or ())", "as_offsets(())"),),
        ("tests/io_kafka/test_step_log.py::test_where_each_input_began_is_kept_for_ever",),
    ),
    Breakage(
        "the-clients-limit-decides",
        "A message that its topic would take is refused by the client, whose own limit is 1 MB.",
        "no silence",
        (Edit("io_kafka/clients/settings.py", '    "message.max.bytes": 64 * 1024 * 1024,\n', ""),),
        (f"{TEST_WRITER}::test_the_limit_of_the_topic_decides_how_large_a_message_may_be",),
        tells="Message size too large",
    ),
    Breakage(
        "divisions-after-a-wider-one-stay",
        "A step is divided again over more input, and the divisions after it, which began where it ended, still count.",
        "1 division first",
        (
            Edit(
                LOG,
                "        if (record.ranges, record.again, record.counted) == (before.ranges, before.again, before.counted):\n",
                "        if not record.is_shortening_of(before):\n",
            ),
        ),
        (f"{TEST_LOG}::test_a_pending_division_may_be_recorded_again_over_more_input",),
    ),
    Breakage(
        "snapshot-forgets-a-field",
        "A snapshot does not have the topics that have grown, so a log that begins with it takes them for new ones.",
        "1 division first",
        (Edit(SNAPSHOTS, '    "grown": lambda record: frozenset(record.grown),\n', ""),),
        (f"{TEST_LOG}::test_every_field_of_the_state_is_in_a_snapshot_or_is_said_not_to_be",),
    ),
    Breakage(
        "a-later-field-is-in-every-snapshot",
        "A snapshot has a field that came later also where it has its default, so that the release before refuses the log.",
        "no silence",
        (
            Edit(
                "io_kafka/step_log/records.py",
                '"clock_us", "idle"})\n    kind: Literal["snapshot"]',
                '"clock_us"})\n    kind: Literal["snapshot"]',
            ),
        ),
        ("tests/io_kafka/test_log_records.py::test_the_written_form_is_frozen",),
    ),
    Breakage(
        "a-message-changes-without-a-wire-version",
        "A worker of the release before registers with the same wire version, and its messages are taken for nonsense.",
        "no silence",
        (
            Edit(
                "engine/resident/messages/checkpoints.py",
                "class LayerFrozen(Answer):\n    version: VersionId\n",
                "class LayerFrozen(Answer):\n    version: VersionId\n    took_ms: float = 0.0\n",
            ),
        ),
        ("tests/engine/resident/test_frames.py::test_the_form_of_messages_belongs_to_the_wire_version",),
    ),
    Breakage(
        "a-field-of-sources-without-a-wire-version",
        "A worker of the release before takes an assignment whose sources have another field, and fails when it reads.",
        "no silence",
        (
            Edit(
                "engine/run/source_table.py",
                "    counts_from: tuple[tuple[TopicPartition, int], ...] | None = None\n",
                "    counts_from: tuple[tuple[TopicPartition, int], ...] | None = None\n    prefix: str = ''\n",
            ),
        ),
        ("tests/engine/resident/test_assignment.py::test_the_classes_of_an_assignment_belong_to_the_wire_version",),
    ),
    Breakage(
        "the-version-within-the-assignment",
        "What Spark hands out names a class of Stepwell, so that a host of another release cannot read the wire version.",
        "no silence",
        (
            Edit(
                "engine/resident/entry.py",
                "return SimpleNamespace(wire=WIRE_VERSION, assignment=pickle.dumps(assignment))",
                "return SimpleNamespace(wire=WIRE_VERSION, assignment=pickle.dumps(assignment), term=assignment.term)",
            ),
        ),
        ("tests/engine/resident/test_assignment.py::test_the_version_can_be_read_without_any_class_of_ours",),
    ),
    Breakage(
        "states-share-what-each-adds",
        "A record of a transaction that was given up stays among the steps of the log.",
        "1 division first",
        (
            Edit(
                "io_kafka/step_log/numbered.py",
                "        shares = self._base + len(self._shared) == self.end\n",
                "        shares = self._base + len(self._shared) >= self.end\n",
            ),
        ),
        ("tests/io_kafka/test_numbered.py::test_any_history_of_values_is_that_of_dicts",),
    ),
)
