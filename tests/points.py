"""Points at which tests break off, chosen by the first words of their names."""

from __future__ import annotations

from collections.abc import Iterable

from faults.points import Point


def points_of(points: Iterable[Point], *words: str) -> tuple[Point, ...]:
    """Those that begin with one of the words. Each word must begin one, so that a point that gets another name is not left out in silence."""
    points = tuple(points)
    for word in words:
        assert any(point.startswith(word) for point in points), f"no point begins with {word}"
    return tuple(point for point in points if point.startswith(words))


def check_generated(chosen: Iterable[object], generated: Iterable[object]) -> None:
    """Asserts that the cases which the suite chooses are among all cases."""
    missing = set(chosen) - set(generated)
    assert not missing, f"no case is {missing}"
