"""Trigonometric and hyperbolic functions, their inverses, and what else Java's StrictMath has (see `fdlibm.py`).

Functions that Spark composes of others are composed here in the same way, because each operation rounds.
"""

from __future__ import annotations

import numpy as np

from base.arrays import Float64s
from engine.expressions.functions import fdlibm_arcs as arcs
from engine.expressions.functions import fdlibm_hyperbolic as hyperbolic
from engine.expressions.functions import sines
from engine.expressions.functions.floats import binary, unary

_DEGREES_IN_A_RADIAN = 57.29577951308232  # the constants of Java's toDegrees and toRadians
_RADIANS_IN_A_DEGREE = 0.017453292519943295


def _area_tangent(x: Float64s) -> Float64s:
    return 0.5 * (hyperbolic.logarithm_of_one_plus(x) - hyperbolic.logarithm_of_one_plus(-x))


FUNCTIONS = (
    unary("spark_sin", sines.sine),
    unary("spark_cos", sines.cosine),
    unary("spark_tan", sines.tangent),
    unary("spark_cot", lambda x: 1.0 / sines.tangent(x)),
    unary("spark_sec", lambda x: 1.0 / sines.cosine(x)),
    unary("spark_csc", lambda x: 1.0 / sines.sine(x)),
    unary("spark_asin", arcs.arc_sine),
    unary("spark_acos", arcs.arc_cosine),
    unary("spark_atan", arcs.arc_tangent),
    binary("spark_atan2", lambda y, x: arcs.arc_tangent2(y + 0.0, x + 0.0)),  # Spark has no -0.0 here
    unary("spark_sinh", hyperbolic.hyperbolic_sine),
    unary("spark_cosh", hyperbolic.hyperbolic_cosine),
    unary("spark_tanh", hyperbolic.hyperbolic_tangent),
    unary("spark_asinh", hyperbolic.area_sine),
    unary("spark_acosh", hyperbolic.area_cosine),
    unary("spark_atanh", _area_tangent),
    unary("spark_degrees", lambda x: x * _DEGREES_IN_A_RADIAN),
    unary("spark_radians", lambda x: x * _RADIANS_IN_A_DEGREE),
    unary("spark_expm1", hyperbolic.exponential_minus_one),
    unary("spark_log1p", hyperbolic.logarithm_of_one_plus),
    unary("spark_cbrt", hyperbolic.cube_root),
    unary("spark_rint", np.rint),
    binary("spark_hypot", hyperbolic.hypotenuse),
)
