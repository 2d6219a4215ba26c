"""What is secret, and how it is kept out of everything that users and programs see.

Guarantee: this module alone decides it, in two ways. A setting, an option or a variable is secret by its name (`is_secret`), so its value is
never shown. A value that is known to be secret (`remember`) is replaced wherever a text has it (`hidden`), because the error of a library or of
a service on the network may quote what it was given.

    settings, Kafka's options, tokens --remember--> the values of this process --hidden--> log, status, errors, answers, support bundle
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from html import escape
from threading import Lock
from typing import Any
from urllib.parse import quote, unquote

MASK = "***"

HIDDEN_CHARACTERS_MIN = 8
"""A shorter value is not replaced inside texts, because it would be found in words that are no secret. By its name it is masked all the same."""

_WORDS = re.compile(
    r"passwor[dt]|passwd|passphrase|secret|token|credential|jaas|registry\.auth$|"
    r"(access|account|api|encryption|keystore|private|shared|signing)\.?key|access\.?signature|\.pem$|\.sas\b|"
    r"connection\.?string$|user\.?info$|pass$|(^|\.)pat$|\.pwd$",
    re.IGNORECASE,
)
"""In a name whose words are separated by dots."""

_NO_VALUES = re.compile(
    r"(location|file|path|url|uri|endpoint|enabled|provider|providers|type|algorithm)$", re.IGNORECASE
)
"""How a name ends that says where a secret is or what kind it has, and not what it is."""

_INSIDE = re.compile(r"([?&;,\s'\"\[({]|^|-D)([\w.\-]+)=([^&;,\s\"']+|\"[^\"]*\"|'[^']*')")
"""`name=value` in a URL's query, in the options of Java, or in a list of properties."""

_LISTED = re.compile(r"((?:^|;)\s*)([\w.\-]+(?: [\w.\-]+)*)(\s*=\s*)((?:\"[^\"]*\"|'[^']*')?[^;]*)")
"""`name=value;` in a list whose items end with `;`, such as a connection string. A value may have spaces, commas and quotes."""

_JSON_NAME = re.compile(r"(\\*[\"'])([\w.\-]+)\1\s*:\s*")
"""`"name":` in JSON, also in JSON that is a text within JSON, and as Python shows a dictionary."""

_JSON_VALUE = re.compile(r"(\\*[\"']).*?(?:(?<!\\)\1|\Z)|\[[^\]]*\]?|\{[^}]*\}?|[^,}\]\s]+", re.DOTALL)

_USER_IN_URL = re.compile(r"(?<=://)([^/\s]+|[^/\s:@]+:(?!\d+/)\S*)@")
"""Up to the last `@` before the host, because a password may have an `@`, or a `/`, that nobody has encoded. Digits before a `/` are a port."""

_SHORT_NAMES = ("pwd", "sig")
"""What has a password or a signature only as the name of an item within a value: PWD in the environment is a folder."""

_QUOTES = "\\\"'"

_USER_INFO = re.compile(r"user[._\-]?info$", re.IGNORECASE)
"""The name of USER:PASSWORD, of which an error may quote the second part alone."""

_CHARACTERS_ONLY = re.compile(r"[\w\-./+=:]+")
"""What looks the same in every notation."""


def is_secret(name: str) -> bool:
    """Whether the value of this setting, option, property or variable of the environment is secret."""
    plain = name.replace("_", ".").replace("-", ".").replace(" ", ".")
    return _WORDS.search(plain) is not None and _NO_VALUES.search(plain) is None


def mask_value(name: str, value: str) -> str:
    """The value of `name` as it may be shown: MASK if it is secret; without what is secret inside it, such as a password in a URL."""
    return MASK if is_secret(name) else hidden(_without_inner(value, lambda found: None))


def mask_values(values: Mapping[str, str]) -> dict[str, str]:
    """All of these, each as it may be shown."""
    return {name: mask_value(name, value) for name, value in values.items()}


def _without_inner(value: str, take: Callable[[str], None]) -> str:
    """The value with MASK in the place of each secret inside it. `take` gets each."""

    def mask(secret: str) -> str:
        if (bare := secret.strip().strip(_QUOTES)) != MASK:
            take(bare)
        return MASK

    def item(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{found[3]}{mask(found[4])}" if _is_secret_item(found[2]) else found[0]

    def java_property(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}={mask(found[3])}" if _is_secret_item(found[2]) else found[0]

    def user(found: re.Match[str]) -> str:
        name, colon, password = found[1].partition(":")
        for each in {password, unquote(password)} if colon else {name}:
            take(each)
        return f"{MASK}@"

    text = _LISTED.sub(item, value) if ";" in value else value
    return _USER_IN_URL.sub(user, _INSIDE.sub(java_property, _json_masked(text, mask)))


def _json_masked(text: str, mask: Callable[[str], str]) -> str:
    """Returns the text with each secret value, however deep, replaced by what `mask` makes of it."""
    parts, at = list[str](), 0
    for name in _JSON_NAME.finditer(text):
        value = _JSON_VALUE.match(text, name.end()) if name.start() >= at and _is_secret_item(name[2]) else None
        if value is not None:
            quotes = value[1] or ""
            parts += [text[at : name.end()], quotes, mask(value[0]), quotes]
            at = value.end()
    return "".join((*parts, text[at:]))


def _is_secret_item(name: str) -> bool:
    return is_secret(name) or name.lower() in _SHORT_NAMES


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


def remember_of(name: str, value: str) -> bool:
    """Remembers the value if its name is secret, and what is secret inside it. Returns whether there was any of both."""
    inner: list[str] = []
    _without_inner(value, inner.append)
    if is_secret(name):
        inner += [value, value.partition(":")[2]] if _USER_INFO.search(name) else [value]
    for each in inner:
        remember(each)
    return bool(inner)


def remember_all(values: Mapping[str, str]) -> None:
    """Remembers what is secret of these values, by their names and inside them."""
    for name, value in values.items():
        remember_of(name, value)


def is_known(value: str) -> bool:
    """Whether it was remembered."""
    return value in _known


def hidden(text: str) -> str:
    """The text with MASK in the place of every secret that this process knows."""
    return _known.replace(text)


def hidden_in(content: Any, exact: Collection[str] = (), name: str = "") -> Any:
    """Plain data with MASK in its texts. Keys stay, and so do the values of the fields `exact`, which programs compare: a password that
    happens to be the name of a pipeline must not make it another one. `name`: of the field that the content is of."""
    if isinstance(content, str):
        return content if name in exact else hidden(content)
    if isinstance(content, Mapping):
        return {key: hidden_in(value, exact, str(key)) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [hidden_in(each, exact, name) for each in content]
    return content
