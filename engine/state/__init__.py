"""Traces: the state that operators keep between steps, in an ordered store of bytes."""
