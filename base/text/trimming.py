"""The characters that Spark and Java remove around a value before they read it."""

from __future__ import annotations

JAVA_BLANK = "".join(map(chr, range(0x21)))
"""What `java.lang.String.trim` removes."""

SPARK_BLANK = JAVA_BLANK + "\x7f"
"""What Spark's `UTF8String.trimAll` removes: Java's whitespace and ISO control characters that are one byte long."""
