"""Rows of an output -> records of CSV as Spark's `to_csv` writes them, or plain texts.

A NULL is `null_value`, and an empty text is `""`. A field of any type is in quotes if it has the separator, a quote or a line break in it, or is
the first one and begins with #; within quotes, a quote and a backslash stand behind a backslash. Moments have milliseconds, as in JSON. Unlike
by `to_csv`, a field is in quotes too whose end makes a separator with the beginning of the one behind it, as `a|` before `||`.
By default `to_csv` leaves out the blanks around a text. Here they stay, as with its options `ignoreLeadingWhiteSpace` = `false` and
`ignoreTrailingWhiteSpace` = `false`, because a reader must find what the view has.

Neither format can say everything, and a row that would be another one when it is read raises Unwritable.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from base.arrays import fill
from base.text.pattern_columns import pattern_of, pattern_texts
from base.text.patterns import Patterns
from io_kafka.formats.delimited import ESCAPE, QUOTE
from io_kafka.formats.encodings import Csv
from io_kafka.formats.render import texts
from io_kafka.formats.spec import Unwritable

_BREAKS = ("\n", "\r")
_COMMENT = "#"
"""Spark's writer has a text in quotes that a reader with its own default could take for a comment."""

_OF_PLAIN = frozenset("0123456789+-.:ETZ" + "NaN" + "Infinity" + "true" + "false")
"""The characters of numbers, dates, moments and booleans. With another one before all in the separator, these need no look at each field."""


def is_written_as_csv(kind: pa.DataType) -> bool:
    """Whether a column of this type is a field."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or kind in (pa.string(), pa.bool_(), pa.date32())
        or pa.types.is_timestamp(kind)
    )


def csv_values(
    columns: list[pa.Array], names: list[str], encoding: Csv, patterns: Patterns, deleted: pa.Array | None
) -> pa.Array:
    """One record for each row. `deleted`: the rows that are not written."""
    if len(columns) == 1 and not encoding.null_value:
        _check_no_null(columns[0], deleted, f"column {names[0]} is NULL in a row, of which CSV has no field then")
    fields = []
    for number, column in enumerate(columns, 1):
        behind = encoding.sep if number < len(columns) else ""
        fields.append(_field(column, behind, encoding, patterns, first=number == 1))
    return pc.binary_join_element_wise(*fields, encoding.sep) if len(fields) > 1 else fields[0]


def text_values(columns: list[pa.Array], names: list[str], key: tuple[str, ...], deleted: pa.Array | None) -> pa.Array:
    """The bytes of the one column that is not in the key. A NULL is a message without a value in mode append; in mode upsert that would
    delete the key."""
    (place,) = [number for number, name in enumerate(names) if name not in key]
    if deleted is not None:
        _check_no_null(
            columns[place],
            deleted,
            f"column {names[place]} is NULL in a row, and a message without a value would delete its key",
        )
    return columns[place].cast(pa.binary())


def _check_no_null(column: pa.Array, deleted: pa.Array | None, what: str) -> None:
    null = pc.is_null(column)
    if pc.any(null if deleted is None else pc.and_not(null, deleted)).as_py():
        raise Unwritable(what, "Leave such rows out of the view, or write a text for NULL (coalesce).")


def _field(column: pa.Array, behind: str, encoding: Csv, patterns: Patterns, first: bool) -> pa.Array:
    """`behind`: what stands behind the field, a separator or nothing."""
    pattern = pattern_of(column.type, patterns)
    if pattern is not None:
        column = pattern_texts(column, pattern)
    if not pa.types.is_string(column.type):
        column = pc.replace_substring(texts(column), QUOTE, "")
        if encoding.sep[0] not in _OF_PLAIN:
            return fill(column, encoding.null_value)
    return fill(_quote(column, behind, encoding.sep, first), encoding.null_value)


def _quote(column: pa.Array, behind: str, sep: str, first: bool) -> pa.Array:
    to_first = behind[:-1]  # a separator that ends within it began in the field
    odd = pc.match_substring(pc.binary_join_element_wise(column, to_first, "") if to_first else column, sep)
    odd = pc.or_(odd, pc.equal(column, ""))
    for part in (QUOTE, *_BREAKS):
        odd = pc.or_(odd, pc.match_substring(column, part))
    if first:
        odd = pc.or_(odd, pc.starts_with(column, _COMMENT))
    if not pc.any(odd).as_py():
        return column
    escaped = pc.replace_substring(pc.replace_substring(column, ESCAPE, ESCAPE * 2), QUOTE, ESCAPE + QUOTE)
    return pc.if_else(odd, pc.binary_join_element_wise(QUOTE, escaped, QUOTE, ""), column)
