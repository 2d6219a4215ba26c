"""Hashes of values and of bytes."""

from __future__ import annotations

import pyarrow as pa

from base.arrays import leaf_types
from stepwell.catalyst.tree import TreeNode
from stepwell.lowering.expressions.fragment import (
    Fragment,
    Rule,
    call,
    calls,
    cast,
    generic,
    literal_value,
    unsupported_expression,
)

STRING, INT, BIGINT = pa.string(), pa.int32(), pa.int64()


def _chain_rule(function: str, type_: pa.DataType) -> Rule:
    """The rule of a hash of any number of values of any types."""

    def rule(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
        seed = int(node["seed"])
        # A null leaves the hash as it is.
        typed = [argument for argument in arguments if not pa.types.is_null(argument.type)]
        if any(pa.types.is_null(leaf) for argument in typed for leaf in leaf_types(argument.type)):
            raise unsupported_expression(node, "a NULL without a type inside a value", "cast it")
        return generic(function, type_, *typed, constants=seed) if typed else Fragment(cast(str(seed), type_), type_)

    return rule


def _sha2(node: TreeNode, arguments: tuple[Fragment, ...]) -> Fragment:
    bits = literal_value(node, arguments[1], "the number of bits")
    if bits not in (0, 224, 256, 384, 512):
        raise unsupported_expression(node, f"{bits} bits", "use 224, 256, 384 or 512 bits")
    return call("spark_sha2", STRING, arguments[0], str(bits or 256))


TABLE: dict[str, Rule] = {
    "Md5": calls("spark_md5", STRING),
    "Sha1": calls("spark_sha1", STRING),
    "Sha2": _sha2,
    "Crc32": calls("spark_crc32", BIGINT),
    "Murmur3Hash": _chain_rule("hash", INT),
    "XxHash64": _chain_rule("xxhash64", BIGINT),
}
