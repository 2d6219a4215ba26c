"""Values of settings that stand elsewhere: in a variable of the environment, or in a file.

    kafka.sasl.password: ${env:KAFKA_PASSWORD}            in `configuration:` or --conf; also within a longer value
    kafka.sasl.password: ${file:/run/secrets/kafka}       an absolute path; one line break at the end is no part of the value
    STEPWELL_KAFKA_SASL_PASSWORD_FILE=/run/secrets/kafka  in the environment: the value of the setting is the content of the file

So neither the project file nor a command line has a secret in it. What comes from a file counts as secret whatever its setting is called, and
what comes from a variable if the name of the setting or of the variable says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from base.secrets import is_secret, remember, remember_of
from stepwell.errors import SettingsError

FILE_BYTES_MAX = 1 << 20
"""A larger file is no value of a setting. A chain of certificates has some KiB."""

FILE_SUFFIX = "_FILE"

_REFERENCE = re.compile(r"\$\{(env|file):([^{}]*)\}")

_NEEDED_ELSEWHERE = ("AWS_", "AZURE_", "GOOGLE_")
"""How variables begin that the workers need too: they upload to the checkpoint store."""


@dataclass
class ValueSources:
    """Reads values from elsewhere, and remembers which are secret. `variables`: those of the environment that have secrets and that no process
    but this one needs. `may_lack`: a value that cannot be had is left out, because the command needs none: it only asks a running service."""

    variables: set[str] = field(default_factory=set)
    may_lack: bool = False

    def resolve(self, values: Mapping[str, str], origin: str) -> dict[str, str]:
        """The values with what they refer to. Raises SettingsError, which names the key and `origin`."""
        found: dict[str, str] = {}
        for key, value in values.items():
            with self._lacking():
                found[key] = self._resolve(key, value, origin)
        return found

    def from_file_variables(self, names: Iterable[str]) -> dict[str, str]:
        """By the name of a variable, the content of the file that the variable with FILE_SUFFIX names. Raises SettingsError."""
        found: dict[str, str] = {}
        for name in names:
            path = os.environ.get(name + FILE_SUFFIX)
            if path is None:
                continue
            if name in os.environ:
                raise SettingsError(
                    f"{name} and {name}{FILE_SUFFIX} (environment) are both set", "Remove one.", key=name + FILE_SUFFIX
                )
            with self._lacking():
                found[name] = _content(path, f"{name}{FILE_SUFFIX} (environment)", name + FILE_SUFFIX)
        return found

    @contextmanager
    def _lacking(self) -> Iterator[None]:
        try:
            yield
        except SettingsError:
            if not self.may_lack:
                raise

    def _resolve(self, key: str, value: str, origin: str) -> str:
        def replacement(found: re.Match[str]) -> str:
            kind, what = found[1], found[2].strip()
            if kind == "file":
                return _content(what, f"{key} ({origin})", key)
            text = os.environ.get(what)
            if text is None:
                raise SettingsError(
                    f"{key} ({origin}) is ${{env:{what}}}, and there is no variable {what} in the environment",
                    f"Set {what} for this command, or correct the name.",
                    key=key,
                )
            if is_secret(key):
                remember(text)
            if (remember_of(what, text) or is_secret(key)) and not what.startswith(_NEEDED_ELSEWHERE):
                self.variables.add(what)
            return text

        return _REFERENCE.sub(replacement, value)


def is_reference(value: str) -> bool:
    """Whether the value stands elsewhere, so that this text shows nothing of it."""
    return _REFERENCE.fullmatch(value) is not None


def _content(path: str, whose: str, key: str) -> str:
    """The text of a file, which counts as secret. Raises SettingsError."""
    advice = "Write a file that has the value alone, and that this user may read."
    if not Path(path).is_absolute():
        raise SettingsError(f"{whose} names the file {path!r}, which is no absolute path", advice, key=key)
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        text = content.decode()
    except OSError as fault:
        raise SettingsError(f"{whose} names the file {path}: {fault.strerror}", advice, key=key) from None
    except UnicodeDecodeError:
        raise SettingsError(f"{whose} names the file {path}, which is not UTF-8 text", advice, key=key) from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(content) > FILE_BYTES_MAX:
        how = "is empty" if not text else f"has more than {FILE_BYTES_MAX >> 20} MiB"
        raise SettingsError(f"{whose} names the file {path}, which {how}", advice, key=key)
    remember_of(key, text)
    remember(text)
    return text
