from typing import Any

Declared = tuple[bytes, str, bool, tuple[int, int] | tuple["Declared", ...] | None]
"""(name, kind, whether a value is required, detail)."""

Column = tuple[int, int, Block, Block, Block, list["Column"]]
"""(values, nulls, validity bitmap, data, ends, columns within it). What a kind does not have is empty."""

class Block:
    """Bytes for `pyarrow.py_buffer`."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def read(
    data: Any, ends: Any, declined: Any, columns: tuple[Declared, ...], text_bytes: int
) -> tuple[Block, list[Column]]: ...
