"""Nodes with two inputs whose rows meet by equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.model.node import Column, Expression, NodeBase, Types, columns_exist


@dataclass(frozen=True)
class Join(NodeBase):
    """Inner equi-join. The output has the left columns, then the right columns. A null in a key column matches nothing, unless `null_safe` is
    set for that column. `residual` is a condition over the joined columns."""

    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left + right
        check_keys(self.left_key, self.right_key, self.null_safe, left, right)


@dataclass(frozen=True)
class SemiJoin(NodeBase):
    """The left rows that have a matching right row; with `anti`, those that have none. The output has the left columns. `residual` is a
    condition over the left columns, then the right columns.

    `null_aware`: NOT IN, with exactly one key column. A null on the right removes every row. A left row whose key is null stays only if the
    right is empty."""

    anti: bool
    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None
    null_aware: bool = False

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left
        assert not self.null_aware or len(self.left_key) == 1
        check_keys(self.left_key, self.right_key, self.null_safe, left, right)


@dataclass(frozen=True)
class OuterJoin(NodeBase):
    """Outer equi-join. The output has the left columns, then the right columns. It has the rows of the inner join, and each left row without
    a match, with NULLs in the right columns; with `full`, also each right row without a match. A match has an equal key, as in `Join`, and
    satisfies the `residual`, which is a condition over the joined columns.

    `single`: the right is a subquery that stands for a value. It is an error of the data if a left row has several matches."""

    full: bool
    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    residual: Expression | None = None
    single: bool = False

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left + right
        assert not (self.full and self.single)
        check_keys(self.left_key, self.right_key, self.null_safe, left, right)


@dataclass(frozen=True)
class JoinPartials(NodeBase):
    """Inner equi-join of partials, on the left, with rows. The output has the left columns, then the right columns. Of the left it stores one
    partial per group, however long the history is. `carries`: for each sum (the sums are the last columns of the left), whether it is a limb
    whose bits above 32 are carried to the next."""

    left_key: tuple[Column, ...]
    right_key: tuple[Column, ...]
    null_safe: tuple[bool, ...]
    carries: tuple[bool, ...]

    def check(self, inputs: Sequence[Types]) -> None:
        left, right = inputs
        assert self.types == left + right
        assert all(type_ == pa.int64() for type_ in left[len(left) - len(self.carries) :])
        check_keys(self.left_key, self.right_key, self.null_safe, left, right)


def check_keys(
    left_key: tuple[Column, ...], right_key: tuple[Column, ...], null_safe: tuple[bool, ...], left: Types, right: Types
) -> None:
    assert len(left_key) == len(right_key) == len(null_safe)
    assert columns_exist(left_key, left) and columns_exist(right_key, right)
