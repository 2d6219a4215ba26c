"""What all tests share: one Spark session and one broker a run."""
