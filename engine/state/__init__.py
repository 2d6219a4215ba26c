"""Traces: what operators keep between steps, over any ordered store of bytes."""
