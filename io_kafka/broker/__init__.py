"""A real Kafka broker as a child process. Open to stepwell."""
