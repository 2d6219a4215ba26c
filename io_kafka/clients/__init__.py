"""Kafka's clients: topics, the reader, the one transactional writer. Open to engine, coordinator and stepwell."""
