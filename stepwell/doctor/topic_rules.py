"""Whether the settings of an input or output topic keep the messages that must be kept. A function of what the broker reports, without I/O.

A topic loses messages in three ways. Those beyond `retention.ms` or `retention.bytes` expire, also if it is compacted and the policy is
`compact,delete`. Compaction removes messages of a key that has a later one, once they are older than `min.compaction.lag.ms`. And it removes a
tombstone, the last message of its key, `delete.retention.ms` after it has seen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.run.dead_letters import letter_bytes_max
from io_kafka.clients.topics import TopicFacts
from stepwell.doctor.check import Check, Level
from stepwell.project.tables import OutputSpec, SourceSpec

RETENTION_CHECKPOINTS_MIN = 10
"""After a crash the input since the last checkpoint is read again. Ten intervals leave time to notice that a service is down."""

TOMBSTONE_SECONDS_MIN = 24 * 3600.0
"""How long a tombstone should stay, which is Kafka's default. A night's stop is usual, and one of a weekend is not known in advance."""


@dataclass(frozen=True)
class _Finding:
    """What is wrong with a topic."""

    level: Level
    found: str
    what_to_do: str


def input_check(facts: TopicFacts, source: SourceSpec, checkpoint_interval_s: float) -> Check:
    found = [
        _short_retention(facts, checkpoint_interval_s),
        _lost_to_compaction(facts, source),
        _lost_to_a_rebuild(facts, source),
        _lost_by_size(facts),
        _lost_tombstones(facts, source, checkpoint_interval_s),
        _compacted_before_a_replay(facts, source, checkpoint_interval_s),
    ]
    return _check(f"input {facts.name}", f"{_partitions(facts)}, mode {source.mode}", found)


def output_check(facts: TopicFacts, output: OutputSpec) -> Check:
    found = [_not_as_its_mode(facts, output), _other_partitions(facts, output)]
    return _check(f"output {facts.name}", f"{_partitions(facts)}, mode {output.mode}", found)


def dead_letter_check(name: str, limits: Mapping[str, int], message_bytes: int) -> Check:
    """`limits`: what bounds the bytes of a letter, by name. `message_bytes`: the largest message of the topics whose letters it gets."""
    needed = letter_bytes_max(message_bytes)
    small = {limit: value for limit, value in limits.items() if value < needed}
    if not small:
        return Check(name, "OK", f"letters of up to {min(limits.values())} bytes")
    found = ", and ".join(f"{limit} is {value}" for limit, value in small.items())
    return Check(
        name,
        "WARN",
        f"{found}: the letter of a message of {message_bytes} bytes may have {needed}, and a letter that is not taken stops the run",
        f"Set {' and '.join(small)} to {needed} or more, or let the producers send smaller messages.",
    )


def _check(name: str, well: str, found: list[_Finding | None]) -> Check:
    """One check of all that was found. What makes a run fail or lose data hides what is less."""
    findings = [each for each in found if each is not None]
    level: Level = "FAIL" if any(each.level == "FAIL" for each in findings) else "WARN"
    shown = [each for each in findings if each.level == level]
    if not shown:
        return Check(name, "OK", well)
    return Check(name, level, "; ".join(each.found for each in shown), " ".join(each.what_to_do for each in shown))


# Inputs


def _read_again_ms(checkpoint_interval_s: float) -> float:
    """For how long a message has to stay in its topic at least, because it may have to be read again."""
    return 1e3 * RETENTION_CHECKPOINTS_MIN * checkpoint_interval_s


def _short_retention(facts: TopicFacts, checkpoint_interval_s: float) -> _Finding | None:
    retention_ms = facts.expiry.get("retention.ms")
    least_ms = _read_again_ms(checkpoint_interval_s)
    if retention_ms is None or retention_ms >= least_ms:
        return None
    return _Finding(
        "FAIL",
        f"retention.ms is {retention_ms}, shorter than {RETENTION_CHECKPOINTS_MIN} checkpoint intervals",
        f"Input that expires before a checkpoint holds it is lost: set retention.ms to {least_ms:.0f} or more, "
        "or shorten stepwell.checkpoint.interval.",
    )


def _lost_to_compaction(facts: TopicFacts, source: SourceSpec) -> _Finding | None:
    """Only in a keyed source does the last message of a key say everything."""
    if not facts.compacted or source.is_keyed:
        return None
    return _Finding(
        "FAIL",
        f"it is compacted, and {source.handle} reads it in mode {source.mode} without a key: messages of one key vanish before they are read",
        "Set cleanup.policy=delete on the topic; or, if the last message of a key is its row, give the table a 'key' and another mode.",
    )


def _lost_to_a_rebuild(facts: TopicFacts, source: SourceSpec) -> _Finding | None:
    """The row of a table that does not change is in an old message. A source that begins at the end of its topic does not count on them."""
    if source.mode == "append" or not facts.expiry or source.starting_offsets != "earliest":
        return None
    keeps = "retention.ms=-1 and retention.bytes=-1"
    return _Finding(
        "WARN",
        f"mode {source.mode}, and messages expire ({_limits(facts.expiry)}): rows that have not changed since are missing after a rebuild",
        f"Set cleanup.policy=compact on the topic, or {keeps}." if source.is_keyed else f"Set {keeps} on the topic.",
    )


def _lost_by_size(facts: TopicFacts) -> _Finding | None:
    """How long a partition takes to grow beyond its size depends on its producers, so no size is known to be enough."""
    if "retention.bytes" not in facts.expiry:
        return None
    return _Finding(
        "WARN",
        f"retention.bytes is {facts.expiry['retention.bytes']}: the oldest messages of a larger partition expire, however young they are",
        "Input that expires before a checkpoint holds it is lost: set retention.bytes=-1, or make it larger than what comes to a partition "
        "during the longest stop.",
    )


def _lost_tombstones(facts: TopicFacts, source: SourceSpec, checkpoint_interval_s: float) -> _Finding | None:
    """A row whose tombstone is gone before it was read stays, and no gap in the offsets shows it: compaction leaves gaps in any case."""
    stay_ms = facts.config.get("delete.retention.ms")
    least_ms = max(1e3 * TOMBSTONE_SECONDS_MIN, _read_again_ms(checkpoint_interval_s))
    if not facts.compacted or not source.is_keyed or stay_ms is None or int(stay_ms) >= least_ms:
        return None
    return _Finding(
        "WARN",
        f"delete.retention.ms is {stay_ms}: a key that is deleted while the pipeline stands still for longer may keep its row, without an error",
        f"Set delete.retention.ms to more than the longest stop, and to {least_ms:.0f} at least.",
    )


def _compacted_before_a_replay(facts: TopicFacts, source: SourceSpec, checkpoint_interval_s: float) -> _Finding | None:
    """A step that is replayed has to find all messages of its first run, also those whose keys have later ones."""
    lag_ms = facts.config.get("min.compaction.lag.ms")
    least_ms = _read_again_ms(checkpoint_interval_s)
    if not facts.compacted or not source.is_keyed or lag_ms is None or int(lag_ms) >= least_ms:
        return None
    return _Finding(
        "WARN",
        f"min.compaction.lag.ms is {lag_ms}: after a crash the messages since the last checkpoint are read again, and a run "
        "that does not find all of them stops for good",
        f"Set min.compaction.lag.ms to more than the longest stop after a crash, and to {least_ms:.0f} at least.",
    )


# Outputs


def _not_as_its_mode(facts: TopicFacts, output: OutputSpec) -> _Finding | None:
    if output.mode != "upsert":
        if not facts.compacted:
            return None
        what_to_do = "Set cleanup.policy=delete on the topic: rows of one key would vanish."
        return _Finding("FAIL", f"mode {output.mode}, compacted", what_to_do)
    if not facts.compacted:
        what_to_do = (
            "Set cleanup.policy=compact on the topic; without it, rows that do not change expire, or nothing ever does."
        )
        return _Finding("WARN", "mode upsert, not compacted", what_to_do)
    if facts.expiry:
        return _Finding(
            "WARN",
            f"mode upsert, and messages expire ({_limits(facts.expiry)}): rows that do not change vanish from the topic",
            "Set cleanup.policy=compact on the topic, without delete.",
        )
    return None


def _other_partitions(facts: TopicFacts, output: OutputSpec) -> _Finding | None:
    if output.partitions in (None, facts.partitions):
        return None
    what_to_do = "Nothing alters a topic that is there: correct 'partitions', or name another topic."
    return _Finding("WARN", f"{_partitions(facts)}, and 'partitions' = {output.partitions}", what_to_do)


def _limits(limits: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={limit}" for name, limit in limits.items())


def _partitions(facts: TopicFacts) -> str:
    insync = facts.config.get("min.insync.replicas")
    return f"{facts.partitions} partition{'s' * (facts.partitions != 1)}" + (
        f", min.insync.replicas {insync}" if insync else ""
    )
