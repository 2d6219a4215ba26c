"""Which of the topics that were recorded are gone, or have another one in their place: one comparison for whoever has records of topics.

A topic is identified by its id. A topic that has the recorded name and another id was created after the recorded one was deleted, and has other
messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from io_kafka.clients.topics import TopicFacts
from io_kafka.step_log.form import TopicIdentity


@dataclass(frozen=True)
class Recreated:
    """A topic that was deleted and created again. `before`, `now`: its ids."""

    name: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"topic {self.name} was deleted and created again (id {self.before} before, {self.now} now)"


@dataclass(frozen=True)
class LostTopics:
    """The topics that were deleted, or created again, since the records named them. `deleted`: the names of those of which there is none now.
    `recreated`: the others, by name. Both are in the order of the records."""

    deleted: tuple[str, ...]
    recreated: Mapping[str, Recreated]

    @property
    def names(self) -> frozenset[str]:
        """The names of all whose messages are gone."""
        return frozenset(self.deleted) | self.recreated.keys()


def lost_topics(recorded: Iterable[TopicIdentity], there: Mapping[str, TopicFacts]) -> LostTopics:
    """The recorded topics that are not what they were. `there`: the facts of those that exist now, by name."""
    deleted: list[str] = []
    recreated: dict[str, Recreated] = {}
    for before in recorded:
        now = there.get(before.topic)
        if now is None:
            deleted.append(before.topic)
        elif now.topic_id != before.id:
            recreated[before.topic] = Recreated(before.topic, before.id, now.topic_id)
    return LostTopics(tuple(deleted), recreated)
