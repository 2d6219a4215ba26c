"""Checkpoints, what they let the log forget, and what is read as of the last one."""
