"""Queries of test_against_spark.py that vary another one, which the suite keeps; `make soak` has them. None of them is named by a breakage.

A new query is in the suite unless it is added here.
"""

from __future__ import annotations

VARIANTS = frozenset({
    "python: by way of pickles", "python: of pandas", "python: nested, of all forms", "python: in a condition of a join",
    "python: as a key, and over an aggregate", "python: of constants", "python: beside a window",
    "python: of a group by names, over a function", "python: in a LEFT JOIN and an ORDER BY", "intervals of months: sums",
    "intervals of months: join", "intervals of months: window", "intervals of months: constants", "recursion: numbers",
    "recursion: paths of a graph", "recursion: distinct within a level", "recursion: in and not exists",
    "recursion: two queries of each level", "recursion: of a recursion", "recursion: that never begins", "recursion: as a value",
    "extremes by nested keys", "a constant key whose normal form is another number", "several count distinct",
    "two count distinct, by an expression", "cube over a union, with distincts", "group by a column called gid, over a rollup",
    "aggregate without calls", "drop duplicates of all columns, renamed", "drop duplicates, with a constant array as a key",
    "join on two keys", "sums over a join", "sums over a join, by columns of both", "sums over a join of nothing",
    "sums over a join on doubles", "sums over two joins", "sums of both sides of a join", "distinct over a join",
    "sums of an expression over a join", "right join with a condition", "left join with a condition on each side", "full join on doubles",
    "null-safe left join", "left join without a key", "left join on true", "left join with NOT IN's condition", "natural left join",
    "left self-join of an aggregate", "a full join of a full join", "sums of a left join", "left join of VALUES", "left join of structs",
    "rows without a match, by a condition", "rows without a match on the left", "two equalities of one column", "subquery as a value",
    "subquery that counts, in a condition", "subquery with HAVING", "subquery with another comparison", "left join of LATERAL",
    "subquery of one row, as a value", "left joins of aggregates of rows without a match", "a left join whose filter wants a match",
    "exists under or", "not in, without nulls", "not in, two columns", "a constant in", "correlated scalar subquery",
    "first rows of a total order, which is dropped", "in first rows", "not in first rows", "behind the first rows", "lag and lead",
    "sliding totals of doubles", "whole partitions, beside ranks", "the first rows of a partition, with ties",
    "rows of the first dense ranks", "windows over aggregates", "windows on windows", "a window joined with itself",
    "a limit in a lateral subquery", "value in a projection", "value of the first row", "value for no column",
    "values without rows of a table", "value in an argument and in a FILTER", "value within a value", "value in a key of a join",
    "value in an anti join", "values of doubles", "not exists, alone", "in, in a projection", "intersect all of doubles",
    "pivot, several calls", "pivot of strings", "pivot by doubles", "rollup, having by grouping", "explode, outer", "inline, outer",
    "lateral join of a generator", "counts of exploded", "explode of an aggregate", "sliding windows that leave gaps out",
    "sessions with gaps of their own", "explode of maps", "ranks of the first row", "groups by a hash",
})  # fmt: skip
