"""The coordinator. It starts a run, divides the input into steps, runs them, takes checkpoints and recovers.

core.py decides without I/O; all other modules carry out what it decides."""
