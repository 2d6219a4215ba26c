"""Limits that several rooms share."""

from __future__ import annotations

WORKERS_MAX = 1024
"""The largest number of workers of a pipeline. It prevents a typing error from asking for a million task slots; local mode has task slots for so
many."""

SWITCH_ROWS_MAX = 1_000_000
"""The rows of all differences together that the step of a switch passes on. They are in memory at once, and are one transaction of Kafka."""

DRAIN_ROWS_MAX = 50_000
"""The rows of differences that one step passes on if they leave in several steps, and at most SWITCH_ROWS_MAX. They take the workers and the
writer about 2 us each, so a step is about 100 ms longer."""

DECIMAL_DIGITS_MAX = 38
"""The digits of Spark's widest DECIMAL, and of Arrow's decimal128."""

DECIMAL_BYTES = 16
"""The size of a decimal128."""

INT64_MAX = (1 << 63) - 1
