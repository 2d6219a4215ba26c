"""Functions over whole arrays. Access to parts of arrays and structs is in `nested.py`, and functions that take a function in `lambdas.py`."""

from __future__ import annotations

import pyarrow as pa

from base.text.months import is_months
from base.text.type_names import sql_type
from engine.expressions.functions.sequences import ELEMENTS_MAX
from engine.expressions.types import quote_name
from stepwell.catalyst.tree import TreeNode
from stepwell.catalyst.types import DURATION
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    cast,
    derive,
    failure,
    generic,
    literal_value,
    renamed_fields,
    strict,
    unsupported_expression,
)  # fmt: skip
from stepwell.lowering.expressions.lambdas import sorted_list

BOOL, LONG = pa.bool_(), pa.int64()
ZERO_START = failure("INVALID_PARAMETER_VALUE.START", "The start of slice is 0: the first element has index 1.")
NEGATIVE_LENGTH = failure("INVALID_PARAMETER_VALUE.LENGTH", "The length of slice is negative.")
ZERO_INDEX = failure("INVALID_INDEX_OF_ZERO", "The index 0 is invalid: the first element has index 1.")
TOO_LONG = failure("COLLECTION_SIZE_LIMIT_EXCEEDED", "The array would have too many elements.")
NO_WAY = failure("INVALID_SEQUENCE", "The step of sequence does not lead from its start to its end.")


def _present(*operands: Fragment) -> str:
    return " AND ".join(f"{operand.sql} IS NOT NULL" for operand in operands)


def _comparison_rule(function: str, result: pa.DataType | None = None) -> Rule:
    """The rule of a function that compares elements. It is null if an operand is."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        array = arguments[0]
        if pa.types.is_nested(array.type.value_type):
            raise unsupported_expression(
                node, f"elements of type {sql_type(array.type.value_type)}", "use arrays of plain values"
            )
        return generic(function, array.type if result is None else result, *arguments)

    return strict(rule)


def _slice(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    array, start, length = arguments
    at, size, count = (cast(sql, LONG) for sql in (start.sql, length.sql, f"len({array.sql})"))
    first = f"CASE WHEN {at} > 0 THEN {at} ELSE {count} + {at} + 1 END"
    taken = f"CASE WHEN {first} < 1 OR {first} > {count} THEN [] ELSE list_slice({array.sql}, {first}, {first} + {size} - 1) END"
    sql = (
        f"CASE WHEN NOT ({_present(*arguments)}) THEN NULL WHEN {at} = 0 THEN {ZERO_START} WHEN {size} < 0 THEN {NEGATIVE_LENGTH} "
        f"ELSE {taken} END"
    )
    return derive(cast(sql, array.type), array.type, *arguments, raises=True)


def _flatten(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    (arrays,) = arguments
    type_ = arrays.type.value_type
    nulls = f"len(list_filter({arrays.sql}, lambda x: x IS NULL)) > 0"
    return derive(cast(f"CASE WHEN {nulls} THEN NULL ELSE flatten({arrays.sql}) END", type_), type_, arrays)


def _sequence(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    type_ = pa.list_(pa.field("element", arguments[0].type))
    if not all(pa.types.is_integer(argument.type) for argument in arguments):
        return _sequence_of_times(node, type_, arguments)
    start, stop = (
        f"CAST({argument.sql} AS HUGEINT)" for argument in arguments[:2]
    )  # their difference may need 65 bits
    step = cast(arguments[2].sql, LONG) if len(arguments) > 2 else f"(CASE WHEN {start} <= {stop} THEN 1 ELSE -1 END)"
    wrong = (
        f"({step} = 0 AND {start} <> {stop}) OR ({step} > 0 AND {start} > {stop}) OR ({step} < 0 AND {start} < {stop})"
    )
    count = f"(CASE WHEN {start} = {stop} THEN 1 ELSE abs(({stop} - {start}) // {step}) + 1 END)"
    first = cast(arguments[0].sql, LONG)
    made = f"list_transform(range(CAST({count} AS BIGINT)), lambda x: {first} + x * {step})"
    sql = (
        f"CASE WHEN NOT ({_present(*arguments)}) THEN NULL WHEN {wrong} THEN {NO_WAY} WHEN {count} > {ELEMENTS_MAX} THEN {TOO_LONG} "
        f"ELSE {made} END"
    )
    return derive(cast(sql, type_), type_, *arguments, raises=True)


def _sequence_of_times(node: TreeNode, type_: pa.DataType, arguments: tuple[Fragment, ...]) -> Fragment:
    """A sequence of dates or timestamps, with a step that is an interval of days or of months. Without a step it is a day."""
    step = arguments[2].type if len(arguments) > 2 else DURATION
    if not (pa.types.is_temporal(arguments[0].type) and (step == DURATION or is_months(step))):
        raise unsupported_expression(
            node, f"a sequence of type {sql_type(arguments[0].type)}", "make a sequence of numbers, and add them"
        )
    return generic("sequence_of_times", type_, *arguments, raises=True)


def _repeat(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    element, count = arguments
    type_ = pa.list_(pa.field("element", element.type))
    made = f"list_transform(range(greatest({cast(count.sql, LONG)}, 0)), lambda x: {element.sql})"
    sql = f"CASE WHEN {count.sql} > {ELEMENTS_MAX} THEN {TOO_LONG} WHEN {count.sql} IS NOT NULL THEN {made} END"
    return derive(cast(sql, type_), type_, *arguments, raises=True)


def _sort(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """sort_array: nulls come first if it ascends, last if it descends."""
    ascending = bool(literal_value(node, arguments[1], "the order"))
    return sorted_list(node, arguments[0], ascending=ascending, nulls_last=not ascending)


def _zip(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    names = [str(name["value"]) if isinstance(name, TreeNode) else str(name) for name in node["names"]]
    struct = pa.struct([pa.field(name, a.type.value_type) for name, a in zip(names, arguments, strict=True)])
    type_ = pa.list_(pa.field("element", struct))
    if len({name.lower() for name in names}) < len(names):
        raise unsupported_expression(node, f"two fields of one name in {names}", "give each array a name of its own")
    members = ", ".join(f"{quote_name(name)} := struct_extract(x, {at + 1})" for at, name in enumerate(names))
    zipped = f"list_transform(list_zip({', '.join(a.sql for a in arguments)}), lambda x: struct_pack({members}))"
    return derive(cast(f"CASE WHEN {_present(*arguments)} THEN {zipped} END", type_), type_, *arguments)


def _insert(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    """array_insert: positions count from 1, or from the end. A position beyond an end is reached by nulls."""
    array, position, given = arguments
    item = renamed_fields(given, array.type.value_type) or given
    if node.get("legacyNegativeIndex"):
        raise unsupported_expression(node, "spark.sql.legacy.negativeIndexInArrayInsert", "leave the setting as it is")
    at, count = cast(position.sql, LONG), f"len({array.sql})"
    nothing = cast("NULL", array.type.value_type)

    def nulls(number: str) -> str:
        return f"list_transform(range({number}), lambda x: {nothing})"

    one = f"[{item.sql}]"
    end = f"({count} + {at} + 1)"  # the number of elements before the new one
    branches = (
        f"WHEN {at} > {count} THEN list_concat({array.sql}, {nulls(f'{at} - {count} - 1')}, {one}) "
        f"WHEN {at} > 0 THEN list_concat(list_slice({array.sql}, 1, {at} - 1), {one}, list_slice({array.sql}, {at}, {count})) "
        f"WHEN {end} >= 0 THEN list_concat(list_slice({array.sql}, 1, {end}), {one}, list_slice({array.sql}, {end} + 1, {count})) "
        f"ELSE list_concat({one}, {nulls(f'-({end})')}, {array.sql})"
    )
    long = f"abs({at}) > {ELEMENTS_MAX}"
    sql = f"CASE WHEN NOT ({_present(array, position)}) THEN NULL WHEN {at} = 0 THEN {ZERO_INDEX} WHEN {long} THEN {TOO_LONG} {branches} END"
    raises = not (position.literal and position.value)
    return derive(cast(sql, array.type), array.type, *arguments, raises=raises)


TABLE: dict[str, Rule] = {
    "ArrayDistinct": _comparison_rule("array_distinct"),
    "ArrayUnion": _comparison_rule("array_union"),
    "ArrayIntersect": _comparison_rule("array_intersect"),
    "ArrayExcept": _comparison_rule("array_except"),
    "ArrayRemove": _comparison_rule("array_remove"),
    "ArrayPosition": _comparison_rule("array_position", LONG),
    "ArraysOverlap": _comparison_rule("arrays_overlap", BOOL),
    "Slice": strict(_slice),
    "Flatten": _flatten,
    "Sequence": strict(_sequence),
    "ArrayRepeat": _repeat,
    "SortArray": _sort,
    "ArraysZip": strict(_zip),
    "ArrayInsert": _insert,
}
