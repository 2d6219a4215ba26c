"""The rooms of the project, for every test that has to know them all. `test_rooms.py` compares the list with the walls."""

from __future__ import annotations

ROOMS = ("faults", "storage", "base", "protocols", "io_kafka", "engine", "coordinator", "stepwell")
"""From the ground up."""
