"""The loop, claims and epochs, recovery, layouts: decisions as state machines without I/O, and the thin shell that carries them out."""
