"""Values that share memory, beside dicts that do not."""

from __future__ import annotations

import random

import pytest

from io_kafka.step_log.numbered import Numbered


@pytest.mark.parametrize("seed", range(20))
def test_any_history_of_values_is_that_of_dicts(seed: int) -> None:
    """All that were ever made are compared at the end, so nothing that happens to one may show in another."""
    dice = random.Random(seed)
    found: list[tuple[Numbered[int], dict[int, int], int]] = [(Numbered(3), {}, 3)]
    for count in range(200):
        values, twin, end = dice.choice(found[-5:])
        number = dice.randint(values.first - 1, end + 1)
        match dice.choice(("next", "next", "next", "value", "below", "since")):
            case "next":
                found.append((values.with_next(count), {**twin, end: count}, end + 1))
            case "value" if number in twin:
                found.append((values.with_value(number, count), {**twin, number: count}, end))
            case "below":
                kept = {n: value for n, value in twin.items() if n < number}
                found.append((values.drop_from(number), kept, max(values.first, min(number, end))))
            case "since":
                found.append((values.drop_below(number), {n: value for n, value in twin.items() if n >= number}, end))
    for values, twin, end in found:
        assert values == twin and list(values) == sorted(twin) and values.end == end and len(values) == len(twin)


def test_what_is_not_there_is_missing() -> None:
    values = Numbered(3, "ab")
    assert values.get(2) is None and values.get(5) is None and 4 in values
    with pytest.raises(KeyError):
        values.drop_from(4)[4]


def test_a_log_that_grows_copies_nothing() -> None:
    values: Numbered[int] = Numbered()
    for number in range(1000):
        values = values.with_next(number)
    assert values._shared is values.with_next(0)._shared
