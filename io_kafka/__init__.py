"""Everything that speaks Kafka: five folders, each of which says in its first line which rooms may import it. What is loose is open to all."""
