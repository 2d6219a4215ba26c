"""Sets of integers as ranges. Each set has one form: its ranges ascend, and they neither overlap nor touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
"""The numbers from the first one up to, but without, the second."""

Ranges = tuple[Range, ...]


def union(ranges: Iterable[Range]) -> Ranges:
    """Returns the union of these ranges, which may be in any order. They may overlap, and empty ones are left out."""
    merged: list[Range] = []
    for first, end in sorted(each for each in ranges if each[0] < each[1]):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return tuple(merged)


def intersection(ours: Sequence[Range], theirs: Sequence[Range]) -> Ranges:
    """Both ascend, so one pass over them is enough."""
    found: list[Range] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        found.append((max(ours[i][0], theirs[j][0]), min(ours[i][1], theirs[j][1])))
        if ours[i][1] <= theirs[j][1]:
            i += 1
        else:
            j += 1
    return union(found)


def complement(ranges: Sequence[Range], end: int) -> Ranges:
    """What is missing of the numbers from 0 up to `end`."""
    starts = (0, *(high for _, high in ranges))
    ends = (*(low for low, _ in ranges), end)
    return union(zip(starts, ends, strict=True))
