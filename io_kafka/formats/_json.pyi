from typing import Any

Declared = tuple[bytes, str, bool, tuple[int, int] | tuple["Declared", ...] | None]
"""(name, kind, whether a value is required, detail)."""

Column = tuple[int, bytes, bytes | None, bytes | None, list["Column"] | None]
"""(nulls, validity bitmap, data, ends of the texts, columns of an object)."""

def read(
    data: Any, ends: Any, declined: Any, columns: tuple[Declared, ...], text_bytes: int
) -> tuple[bytes, list[Column]]: ...
