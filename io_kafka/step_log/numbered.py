"""Values by consecutive numbers, as a value: what is added makes another `Numbered`, which shares the memory.

A step log grows by one step at a time, and each record makes a new state of it. Copying a dict of all steps for each record would make
reading a log of n steps take n² time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Numbered(Mapping[int, T], Generic[T]):
    """The values of the numbers `first <= n < end`. `_shared[n - _base]` is that of n. Others may share the list and have added values
    behind the end of this one, so a value is added to the list only by the one at whose end the list ends."""

    __slots__ = ("_base", "_shared", "end", "first")

    def __init__(self, first: int = 0, values: Sequence[T] = ()) -> None:
        self.first, self.end = first, first + len(values)
        self._base, self._shared = first, list(values)

    def __getitem__(self, number: int) -> T:
        if not self.first <= number < self.end:
            raise KeyError(number)
        return self._shared[number - self._base]

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.end))

    def __len__(self) -> int:
        return self.end - self.first

    def __repr__(self) -> str:
        return repr(dict(self))

    def with_next(self, value: T) -> Numbered[T]:
        """Returns these values with this one at the end."""
        shares = self._base + len(self._shared) == self.end
        found = self._view(self.first, self.end) if shares else self.drop_below(self.first)
        found._shared.append(value)
        found.end += 1
        return found

    def with_value(self, number: int, value: T) -> Numbered[T]:
        """Returns these values with another one for a number that is there. It copies, so it is for what happens seldom."""
        values = [self[n] for n in self]
        values[number - self.first] = value
        return Numbered(self.first, values)

    def drop_from(self, number: int) -> Numbered[T]:
        """Returns these values without this number and those after it."""
        return self._view(self.first, max(self.first, min(number, self.end)))

    def drop_below(self, number: int) -> Numbered[T]:
        """Returns these values without those before this number, whose memory is free then."""
        first = min(max(number, self.first), self.end)
        return Numbered(first, self._shared[first - self._base : self.end - self._base])

    def _view(self, first: int, end: int) -> Numbered[T]:
        found: Numbered[T] = Numbered.__new__(Numbered)
        found.first, found.end, found._base, found._shared = first, end, self._base, self._shared
        return found
