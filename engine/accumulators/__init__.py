"""Accumulators: exact, linear, and independent of order. They are pure functions over numpy and Arrow batches.

An accumulator is a vector of int64 that is *added*, so a retraction is the addition of a negative weight, and neither
the order nor the batching of the additions can change the result. It is turned into a value once, at the end:

- `doubles`: exact sums of float64, rounded once;
- `integers`: exact sums of integers, decimals and durations, and their averages;
- `order`: values as int64 or binary in Spark's order, for min, max and distinct;
- `canonical`: one form of NaN and of zero.

Each stored sum is in a unique form without carries (the *normal form*), and what a step stores is the difference of two
such forms. So any sum of stored differences is again the difference of two normal forms: it cannot overflow, however
many steps there are.
"""
