"""Properties of sources that Debezium's messages need: what a truncated table means, and the text for values that were not sent."""

from __future__ import annotations

from typing import NamedTuple, get_args

from base.options import UNAVAILABLE_VALUE, Mode, Truncate
from io_kafka.formats.unavailable import placeholder_of
from stepwell.project.format_properties import Properties

TRUNCATE = "truncate"
UNAVAILABLE = "unavailable.value.placeholder"
"""Debezium's own name for it."""

OF_SOURCES = (TRUNCATE, UNAVAILABLE)


class DebeziumProperties(NamedTuple):
    """The properties of a table that concern Debezium. `unavailable`: the placeholder; empty if no text is one."""

    truncate: Truncate
    unavailable: str


def debezium_properties(of: Properties, mode: Mode, key: tuple[str, ...]) -> DebeziumProperties:
    """Raises ProjectError."""
    return DebeziumProperties(_truncate(of, mode, key), _unavailable(of, mode))


def _truncate(of: Properties, mode: Mode, key: tuple[str, ...]) -> Truncate:
    given = of.values.get(TRUNCATE)
    if given is None:
        return "fail"
    choices: tuple[Truncate, ...] = get_args(Truncate)
    chosen = next((choice for choice in choices if choice == given.strip().lower()), None)
    if chosen is None:
        raise of.error(f"{TRUNCATE} = {given} is not known", f"It is one of {', '.join(choices)}.")
    if mode != "changelog":
        raise of.error(
            f"{TRUNCATE} is for Debezium's envelope, and the table has the mode {mode}",
            "Write 'mode' = 'changelog', or leave it out: only the envelope says that a table was truncated.",
        )
    if chosen == "apply" and not key:
        raise of.error(
            f"{TRUNCATE} = apply needs a key: without one Stepwell does not keep the table's rows, so it cannot delete them",
            "Add 'key' = '...' with the table's primary key, or write 'truncate' = 'fail' or 'ignore'.",
        )
    return chosen


def _unavailable(of: Properties, mode: Mode) -> str:
    given = of.values.get(UNAVAILABLE)
    if given is None:
        return UNAVAILABLE_VALUE
    if mode == "append":
        raise of.error(
            f"{UNAVAILABLE} is for tables that follow a database's rows, and in mode append each message is a row of its own",
            "Write 'mode' = 'upsert' or 'changelog' with a key, or leave it out.",
        )
    try:
        placeholder_of(given)
    except ValueError as error:
        raise of.error(
            f"{UNAVAILABLE} = {given} is no text for a placeholder: {error}",
            "Write the value of the connector's property of this name; 'hex:...' has two digits for each byte.",
        ) from None
    return given
