"""What is secret, and how it is kept out of everything that people and programs see.

Guarantee: this module alone decides it, in two ways. A setting, an option or a variable is secret by its name (`is_secret`), so its value is
never shown. A value that is known to be secret (`remember`) is replaced wherever a text has it (`hidden`), because the error of a library or of
a service on the network may quote what it was given.

    settings, Kafka's options, tokens --remember--> the values of this process --hidden--> log, status, errors, answers, support bundle
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from threading import Lock
from urllib.parse import quote

MASK = "***"

HIDDEN_CHARACTERS_MIN = 8
"""A shorter value is not replaced inside texts, because it would be found in words that are no secret. By its name it is masked all the same."""

_WORDS = re.compile(
    r"passwor[dt]|passwd|passphrase|secret|token|credential|jaas|registry\.auth$|"
    r"(access|account|api|encryption|keystore|private|shared|signing)\.?key|\.pem$|\.sas\b",
    re.IGNORECASE,
)
"""In a name whose words are separated by dots."""

_NO_VALUES = re.compile(
    r"(location|file|path|url|uri|endpoint|enabled|provider|providers|type|algorithm)$", re.IGNORECASE
)
"""How a name ends that says where a secret is or what kind it has, and not what it is."""

_INSIDE = re.compile(r"([?&;,\s'\"\[({]|^|-D)([\w.\-]+)=([^&;,\s\"']+|\"[^\"]*\"|'[^']*')")
"""`name=value` in a URL's query, in the options of Java, or in a list of properties."""

_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")

_CHARACTERS_ONLY = re.compile(r"[\w\-./+=:]+")
"""What looks the same in every notation."""


def is_secret(name: str) -> bool:
    """Whether the value of this setting, option, property or variable of the environment is secret."""
    plain = name.replace("_", ".").replace("-", ".")
    return _WORDS.search(plain) is not None and _NO_VALUES.search(plain) is None


def shown(name: str, value: str) -> str:
    """The value of `name` as it may be shown: MASK if it is secret; without what is secret inside it, such as a password in a URL."""
    if is_secret(name):
        return MASK
    without_user = _USER_IN_URL.sub(f"{MASK}@", value)
    return hidden(_INSIDE.sub(_inside, without_user))


def masked(values: Mapping[str, str]) -> dict[str, str]:
    """All of these, each as it may be shown."""
    return {name: shown(name, value) for name, value in values.items()}


def _inside(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}={MASK}" if is_secret(found[2]) else found[0]


class _Known:
    """The values that are secret in this process, and one pattern that finds each in every notation."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def add(self, value: str) -> None:
        with self._lock:
            if value in self._values:
                return
            self._values |= {value}
            texts = {text for known in self._values for text in _notations(known)}
            self._pattern = re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))

    def __contains__(self, value: str) -> bool:
        return value in self._values

    def replace(self, text: str) -> str:
        pattern = self._pattern
        return text if pattern is None else pattern.sub(MASK, text)


def _notations(value: str) -> set[str]:
    """How the value may stand in a text: as it is, as JSON, as Python shows it, in a URL, in HTML, and each line of
    several."""
    texts = {value}
    if not _CHARACTERS_ONLY.fullmatch(value):
        texts |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
        texts |= {
            line for line in value.splitlines() if len(line) >= HIDDEN_CHARACTERS_MIN and not line.startswith("-----")
        }
    return {*texts, quote(value, safe=""), escape(value)}


_known = _Known()


def remember(value: str) -> None:
    """From now on `hidden` replaces this value. One that is too short to be told from other text is left alone."""
    if len(value) >= HIDDEN_CHARACTERS_MIN:
        _known.add(value)


def remember_all(values: Mapping[str, str]) -> None:
    """Remembers those of these values whose names are secret."""
    for name, value in values.items():
        if is_secret(name):
            remember(value)


def is_known(value: str) -> bool:
    """Whether it was remembered."""
    return value in _known


def hidden(text: str) -> str:
    """The text with MASK in the place of every secret that this process knows."""
    return _known.replace(text)
