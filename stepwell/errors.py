"""The errors of a user's project. They name the view, file and line, and say what the user can do next.

A bug in Stepwell becomes one of these errors only if it concerns a single view (`OwnMistake`).
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from base.fault import ExitCode, Fault

# More suggestions than this would not help.
SUGGESTIONS_MAX = 3


@dataclass(frozen=True)
class Location:
    """A place in the project's source. `file` is relative to the project's folder, and `line` counts from 1."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class StepwellError(Fault):
    """A fault of the project or of the way it is run. `what_to_do` is a sentence or a snippet, and is printed on a separate line."""

    exit_code = ExitCode.PROJECT

    def __str__(self) -> str:
        return f"{self.message}\n  {self.what_to_do}" if self.what_to_do else self.message


class SettingsError(StepwellError):
    """A setting does not exist or has an invalid value. `key` is its full name."""

    def __init__(self, message: str, what_to_do: str = "", key: str | None = None) -> None:
        super().__init__(message, what_to_do)
        self.key = key


class ProjectError(StepwellError):
    """A definition cannot be run. `view` and `location` name it if they are known."""

    def __init__(
        self, message: str, what_to_do: str = "", *, view: str | None = None, location: Location | None = None
    ) -> None:
        super().__init__(message, what_to_do)
        self.view = view
        self.location = location

    def __str__(self) -> str:
        where = [str(self.location)] if self.location else []
        where += [self.view] if self.view else []
        return ": ".join([*where, super().__str__()])


class UnsupportedError(ProjectError):
    """A definition is correct in Spark, but Stepwell does not run it (yet)."""


class FilesGone(ProjectError):
    """A definition reads files that are not there. Spark cannot analyse it then, also if their rows were read at an earlier start."""


class OwnMistake(ProjectError):
    """Stepwell itself failed on a view with an unexpected exception. It is reported like a refusal of that view, so that it hides none of the
    errors of other views. `__cause__` is the exception."""

    exit_code = ExitCode.INTERNAL

    @classmethod
    def of(cls, error: Exception, view: str | None, location: Location | None) -> OwnMistake:
        """The OwnMistake for the exception `error`. The text names the innermost line of code, because users see no stack trace."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {'/'.join(Path(frames[-1].filename).parts[-2:])}:{frames[-1].lineno}" if frames else ""
        made = cls(
            f"Here is a bug in Stepwell: {type(error).__name__}: {error}{place}",
            "Please report it with this text and the definition. Until it is fixed, write this part in another way.",
            view=view,
            location=location,
        )
        made.__cause__ = error
        return made


class ProjectErrors(ProjectError):
    """Several errors of one project, so that a user can fix them together. `errors` has at least two."""

    def __init__(self, errors: Sequence[ProjectError]) -> None:
        assert len(errors) > 1
        first = errors[0]
        super().__init__(f"{len(errors)} errors in this project", view=first.view, location=first.location)
        self.errors = tuple(errors)
        if any(isinstance(error, OwnMistake) for error in errors):
            self.exit_code = ExitCode.INTERNAL

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def raise_all(errors: Sequence[ProjectError]) -> None:
    """Raises the error if there is one, or all of them together if there are several. Does nothing if there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ProjectErrors(errors)


SIMILARITY_MIN = 0.5
"""The least ratio of difflib between a name and one that is suggested for it."""


def nearest_names(name: str, known: Iterable[str], similarity_min: float = SIMILARITY_MIN) -> list[str]:
    """The known names that look like `name`, best first."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=SUGGESTIONS_MAX, cutoff=similarity_min)
    return [by_lower[lower] for lower in close]


def did_you_mean(name: str, known: Iterable[str], kind: str = "names") -> str:
    """A sentence that helps with an unknown name: the names that look like it, otherwise all known names."""
    known = sorted(known)
    close = nearest_names(name, known)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    return f"Known {kind}: {', '.join(known)}." if known else f"There are no {kind} here."
