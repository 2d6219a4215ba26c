"""Spark's session and the archive of its classes."""
