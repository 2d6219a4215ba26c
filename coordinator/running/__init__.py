"""What the loop uses while it runs: a recovery, the requests that are in force, the topic of plan documents, and circuit.json."""
