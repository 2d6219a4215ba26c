"""Expressions over whole Arrow tables. DuckDB evaluates them with Spark's semantics."""

from base.pandas_later import leave_pandas_out

leave_pandas_out()  # before any module makes an array
