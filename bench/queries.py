"""What `stepwell query` takes: figures that were measured by hand, for BENCHMARKS.md."""

from __future__ import annotations

QUERIES = """## Queries

| `stepwell query` | seconds before | seconds now | processor seconds before | now |
|---|---|---|---|---|
| five rows in order, a service that has answered before | 23.6 | 3.2 | 8.4 | 1.0 |
| five rows grouped, a service that has answered before | 50.9 | 4.6 | not measured | 1.0 |
| five rows in order, without a service | 22.3 | 17.4 | 8.4 | 7.3 |
| five rows grouped, without a service (two pairs) | 36.5 | 20.7 | not measured | 7.8 |

Measured by hand on 2026-11-28, on two cores, with the project of `stepwell init` and 3,000 orders: medians of five commands, each before the
change and then after it. **The machine was far from quiet**: other processes had a load of 12 to 25 meanwhile. So compare the ratios, and read
the processor seconds. They are those of the command, its JVM and the process for queries together, while the machine was as busy. Of the 8.4 s
before, 1.9 s were Python's and 6.5 s the JVM's. Of the 1.0 s now, 0.5 s are the command's, and the rest is that of the process for queries.
"""
