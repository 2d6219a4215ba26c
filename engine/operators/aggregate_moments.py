"""Variances, covariances and what is made of them, from exact sums.

The sums are exact and the co-moments are rounded once, so a result has an error of a few units in the last place, whatever the rows and their
order. Spark updates a mean and a co-moment row by row (Welford, and Chan et al. for partitions), so its last digits depend on the order of the
rows, and comparisons allow a relative error. If the spread is small beside the mean, Spark's error grows; ours does not.

A group without values gives null. A sample of one value gives null where n - 1 divides. A value that is NaN or infinite makes the result NaN.
(Spark's covariance with an infinity is an infinity or NaN, depending on the order of the rows.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from base.arrays import Bools, Float64s, Int64s


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The count, the sums and the co-moments of every group. `count`: of the values, or of the pairs. `x`, `y`: the sums. `xx`, `xy`, `yy`:
    the co-moments, such as the sum of (x - mean of x) * (y - mean of y). All are NaN in groups with a value that is not finite. With one
    argument, y is x."""

    count: Int64s
    x: Float64s
    y: Float64s
    xx: Float64s
    xy: Float64s
    yy: Float64s


class MomentResult(NamedTuple):
    """The value is null where it is not `valid`."""

    values: Float64s
    valid: Bools


def _over(numerator: Callable[[Spread], Float64s], less: int) -> Callable[[Spread], MomentResult]:
    """The numerator divided by count - `less`."""

    def result(spread: Spread) -> MomentResult:
        valid = spread.count > less
        return MomentResult(numerator(spread) / np.where(valid, spread.count - less, 1), valid)

    return result


def _root(variance: Callable[[Spread], MomentResult]) -> Callable[[Spread], MomentResult]:
    def result(spread: Spread) -> MomentResult:
        values, valid = variance(spread)
        return MomentResult(np.sqrt(values), valid)

    return result


var_pop = _over(lambda spread: spread.xx, 0)
var_samp = _over(lambda spread: spread.xx, 1)
stddev_pop = _root(var_pop)
stddev_samp = _root(var_samp)
covar_pop = _over(lambda spread: spread.xy, 0)
covar_samp = _over(lambda spread: spread.xy, 1)


def regr_sxx(spread: Spread) -> MomentResult:
    return MomentResult(spread.xx, spread.count > 0)


def regr_sxy(spread: Spread) -> MomentResult:
    return MomentResult(spread.xy, spread.count > 0)


def corr(spread: Spread) -> MomentResult:
    """Null if there is one pair, or if all x or all y are equal."""
    return _quotient(spread.xy, np.sqrt(spread.xx) * np.sqrt(spread.yy), spread.count > 1)


def regr_slope(spread: Spread) -> MomentResult:
    return _quotient(spread.xy, spread.xx, spread.count > 0)


def regr_intercept(spread: Spread) -> MomentResult:
    slope, valid = regr_slope(spread)
    count = np.maximum(spread.count, 1)
    return MomentResult(spread.y / count - slope * (spread.x / count), valid)


def regr_r2(spread: Spread) -> MomentResult:
    """Null if all x are equal; otherwise 1 if all y are."""
    related, valid = corr(spread)
    flat = (spread.yy == 0) & (spread.xx != 0) & (spread.count > 0)
    return MomentResult(np.where(flat, 1.0, related * related), valid | flat)


def _quotient(numerator: Float64s, denominator: Float64s, valid: Bools) -> MomentResult:
    valid = valid & (denominator != 0)
    with np.errstate(invalid="ignore", over="ignore"):
        return MomentResult(numerator / np.where(valid, denominator, 1), valid)
