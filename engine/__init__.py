"""Z-sets, circuits, operators, traces, exchange, and the step as a Spark job."""
