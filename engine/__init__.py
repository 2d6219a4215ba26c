"""Z-sets, circuits, operators, traces, exchange, and the workers that run a step."""
