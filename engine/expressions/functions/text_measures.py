"""Functions that compare, check, mask or take apart texts: levenshtein, soundex, find_in_set, mask, luhn_check, str_to_map, format_number."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal

import pyarrow as pa

from engine.expressions.functions import patterns
from engine.expressions.functions.function import Failure, Function, row_function, value_text
from engine.expressions.functions.generic_function import GenericFunction
from engine.expressions.generic import Signature


def _levenshtein(left: str, right: str) -> int:
    """The least number of insertions, deletions and replacements, row by row of the table of prefixes (Wagner and Fischer)."""
    if len(left) < len(right):
        left, right = right, left
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def _levenshtein_within(left: str, right: str, most: int) -> int:
    """The distance, or -1 if it is more than `most`. Only prefixes whose lengths differ by at most `most` are computed (Ukkonen's band)."""
    if len(left) < len(right):
        left, right = right, left
    if len(left) - len(right) > most:
        return -1
    far = most + 1
    row = [min(j, far) for j in range(len(right) + 1)]
    for i, a in enumerate(left, 1):
        first, last = max(1, i - most), min(len(right), i + most)
        diagonal, row[first - 1] = row[first - 1], i if first == 1 else far
        for j in range(first, last + 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != right[j - 1]))
        if min(row[first - 1 : last + 1]) > most:
            return -1
    return row[-1] if row[-1] <= most else -1


# The code of each letter; 0 is a vowel, and 7 (H and W) does not separate two letters of one code.
_SOUNDEX = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
SOUNDEX_LENGTH = 4


def _soundex(text: str) -> str:
    """The American Soundex of an English word. A text that does not begin with a letter stays as it is."""
    first = text[:1].upper()
    if first not in _SOUNDEX or not text[:1].isascii():
        return text
    code, last = first, _SOUNDEX[first]
    for character in text[1:]:
        digit = _SOUNDEX.get(character.upper() if character.isascii() else "", "")
        if digit == "7":
            continue
        if digit not in ("", "0", last):
            code += digit
            if len(code) == SOUNDEX_LENGTH:
                break
        last = digit or "0"
    return code.ljust(SOUNDEX_LENGTH, "0")


def _find_in_set(word: str, words: str) -> int:
    """The place of a word in a list with commas, from 1; 0 if it is not there or has a comma."""
    if "," in word:
        return 0
    listed = words.split(",")
    return listed.index(word) + 1 if word in listed else 0


def _mask(text: str, upper: str | None, lower: str | None, digit: str | None, other: str | None) -> str:
    """Each character by its kind; a kind whose replacement is null stays as it is."""
    kinds = {"Lu": upper, "Ll": lower, "Nd": digit}
    return "".join(c if (by := kinds.get(unicodedata.category(c), other)) is None else by for c in text)


def _mask_all(
    texts: pa.ChunkedArray,
    upper: pa.ChunkedArray,
    lower: pa.ChunkedArray,
    digit: pa.ChunkedArray,
    other: pa.ChunkedArray,
) -> pa.Array:
    rows = zip(*(column.to_pylist() for column in (texts, upper, lower, digit, other)), strict=True)
    masked = [None if text is None else _mask(text, *by) for text, *by in rows]
    return pa.array(masked, pa.string())


def _luhn(text: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B). Digits of any script count, as for Java if they are one
    unit of UTF-16."""
    if not text or not all(c.isdecimal() and c <= "\uffff" for c in text):
        return False
    digits = [int(c) for c in reversed(text)]
    return sum(digits[0::2] + [sum(divmod(2 * d, 10)) for d in digits[1::2]]) % 10 == 0


PLACES_MAX = 10_000  # of a decimal, so that no number of digits fills the memory
_EXACT = Context(prec=PLACES_MAX + 1200)
FRACTION_DIGITS_MAX = 340  # that DecimalFormat writes of a double


def group_digits(number: Decimal, places: int) -> str:
    """A number with commas and so many digits after the point, rounded half even, as Java's DecimalFormat writes it."""
    return f"{number.quantize(Decimal((0, (1,), -places)), rounding=ROUND_HALF_EVEN, context=_EXACT):,f}"


def _format_decimal(text: str, places: int) -> str | None:
    if places > PLACES_MAX:
        raise Failure(
            "INVALID_PARAMETER_VALUE", f"format_number: {places} digits after the point; {PLACES_MAX} are the most."
        )
    return None if places < 0 else group_digits(Decimal(text), places)


def _format_double(number: float, places: int) -> str | None:
    if places < 0:
        return None
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    shortest = Decimal(repr(number))
    digits_after = -int(shortest.as_tuple().exponent)
    # The double itself is rounded, but what is written are its shortest digits.
    places = min(places, FRACTION_DIGITS_MAX)
    return group_digits(shortest if digits_after <= places else Decimal(number), places)


def _str_to_map(signature: Signature, texts: pa.Array, between: pa.Array, within: pa.Array) -> pa.Array:
    maps = [
        None if None in row else _entries(*row)
        for row in zip(texts.to_pylist(), between.to_pylist(), within.to_pylist(), strict=True)
    ]
    return pa.array(maps, signature.result)


def _entries(text: str, between: str, within: str) -> list[tuple[str, str | None]]:
    pairs: dict[str, str | None] = {}
    for entry in patterns.split(text, between, -1):
        key, *rest = patterns.split(entry, within, 2)
        if key in pairs:
            raise Failure("DUPLICATED_MAP_KEY", f"str_to_map: the key {value_text(key)} occurs twice.")
        pairs[key] = rest[0] if rest else None
    return list(pairs.items())


FUNCTIONS = (
    row_function("spark_levenshtein", "VARCHAR VARCHAR", "INTEGER", _levenshtein),
    row_function("spark_levenshtein_within", "VARCHAR VARCHAR INTEGER", "INTEGER", _levenshtein_within),
    row_function("spark_soundex", "VARCHAR", "VARCHAR", _soundex),
    row_function("spark_find_in_set", "VARCHAR VARCHAR", "INTEGER", _find_in_set),
    Function("spark_mask", ("VARCHAR",) * 5, "VARCHAR", _mask_all),
    row_function("spark_luhn", "VARCHAR", "BOOLEAN", _luhn),
    row_function("spark_format_double", "DOUBLE INTEGER", "VARCHAR", _format_double),
    row_function("spark_format_decimal", "VARCHAR INTEGER", "VARCHAR", _format_decimal),
)

GENERIC: Mapping[str, GenericFunction] = {"str_to_map": _str_to_map}
