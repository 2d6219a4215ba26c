"""Kafka's clients: topics, the reader, the one transactional writer."""
