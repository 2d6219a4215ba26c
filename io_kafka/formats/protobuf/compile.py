"""The text of a Protobuf schema -> its descriptors, by Protobuf's own compiler.

The compiler runs as a process of its own, once for each schema in the life of a worker. A schema is what somebody else wrote, and whatever it
does to the compiler, the worker lives on. It sees the texts of the schema and of those that it imports, and Google's own types; no other file.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from io_kafka.formats.avro.schema import BadSchema
from io_kafka.formats.protobuf.known import TEXTS

COMPILER = "grpc_tools"
COMPILE_SECONDS_MAX = 20.0
"""It takes a fifth of a second on a quiet machine."""

REASON_CHARACTERS_MAX = 300
_NAME = "schema.proto"


def compile_schema(text: str, references: Sequence[tuple[str, str]]) -> tuple[DescriptorPool, str]:
    """(the pool with the schema and all that it imports, the schema's file in it). `references`: (name to import, text). Raises BadSchema."""
    with tempfile.TemporaryDirectory(prefix="stepwell-proto-") as folder:
        root = Path(folder)
        name = _NAME if all(other != _NAME for other, _ in references) else f"own/{_NAME}"
        for place, content in (*TEXTS.items(), *references, (name, text)):
            _write(root, place, content)
        result = root / "descriptors"
        options = [f"-I{root}", f"-I{_google()}", "--include_imports", f"--descriptor_set_out={result}", name]
        try:
            done = subprocess.run(
                [sys.executable, "-m", f"{COMPILER}.protoc", *options],
                capture_output=True,
                text=True,
                timeout=COMPILE_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            raise BadSchema(f"it is not compiled after {COMPILE_SECONDS_MAX:g} s") from None
        if done.returncode != 0:
            raise BadSchema(f"it does not compile: {done.stderr.strip()[-REASON_CHARACTERS_MAX:]}")
        files = FileDescriptorSet.FromString(result.read_bytes())
    pool = DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool, name


def _write(root: Path, place: str, content: str) -> None:
    path = PurePosixPath(place)
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise BadSchema(f"it imports {place}, which is no name of a file in a folder")
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def _google() -> Path:
    """The folder of Google's own types, which come with the compiler."""
    found = importlib.util.find_spec(COMPILER)
    assert found is not None and found.origin is not None, f"{COMPILER} is a dependency"
    return Path(found.origin).parent / "_proto"
