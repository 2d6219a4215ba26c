from typing import Any

Column = tuple[int, bytes, bytes, bytes | None]
"""(nulls, validity bitmap, data, ends of the texts)."""

def read(
    data: Any, ends: Any, declined: Any, columns: tuple[tuple[bytes, str, bool], ...]
) -> tuple[bytes, list[Column]]: ...
