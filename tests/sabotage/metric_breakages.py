"""Mistakes in what users see of a running service: metrics, probes, and the page."""

from __future__ import annotations

from tests.sabotage.breakage import Breakage, Edit

SEEN = "what users are told"
SERVICE = "stepwell/service"
TEST_MEASURES = "tests/coordinator/test_measures.py"
TEST_METRICS = "tests/stepwell/test_metrics.py"
TEST_LISTENER = "tests/stepwell/test_listener.py"
TEST_PAGE = "tests/stepwell/test_page.py"

MONITORED = (
    Breakage(
        "latency-of-replays",
        "A step that is replayed counts as one whose output comes late.",
        SEEN,
        (Edit("coordinator/measures.py", "None if found.replayed else now)", "now)"),),
        (f"{TEST_MEASURES}::test_latency_is_from_the_oldest_message_to_the_commit_and_a_replay_has_none",),
    ),
    Breakage(
        "lag-of-old-messages",
        "A partition that is read to its end counts as late, because its last message is old.",
        SEEN,
        (Edit("coordinator/measures.py", "        if not messages:\n", "        if where not in newest:\n"),),
        (f"{TEST_MEASURES}::test_lag_in_seconds_is_the_age_of_the_newest_message_that_was_read",),
    ),
    Breakage(
        "timestamps-of-the-last-message",
        "Of a delivery that is handed out in parts, the timestamp of its last message counts for all of it.",
        SEEN,
        (
            Edit(
                "io_kafka/clients/timestamps.py",
                "oldest = min(each.times.oldest_ms for each in taken)",
                "oldest = min(each.times.newest_ms for each in taken)",
            ),
        ),
        (
            "tests/io_kafka/test_timestamps.py::test_of_a_delivery_that_is_handed_out_in_parts_the_oldest_is_never_too_young",
        ),
    ),
    Breakage(
        "work-of-operators-lost",
        "The time of an operator without a name is not that of its view.",
        SEEN,
        (
            Edit(
                "engine/analysis/stages.py",
                "found[producer] = min(found[producer], found[index])",
                "found[producer] = producer",
            ),
        ),
        ("tests/engine/test_stages.py::test_the_owner_of_a_node_is_what_its_errors_name",),
    ),
    Breakage(
        "series-without-a-bound",
        "Every input partition has its series, however many there are.",
        SEEN,
        (
            Edit(
                f"{SERVICE}/metrics/names.py",
                "    if len(found) <= PARTITIONS_MAX:\n",
                "    if len(found) >= 0:\n",
            ),
        ),
        (f"{TEST_METRICS}::test_the_number_of_series_is_bounded",),
    ),
    Breakage(
        "metrics-for-everybody",
        "A listener that other hosts reach asks for no token.",
        SEEN,
        (Edit(f"{SERVICE}/listener.py", "if file is None and address.is_loopback:", "if file is None:"),),
        (f"{TEST_LISTENER}::test_a_token_survives_a_restart_and_is_private",),
    ),
    Breakage(
        "connections-without-bound",
        "Idle connections are accepted until the descriptors run out.",
        SEEN,
        (
            Edit(
                f"{SERVICE}/bounded_protocol.py",
                "if len(others) >= CONNECTIONS_MAX:",
                "if not others and self.conn is None:",
            ),
        ),
        (f"{TEST_LISTENER}::test_idle_connections_are_bounded_and_shut_nobody_out",),
    ),
    Breakage(
        "requests-without-deadline",
        "A connection that sends no request stays open.",
        SEEN,
        (
            Edit(
                f"{SERVICE}/bounded_protocol.py", "self._set_deadline(REQUEST_SECONDS_MAX)", "self._set_deadline(None)"
            ),
        ),
        (f"{TEST_LISTENER}::test_a_connection_without_a_whole_request_is_closed",),
    ),
    Breakage(
        "answers-without-deadline",
        "A connection whose answer does not end stays open.",
        SEEN,
        (Edit(f"{SERVICE}/bounded_protocol.py", "self._set_deadline(ANSWER_SECONDS_MAX)", "self._set_deadline(None)"),),
        (f"{TEST_LISTENER}::test_an_answer_has_a_deadline_of_its_own",),
    ),
    Breakage(
        "rows-of-unknown-size",
        "A view whose size is not known counts as empty.",
        SEEN,
        (Edit(f"{SERVICE}/page/rows.py", "    if size is None and (", "    if size is None and False and ("),),
        (f"{TEST_PAGE}::test_a_view_whose_size_is_not_known_is_read_only_if_the_whole_state_is_small",),
    ),
    Breakage(
        "ready-while-behind",
        "A service that falls behind counts as ready.",
        SEEN,
        (Edit(f"{SERVICE}/probes.py", "if seconds > lag_s_max]", "if seconds < 0]"),),
        (f"{TEST_LISTENER}::test_a_service_is_ready_while_it_keeps_up",),
    ),
    Breakage(
        "texts-as-html",
        "The text of a fault is a part of the page's HTML.",
        SEEN,
        (Edit(f"{SERVICE}/page/content.py", "<p>{escape(str(text))}</p>", "<p>{text}</p>"),),
        (f"{TEST_PAGE}::test_the_page_is_well_formed_and_no_text_breaks_out",),
    ),
    Breakage(
        "tickets-for-ever",
        "An address that has opened the page opens it again.",
        SEEN,
        (
            Edit(
                f"{SERVICE}/page/access.py",
                "until = self._tickets.pop(given, None)",
                "until = self._tickets.get(given)",
            ),
        ),
        (f"{TEST_PAGE}::test_a_ticket_ends_after_a_minute_and_there_are_never_many",),
    ),
    Breakage(
        "layers-in-any-order",
        "The boxes of a layer stand in the order of the circuit, so that edges cross.",
        SEEN,
        (
            Edit(
                f"{SERVICE}/page/graph.py",
                "    for sweep in range(SWEEPS):\n",
                "    for sweep in range(SWEEPS, SWEEPS):\n",
            ),
        ),
        (f"{TEST_PAGE}::test_the_order_of_a_layer_avoids_crossings",),
    ),
)
