"""A cluster on one machine, for trying things: Kafka brokers, and a Spark standalone master with its workers, as child processes."""
