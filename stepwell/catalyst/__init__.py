"""Catalyst's trees as plain Python data: the only shape in which Spark's plans reach the lowering."""
