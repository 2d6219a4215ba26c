from typing import Any

Run = tuple[int, str | None, int, int, int, int, str | None, int, int]
"""(error code or 0, topic, partition, offset, first, end, text of the error)."""

def bind(*addresses: int) -> None: ...
def open_queue(consumer: Any) -> int: ...
def close_queue(queue: int) -> None: ...
def consume(
    consumer: Any, queue: int, most: int, timeout_ms: int, extras: int
) -> tuple[list[Run], bytes, bytes, bytes, bytes, bytes, tuple[bytes, ...]]: ...
def produce(
    producer: Any,
    topic: str,
    partition: int,
    first: int,
    key_ends: Any,
    keys_present: Any,
    keys: Any,
    value_ends: Any,
    values_present: Any,
    values: Any,
    header: str | None,
    header_value: bytes,
) -> tuple[int, int, str | None]: ...
