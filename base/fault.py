"""The base of every fault that is reported to a user, and the exit codes of the commands.

A fault is something in the world that stops a run: the project, the data, Kafka, the state, the machine. It says what is wrong and where, and
what to do next. A bug in Stepwell is an assertion or any other exception, never a fault: commands show its stack trace and end with
`ExitCode.INTERNAL`.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code means."""

    OK = 0
    INTERNAL = 1
    """A bug in Stepwell: please report it."""
    USAGE = 2
    """The command line is wrong."""
    PROJECT = 3
    """The project or a setting is wrong, or asks for what is not supported."""
    DATA = 4
    """The data stopped the pipeline: a malformed message, two rows with one key, an overflow."""
    KAFKA = 5
    """Kafka: no broker, no topic, no permission, lost input."""
    STATE = 6
    """The state is damaged, the disk is full, or the state is not this project's."""
    HELD = 7
    """Another run holds the pipeline or has taken it over."""
    NOT_RUNNING = 8
    """No service runs that could be asked."""
    MACHINE = 9
    """This machine cannot run it (no Java, no Spark), or a check of `doctor` failed."""
    INTERRUPTED = 130
    """Interrupted with Ctrl-C."""


class Fault(Exception):
    """The base of all faults. `message` says what is wrong and where. `what_to_do` is the user's next action, or empty if the message says it
    already.

    Each class of faults has an `exit_code`, its own or its base's. A fault travels from a worker to the coordinator as the
    plain values of its attributes (engine/resident/faults.py)."""

    exit_code: ExitCode

    def __init__(self, message: str, what_to_do: str = "") -> None:
        super().__init__(message, what_to_do)
        self.message = message
        self.what_to_do = what_to_do

    def __str__(self) -> str:
        return with_advice(self.message, self.what_to_do)


SENTENCE_ENDS = (".", "!", "?", ":")


def with_advice(message: str, what_to_do: str) -> str:
    """Both as one text. A message may end with what another program has said, which has no full stop."""
    if not message or not what_to_do:
        return f"{message}{what_to_do}"
    is_sentence = message.rstrip("\"'`)").endswith(SENTENCE_ENDS)
    return f"{message}{'' if is_sentence else '.'} {what_to_do}"


def exit_code_of(error: BaseException) -> ExitCode | None:
    """The exit code of a fault; None for any other exception, which is a bug in Stepwell."""
    return error.exit_code if isinstance(error, Fault) else None
