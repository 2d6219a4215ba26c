"""`open_store` gives the checkpoint store that a URI names. It makes no request: a wrong bucket or a missing
right shows with the first operation."""

from __future__ import annotations

from storage.remote.buckets import BucketStore
from storage.remote.folder import FolderStore
from storage.remote.objects_protocol import ObjectStore
from storage.remote.uri import parse_store_uri


def open_store(uri: str) -> ObjectStore:
    """The objects below the URI's path. Raises BadStoreUri."""
    parsed = parse_store_uri(uri)
    return FolderStore(parsed) if parsed.scheme == "file" else BucketStore(parsed)
