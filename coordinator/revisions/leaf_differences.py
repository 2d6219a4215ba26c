"""What differs between the sources and outputs of two projects, in words for users."""

from __future__ import annotations

from collections.abc import Iterator

from base.text.differences import difference_text
from io_kafka.step_log.former_formats import LeavesRecord
from io_kafka.step_log.leaves import Leaves, SourceLeaf

LOADED_AGAIN = "it is loaded again"
"""The difference of a batch table whose load is another one."""


def differences(recorded: Leaves | LeavesRecord, now: Leaves) -> Iterator[str]:
    """What differs in the sources and outputs that are in both. The circuit says which are new and which are gone."""
    sources = {leaf.handle: leaf for leaf in recorded.sources}
    for source in now.sources:
        if source.handle in sources:
            yield from (f"source {source.handle}: {what}" for what in between(sources[source.handle], source))
    topics = {leaf.handle: leaf.topic for leaf in recorded.outputs}
    for output in now.outputs:
        before = topics.get(output.handle, output.topic)
        if before != output.topic:
            yield f"output {output.handle}: {difference_text('topic', before, output.topic)}"


def between(before: SourceLeaf, now: SourceLeaf) -> Iterator[str]:
    """What differs in a source that two projects have."""
    is_batch = "table" in (before.format, now.format)
    if before.format == now.format == "table" and before.topics != now.topics:
        yield LOADED_AGAIN
    values = (
        ("subscribe", "" if is_batch else ", ".join(before.topics), "" if is_batch else ", ".join(now.topics)),
        ("subscribePattern", before.pattern or "", now.pattern or ""),
        ("assign", _list(before.partitions), _list(now.partitions)),
        ("mode", before.mode, now.mode),
        ("key", ", ".join(before.key), ", ".join(now.key)),
        ("format", before.format, now.format),
    )
    yield from (difference_text(name, was, is_now) for name, was, is_now in values if was != is_now)
    names = sorted(before.encoding.keys() | now.encoding.keys())
    yield from (
        difference_text(name, before.encoding.get(name), now.encoding.get(name))
        for name in names
        if before.encoding.get(name) != now.encoding.get(name)
    )
    if before.counts_from != now.counts_from:
        yield "earlier messages do not count now" if now.counts_from is not None else "all messages count now"
    yield from _between_columns(before.columns, now.columns)


def _between_columns(before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    for name, text in before.items():
        if name not in now:
            yield f"column {name} was {text}, and is not declared now"
        elif now[name] != text:
            yield f"column {name} was {text}, and is {now[name]} now"
    yield from (
        f"column {name} was not declared, and is {text} now" for name, text in now.items() if name not in before
    )
    if before.keys() == now.keys() and list(before) != list(now):
        yield f"the order of the columns was {', '.join(before)}, and is {', '.join(now)} now"


def _list(parts: tuple[str, ...] | None) -> str:
    return ", ".join(parts or ())
