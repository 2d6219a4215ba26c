"""parse_url, with the grammar of java.net.URI (RFC 2396)."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

from engine.expressions.functions import patterns
from engine.expressions.functions.function import Failure, null_on_error, row_function, value_text

PORT_MAX = 2**31 - 1  # with a larger one the whole is no host and port for Java
URLS_KEPT_MAX = 256  # several parts of one URL are asked for in a row


class _Url(NamedTuple):
    protocol: str | None
    authority: str | None
    userinfo: str | None
    host: str | None
    path: str | None
    query: str | None
    ref: str | None


_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_FORBIDDEN = re.compile(
    r"[\x00-\x20\x7f-\xa0\"<>\\^`{|}\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|%(?![0-9A-Fa-f]{2})"
)
_SERVER = re.compile(r"(?:([^@]*)@)?(\[[0-9A-Za-z:.%_-]+\]|[A-Za-z0-9.-]+)(?::([0-9]{0,4000}))?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_IPV4 = re.compile(r"([0-9]{1,100})\.([0-9]{1,100})\.([0-9]{1,100})\.([0-9]{1,100})")


@lru_cache(URLS_KEPT_MAX)
def _parse(text: str) -> _Url:
    match = _PARTS.fullmatch(text)
    assert match is not None, "the pattern matches any text"
    protocol, authority, path, query, ref = match.groups()
    opaque = protocol is not None and authority is None and not path.startswith("/")
    server = _SERVER.fullmatch(authority or "")
    bracketed = "[" in (authority or "") or "]" in (authority or "")
    refused = (
        text.startswith(":"),
        protocol is not None and not _SCHEME.fullmatch(protocol),
        any(part is not None and _FORBIDDEN.search(part) for part in (path, query, ref)),
        not opaque and ("[" in path or "]" in path),
        opaque and not path and query is None,
        authority == "" and not path and query is None and ref is None,
        (server is None or not _is_ipv6(server[2])) if bracketed else _FORBIDDEN.search(authority or ""),
    )
    if any(refused):
        raise Failure("INVALID_URL", f"{value_text(text)} is no URL. Use try_parse_url to get NULL.")
    if opaque:
        return _Url(protocol, None, userinfo=None, host=None, path=None, query=None, ref=ref)  # as mailto:
    host = server[2] if server and _is_host(server[2]) and int(server[3] or 0) <= PORT_MAX else None
    return _Url(
        protocol,
        authority or None,
        userinfo=server[1] if server and host else None,
        host=host,
        path=path,
        query=query,
        ref=ref,
    )


def _is_ipv6(bracketed: str) -> bool:
    address, _, scope = bracketed.strip("[]").partition("%")
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return bool(scope) or "%" not in bracketed


def _is_host(name: str) -> bool:
    if name.startswith("["):
        return True
    if ipv4 := _IPV4.fullmatch(name):
        return all(int(part) <= 255 for part in ipv4.groups())
    labels = name.removesuffix(".").split(".")
    return all(map(_LABEL.fullmatch, labels)) and (len(labels) == 1 or labels[-1][0].isalpha())


_PARTS_ASKED = {name.upper(): name for name in _Url._fields}


def _part(text: str, part: str) -> str | None:
    url = _parse(text)
    if part == "FILE":
        return url.path if url.query is None else f"{url.path}?{url.query}"
    asked = _PARTS_ASKED.get(part)
    return None if asked is None else getattr(url, asked)


def _value(text: str, part: str, key: str) -> str | None:
    """The value of a key of the query."""
    if part != "QUERY" or (query := _parse(text).query) is None:
        return None
    match = patterns.translate(f"(&|^){key}=([^&]*)").search(query)  # the key is a pattern in Spark
    return match[2] if match else None


FUNCTIONS = (
    row_function("spark_parse_url", "VARCHAR VARCHAR", "VARCHAR", _part),
    row_function("spark_try_parse_url", "VARCHAR VARCHAR", "VARCHAR", null_on_error(_part)),
    row_function("spark_parse_url_value", "VARCHAR VARCHAR VARCHAR", "VARCHAR", _value),
    row_function("spark_try_parse_url_value", "VARCHAR VARCHAR VARCHAR", "VARCHAR", null_on_error(_value)),
)
