"""A fault on one line of bounded length, for logs and for the status.

Guarantee: the advice is whole. What is left out is of the message: the middle of long words, such as keys of objects, and then its end, which is
mostly the text of a client.
"""

from __future__ import annotations

from base.fault import Fault

CHARACTERS_MAX = 500
"""Some lines of a terminal."""

MESSAGE_CHARACTERS_MIN = 160
"""What a message keeps beside a long advice: enough to see what failed, and where."""

WORD_CHARACTERS_MAX = 60


def short_text(error: BaseException, characters_max: int = CHARACTERS_MAX) -> str:
    """The text of an error, which is longer than `characters_max` only if its advice is."""
    text = str(error)
    advice = error.what_to_do if isinstance(error, Fault) and text.endswith(error.what_to_do) else ""
    message = text[: len(text) - len(advice)].rstrip()  # with its place, which some faults have apart
    room = max(characters_max - len(advice) - 1, MESSAGE_CHARACTERS_MIN)
    return f"{cut(message, room)} {advice}".strip()


def cut(text: str, characters_max: int) -> str:
    """The text, which ends behind a word and with dots if it is too long."""
    if len(text) <= characters_max:
        return text
    text = " ".join(map(_cut_word, text.split()))
    return text if len(text) <= characters_max else text[: characters_max - 3].rpartition(" ")[0] + "..."


def _cut_word(word: str) -> str:
    half = WORD_CHARACTERS_MAX // 2
    return word if len(word) <= WORD_CHARACTERS_MAX else f"{word[: half - 2]}...{word[1 - half :]}"
