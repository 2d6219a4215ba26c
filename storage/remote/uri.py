"""The URI of a checkpoint store, as users write it. Nothing is opened here.

Guarantee: no URI with credentials in it passes, and no text that is made here shows them. A URI is in project files, in logs and in messages, so
credentials come from the environment or from a role.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from storage.remote.errors import BadStoreUri

BUCKET_SCHEMES = ("s3", "gs", "abfs", "abfss")
SCHEMES = ("file", *BUCKET_SCHEMES, "hdfs")

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_BUCKET = {scheme: re.compile(f"{_NAME}@{_NAME}" if scheme.startswith("abfs") else _NAME) for scheme in BUCKET_SCHEMES}
_USERS = ("abfs", "abfss", "hdfs")
"""What stands before the `@` is the container, or a user's name without a password."""

_NO_CREDENTIALS = (
    "Take them out. Credentials come from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what the other clouds use) or from "
    "a role of the machine."
)
_NO_OPTIONS = (
    "Take out what follows the `?`. Endpoint and region come from the environment (AWS_ENDPOINT_URL, AWS_REGION)."
)
_ENCODED = "If they are part of a name, write %3F for `?` and %23 for `#`."
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NO_CONTROL = "Take them out, and write a blank as %20."


@dataclass(frozen=True)
class StoreUri:
    """The URI of a checkpoint store, in parts. `authority`: the bucket; of abfs also the account (`container@account...`); of hdfs host and
    port, or empty; of file empty. `path`: below it, decoded, without slashes at either end; of file and hdfs absolute. `text`: without a
    slash at the end."""

    scheme: str
    authority: str
    path: str
    text: str


def parse_store_uri(text: str) -> StoreUri:
    """The parts of a URI. Raises BadStoreUri, which names the place without credentials."""
    shown = without_credentials(text)
    if _CONTROL.search(text) or text != text.strip():
        raise BadStoreUri(shown, "it has control characters, or blanks around it", _NO_CONTROL)
    try:
        split = urlsplit(text)
    except ValueError as error:
        raise BadStoreUri(shown, str(error)) from None
    if text.startswith("/"):
        raise BadStoreUri(
            shown, "it is a path without a scheme", f"Write file://{shown}, or one of {', '.join(SCHEMES)}."
        )
    if split.scheme not in SCHEMES:
        raise BadStoreUri(shown, f"its scheme is none of {', '.join(SCHEMES)}")
    user = split.netloc.rpartition("@")[0]
    if ":" in user or (user and split.scheme not in _USERS):
        raise BadStoreUri(shown, "it has a user or a password in it", _NO_CREDENTIALS)
    if split.query or split.fragment or text.endswith(("?", "#")):
        secret = any(word in split.query.lower() for word in ("key", "token", "secret", "sig", "password"))
        reason = "it has credentials in it" if secret else "it has options or a fragment"
        what_to_do = _ENCODED if split.scheme == "file" else _NO_OPTIONS
        raise BadStoreUri(shown, reason, _NO_CREDENTIALS if secret else what_to_do)
    return _to_uri(split, shown)


def _to_uri(split: SplitResult, text: str) -> StoreUri:
    try:
        path = unquote(split.path, errors="strict").rstrip("/")
    except UnicodeDecodeError:
        raise BadStoreUri(
            text, "its path is not UTF-8", "Write the bytes of each letter in UTF-8, as %C3%BC for ü."
        ) from None
    if _CONTROL.search(path):
        raise BadStoreUri(text, "its path has control characters", _NO_CONTROL)
    if any(part in (".", "..") for part in path.split("/")) or "//" in path:
        raise BadStoreUri(text, "its path has empty parts, or parts that lead elsewhere")
    if split.scheme in BUCKET_SCHEMES:
        if not _BUCKET[split.scheme].fullmatch(split.netloc):
            raise BadStoreUri(text, "it names no bucket, or an account is missing")
        return StoreUri(split.scheme, split.netloc, path.lstrip("/"), text.rstrip("/"))
    if split.scheme == "file" and split.netloc:
        where = split.path if split.netloc == "localhost" else f"/{split.netloc}{split.path}"
        raise BadStoreUri(text, "its path is not absolute", f"Write three slashes: file://{where}.")
    if not path.startswith("/"):
        raise BadStoreUri(text, "its path is not absolute, or is the root of the file system")
    return StoreUri(split.scheme, split.netloc, path, text.rstrip("/"))


def without_credentials(text: str) -> str:
    """The URI for a message: without a user, a password and what follows a `?`."""
    begin, mark, rest = text.partition("://")
    if not mark:
        return text.partition("?")[0]
    rest = rest.partition("?")[0]
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if at and (":" in user or begin not in _USERS):
        authority = host
    if "@" in path and ":" in authority and not authority.rpartition(":")[2].isdigit():
        # The password has a slash in it, which looks like the end of the authority.
        return f"{begin}://{path.rpartition('@')[2]}"
    return f"{begin}://{authority}{slash}{path}"
