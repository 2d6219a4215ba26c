"""Creates the input topics and sends all flights, once: `python -m examples.flights.send SERVERS`. docker/compose.yaml runs it.

A topic that is there already is left alone, and so is its content: nothing is sent a second time.
"""

from __future__ import annotations

import sys
from itertools import chain

from examples.flights import data
from examples.flights.feed import Sender
from io_kafka.clients.settings import KafkaSettings
from io_kafka.clients.topics import Topics


def main(servers: str) -> None:
    topics = Topics(KafkaSettings.parse({"bootstrap.servers": servers}))
    for topic, partitions in data.TOPICS.items():
        topics.ensure(topic, partitions)
    there = sum(topics.end_offsets(data.TOPICS).values())
    if there:
        print(f"the topics hold {there:,} messages already")
        return
    tables = data.load()
    sender = Sender(servers)
    for message in chain(data.reference(tables), data.stream(tables)):
        sender.send(message)
    sender.flush()
    print(f"sent {sender.count:,} messages")


if __name__ == "__main__":
    main(sys.argv[1])
