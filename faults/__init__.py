"""Deliberate faults: named points in the code at which a test lets the process die, stop or raise."""
