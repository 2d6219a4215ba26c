"""Spark's rules for values written as text: dates, timestamps, zones, decimals and Java's floating-point numbers.

Every rule is here once. A function that reads returns the value, or None for a text that Spark refuses; a function
that writes returns the text. `CAST` (engine/expressions/functions) adds Spark's names of the errors, and the JSON reader
(io_kafka/formats) adds what `from_json` reads in another way. `docs/sql.md` lists the differences between the two, and
`tests/base/text/test_corpus.py` proves that there are no others.

Guarantees: the functions are pure. They know no clock, no locale and none of the machine's files. The rules of time
zones come from the package `tzdata`, which is part of the installation.
"""
