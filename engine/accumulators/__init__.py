"""Accumulators: exact, linear, free of order. Pure functions over numpy and Arrow batches, no state.

An accumulator is a vector of int64 that is *added* (so a retraction is the addition of a negative weight, and the
order and the batching of the additions cannot matter) and is turned into a value once, at the end:

- `doubles`: exact sums of float64, rounded once;
- `integers`: exact sums of integers, decimals and durations, and their averages;
- `order`: values as int64 or binary in Spark's order, for min, max and distinct;
- `canonical`: one NaN, no -0.0.

Every stored sum is in a unique, carry-free form, and what a step stores is the difference of two such forms. So any
sum of stored differences is the difference of two such forms again: it cannot overflow, however many steps there are.
"""
