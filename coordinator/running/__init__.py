"""Parts of the loop that are no decision of its core: what a recovery does, which requests are in force, and circuit.json."""
