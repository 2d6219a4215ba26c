"""Workers that live as long as a run: each is a Spark task, and the coordinator drives it over a connection."""
