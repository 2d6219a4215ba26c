"""Metrics for Prometheus: a table of all of them (table.py), by subject; how they are shown and documented."""
