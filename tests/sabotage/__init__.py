"""Deliberate breakages of the code, and the proof that the suite notices each: `python -m tests.sabotage`, `make sabotage`."""
