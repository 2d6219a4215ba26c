"""Expressions over whole Arrow tables, evaluated by DuckDB with Spark's semantics."""
