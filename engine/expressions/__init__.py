"""Expressions over whole Arrow tables. DuckDB evaluates them with Spark's semantics."""
