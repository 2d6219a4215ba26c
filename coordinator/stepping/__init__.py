"""The input and the output of steps."""
