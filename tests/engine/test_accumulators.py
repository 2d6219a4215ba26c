"""Exact sums against Python's integers and fractions, in any order and batching, with retraction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.accumulators import doubles, integers, order
from engine.accumulators.canonical import canonical

Addition = tuple[float, int, int]  # value, weight, group
GROUPS = 3
WIDE = Context(prec=80)
BASE = 2.0**14  # it is exactly one digit: 14 + 1074 is a multiple of 32

any_double = st.floats(width=64, allow_nan=True, allow_infinity=True)
near_doubles = st.sampled_from(
    [1.0, 2.0**-53, 2.0**-52, 2.0**-54, 2.0**53, 2.0**105, 1e308, -1.0, 5e-324, 2.0**-1022, BASE, BASE / 2**64]
)
weights = st.one_of(st.integers(-3, 3), st.integers(-(2**40), 2**40))
additions = st.lists(
    st.tuples(st.one_of(any_double, near_doubles, near_doubles.map(lambda x: -x)), weights, st.integers(0, GROUPS - 1)),
    max_size=30,
)


def explode(rows: Sequence[Addition]) -> doubles.Digits:
    values, weight, group = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return doubles.explode(np.array(values, np.float64), np.array(weight, np.int64), np.array(group, np.int64))


def nearest(total: Fraction) -> float:
    """Round to nearest, ties to even, overflow to infinity."""
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def obvious_sum(rows: Sequence[Addition]) -> float:
    """The sum by the rules of IEEE 754, where the exact total is rounded once."""
    counts = {"nan": 0, "inf": 0, "-inf": 0}
    total = Fraction(0)
    for value, weight, _ in rows:
        if math.isfinite(value):
            total += Fraction(value) * weight
        else:
            counts[repr(value)] += weight
    if counts["nan"] or (counts["inf"] and counts["-inf"]):
        return math.nan
    if counts["inf"]:
        return math.inf
    return -math.inf if counts["-inf"] else nearest(total)


def bits(values: Sequence[float] | npt.NDArray[np.float64]) -> bytes:
    return np.array(values, np.float64).tobytes()


@settings(deadline=None)
@given(additions, st.randoms(use_true_random=False), st.integers(1, 5))
@example([(1.0, 1, 0), (2.0**-53, 1, 0)], None, 1)
@example([(1.0, 1, 0), (2.0**-53, 1, 0), (5e-324, 1, 0)], None, 1)
@example([(1.0, 1, 0), (2.0**-53, 1, 0), (-5e-324, 1, 0)], None, 1)
@example([(1.7976931348623157e308, 1, 0), (2.0**969, 1, 0)], None, 1)
@example([(1.7976931348623157e308, 1, 0), (2.0**970, 1, 0)], None, 1)
@example([(-0.0, 1, 0)], None, 1)
@example([(BASE, 1, 0), (-(2.0**-60), 1, 0)], None, 1)
@example([(BASE, 1, 0), (-1.5 * 2.0**-39, 1, 0), (-(2.0**-100), 1, 0)], None, 1)
@example([(BASE, 1, 0), (-1.5 * 2.0**-39, 1, 0), (2.0**-100, 1, 0)], None, 1)
@example([(-BASE, 1, 0), (-BASE / 3, -1, 0), (5e-324, 1, 0)], None, 1)
def test_sums_of_doubles_are_exact_whatever_the_order_and_the_batches(rows, random, batch) -> None:  # type: ignore[no-untyped-def]
    whole = explode(rows)
    expected = [obvious_sum([row for row in rows if row[2] == group]) for group in range(GROUPS)]
    assert bits(doubles.round_sums(whole, GROUPS)) == bits(expected)
    shuffled = list(rows)
    if random is not None:
        random.shuffle(shuffled)
    total = doubles.empty()
    for start in range(0, len(shuffled), batch):
        total = doubles.normalise(doubles.merge(total, explode(shuffled[start : start + batch])))
    for got, want in zip(total, whole, strict=True):
        assert got.tolist() == want.tolist(), "the normal form is unique"
    gone = doubles.normalise(doubles.merge(total, doubles.negate(whole)))
    assert len(gone.groups) == 0, "what was added can be retracted to nothing"


def test_normal_forms_stay_within_half_a_digit() -> None:
    sums = explode([(1.7976931348623157e308, 2**30, 0), (-5e-324, 2**30, 0)])
    assert np.abs(sums.digits).max() <= 2**31
    assert doubles.round_sums(sums, 1).tolist() == [math.inf]


def test_many_sums_of_many_doubles() -> None:
    random = np.random.default_rng(7)
    values = random.normal(size=20_000) * 10.0 ** random.integers(-20, 20, 20_000)
    groups = random.integers(0, 500, 20_000)
    got = doubles.round_sums(doubles.explode(values, np.ones(20_000, np.int64), groups), 500)
    assert bits(got) == bits([math.fsum(values[groups == group]) for group in range(500)])


def test_more_nans_retracted_than_added_is_reported() -> None:
    assert doubles.specials_below_zero(explode([(math.nan, -1, 2), (math.inf, 1, 1)])).tolist() == [2]


TYPES = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "duration": (pa.duration("us"), st.integers(-(2**63), 2**63 - 1)),
    "decimal18": (pa.decimal128(18, 3), st.integers(-(10**18) + 1, 10**18 - 1)),
    "decimal38": (pa.decimal128(38, 7), st.integers(-(10**38) + 1, 10**38 - 1)),
}


def array_of(numbers: Sequence[int], type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):
        return pa.array([WIDE.create_decimal(n).scaleb(-type_.scale, WIDE) for n in numbers], type_)
    return pa.array(numbers, pa.int64()).cast(type_)


@pytest.mark.parametrize("name", TYPES)
@settings(deadline=None)
@given(data=st.data())
def test_sums_of_integers_are_exact_whatever_the_order_and_the_batches(name: str, data: st.DataObject) -> None:
    type_, numbers = TYPES[name]
    weights = st.integers(-3, 3) | st.integers(-(2**28), 2**28)
    rows = data.draw(st.lists(st.tuples(numbers, weights, st.integers(0, GROUPS - 1)), max_size=10))
    batch = data.draw(st.integers(1, 20))
    expected = [sum(n * w for n, w, g in rows if g == group) for group in range(GROUPS)]
    width = integers.width_of(type_)
    total = np.zeros((width, GROUPS), np.int64)
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        values = array_of([n for n, _, _ in part], type_)
        limbs = integers.sum_limbs(
            values, np.array([w for _, w, _ in part], np.int64), np.array([g for _, _, g in part], np.int64), GROUPS
        )
        assert (limbs == integers.normalise(limbs)).all()
        total = integers.normalise(total + limbs)
    assert integers.totals(total) == expected
    assert (total == integers.limbs_of_totals(expected, width)).all(), "the normal form is unique"


def test_a_sum_past_the_limbs_is_an_error_not_a_wrong_number() -> None:
    with pytest.raises(OverflowError):
        integers.sum_limbs(pa.array([2**62]), np.array([2**40]), np.array([0]), 1)


@pytest.mark.parametrize("width", [2, 4])
def test_totals_that_fit_64_bits_are_recognised(width: int) -> None:
    numbers = [2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64 + 1, -(2**64) - 1, 0]
    if width == 4:
        numbers += [2**96 + 1, -(2**96) - 1, 2**128 + 1, -(2**128) - 1]
    fits = integers.fits_int64(integers.limbs_of_totals(numbers, width))
    assert fits.tolist() == [-(2**63) <= n < 2**63 for n in numbers]


@settings(deadline=None)
@given(st.lists(st.integers(-(2**90), 2**90), min_size=1, max_size=8))
@example([2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**53 + 1, -(2**53) - 1])
def test_totals_become_longs_and_doubles(numbers: list[int]) -> None:
    limbs = integers.limbs_of_totals(numbers, 2)
    fits = integers.fits_int64(limbs)
    assert fits.tolist() == [-(2**63) <= n < 2**63 for n in numbers]
    assert integers.int64_totals(limbs)[fits].tolist() == [n for n in numbers if -(2**63) <= n < 2**63]
    assert integers.double_totals(limbs).tolist() == [float(n) for n in numbers]


@pytest.mark.parametrize("width", [2, 4])
@settings(deadline=None)
@given(numbers=st.lists(st.integers(-(2**92), 2**92) | st.integers(-(10**11), 10**11), min_size=1, max_size=8))
@example(numbers=[10**28 - 1, 10**28, -(10**28) + 1, -(10**28), 0])
def test_totals_become_decimals_where_they_fit(width: int, numbers: list[int]) -> None:
    type_ = pa.decimal128(28, 2)
    valid = np.ones(len(numbers), np.bool_)
    result, fits = integers.decimal_totals(integers.limbs_of_totals(numbers, width), type_, valid)
    assert fits.tolist() == [abs(n) < 10**28 for n in numbers]
    expected = [Decimal(n).scaleb(-2) if abs(n) < 10**28 else None for n in numbers]
    assert result.to_pylist() == expected


def test_four_limbs_do_not_fit_by_wrapping() -> None:
    limbs = integers.limbs_of_totals([2**128 + 5, -(2**128) - 5, 10**38, 10**38 - 1], 4)
    _, fits = integers.decimal_totals(limbs, pa.decimal128(38, 0), np.ones(4, np.bool_))
    assert fits.tolist() == [False, False, False, True]


def half_up(number: Fraction) -> int:
    magnitude = int(abs(number) + Fraction(1, 2))
    return -magnitude if number < 0 else magnitude


@pytest.mark.parametrize("width", [2, 4])
@settings(deadline=None)
@given(
    pairs=st.lists(
        st.tuples(
            st.integers(-(2**80), 2**80) | st.integers(-(10**6), 10**6), st.integers(1, 2**40) | st.integers(1, 9)
        ),
        min_size=1,
        max_size=8,
    )
)
@example(pairs=[(1, 8), (-1, 8), (3, 20000), (2**63, 1), (-(2**63), 7)])
def test_averages_of_decimals_round_half_up(width: int, pairs: list[tuple[int, int]]) -> None:
    type_ = pa.decimal128(38, 6)
    limbs = integers.limbs_of_totals([total for total, _ in pairs], width)
    counts = np.array([count for _, count in pairs], np.int64)
    result, _ = integers.decimal_averages(limbs, 2, counts, type_, np.ones(len(pairs), np.bool_))
    got = [int(value.scaleb(6)) for value in result.to_pylist()]
    assert got == [half_up(Fraction(total * 10**4, count)) for total, count in pairs]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**62)), min_size=1, max_size=8))
@example([(-(2**63), 1), (5, 2), (-5, 2), (2**63 - 1, 2)])
def test_averages_of_durations_round_half_up(pairs: list[tuple[int, int]]) -> None:
    limbs = integers.limbs_of_totals([total for total, _ in pairs], 2)
    got = integers.rounded_averages(limbs, np.array([count for _, count in pairs], np.int64))
    assert got.tolist() == [half_up(Fraction(total, count)) for total, count in pairs]


ORDERED = {
    pa.float64(): [-math.inf, -1e300, -1.5, -5e-324, 0.0, 5e-324, 2.0, math.inf, math.nan],
    pa.float32(): [-math.inf, -1.5, 0.0, 2.0, math.inf, math.nan],
    pa.bool_(): [False, True],
    pa.int8(): [-128, -1, 0, 127],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.date32(): [-719162, -1, 0, 2932896],
    pa.timestamp("us", "UTC"): [-(10**15), 0, 10**15],
    pa.timestamp("us"): [-(10**15), 0, 10**15],
    pa.duration("us"): [-(10**15), 0, 10**15],
    pa.decimal128(18, 2): [
        Decimal("-9999999999999999.99"),
        Decimal("-0.01"),
        Decimal(0),
        Decimal("9999999999999999.99"),
    ],
    pa.decimal128(38, 2): [Decimal(-(10**35)), Decimal(-(10**19)), Decimal("-0.01"), Decimal(0), Decimal(10**35)],
    pa.string(): ["", "A", "a", "aa", "b", "é", "😀"],
    pa.binary(): [b"", b"\x00", b"\x00\x00", b"\x7f", b"\xff"],
}


@pytest.mark.parametrize("type_", ORDERED, ids=str)
def test_codes_have_sparks_order_and_give_the_values_back(type_: pa.DataType) -> None:
    items = ORDERED[type_]
    values = pa.array(items).cast(type_) if _by_number(type_) else pa.array(items, type_, from_pandas=False)
    encoded = order.encode(values)
    assert encoded.type in (pa.int64(), pa.binary())
    assert encoded.to_pylist() == sorted(encoded.to_pylist()), type_
    assert len(set(encoded.to_pylist())) == len(values)
    with_null = pa.concat_arrays([encoded, pa.array([None], encoded.type)])
    back = order.decode(with_null, type_)
    assert back.type == type_
    assert repr(back.to_pylist()) == repr([*values.to_pylist(), None])


def _by_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(type_)) and not pa.types.is_date32(type_)


def test_canonical_reaches_into_structs_and_lists() -> None:
    odd_nan = np.array([0x7FF8000000000001], np.int64).view(np.float64)[0]
    column = pa.array([{"x": [-0.0, None, odd_nan]}, None, {"x": None}], pa.struct([("x", pa.list_(pa.float64()))]))
    got = canonical(column.slice(0))
    assert repr(got.to_pylist()) == "[{'x': [0.0, None, nan]}, None, {'x': None}]"
    flat = got.field("x").flatten().drop_null().to_numpy()
    assert flat.tobytes() == np.array([0.0, math.nan]).tobytes()
