"""The URIs of checkpoint stores: which pass, and that none with credentials passes or is shown."""

from __future__ import annotations

import pytest

from storage.remote.errors import BadStoreUri
from storage.remote.uri import parse_store_uri, without_credentials


@pytest.mark.parametrize(
    ("text", "authority", "path"),
    [
        ("file:///a/b/", "", "/a/b"),
        ("file:///a%20b", "", "/a b"),
        ("file:///a b%23%C3%BC", "", "/a b#ü"),
        ("s3://bucket", "bucket", ""),
        ("s3://my.bucket/a/b/", "my.bucket", "a/b"),
        ("gs://bucket/a", "bucket", "a"),
        ("abfs://box@account.dfs.core.windows.net/a", "box@account.dfs.core.windows.net", "a"),
        ("abfss://box@account.dfs.core.windows.net/", "box@account.dfs.core.windows.net", ""),
        ("hdfs://node:8020/a/b", "node:8020", "/a/b"),
        ("hdfs://me@node:8020/a", "me@node:8020", "/a"),
        ("hdfs:///a", "", "/a"),
    ],
)
def test_what_passes(text: str, authority: str, path: str) -> None:
    parsed = parse_store_uri(text)
    assert (parsed.authority, parsed.path, parsed.text) == (authority, path, text.rstrip("/"))
    assert parsed.scheme == text.partition(":")[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "its scheme is none of file, s3"),
        ("/a/b", "Write file:///a/b"),
        ("a/b", "its scheme is none of"),
        ("http://host/a", "its scheme is none of"),
        ("file://a/b", "Write three slashes: file:///a/b"),
        ("file://localhost/a/b", "Write three slashes: file:///a/b"),
        ("file:a/b", "its path is not absolute"),
        ("file:///a#1", "write %3F for `?` and %23 for `#`"),
        ("file:///a%00b", "its path has control characters"),
        ("file:///a%0Ab", "its path has control characters"),
        ("file:///a%FFb", "its path is not UTF-8"),
        ("file:///a\tb", "it has control characters"),
        (" file:///a", "blanks around it"),
        ("file:///a ", "blanks around it"),
        ("file:///", "is the root of the file system"),
        ("file:///a/../b", "parts that lead elsewhere"),
        ("s3:///a", "it names no bucket"),
        ("s3://bucket//a", "empty parts"),
        ("s3://bucket/a?endpoint_override=x", "AWS_ENDPOINT_URL"),
        ("s3://bucket/a#b", "options or a fragment"),
        ("abfs://account/a", "an account is missing"),
        ("hdfs://node:8020", "its path is not absolute"),
    ],
)
def test_what_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadStoreUri) as caught:
        parse_store_uri(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKID:hush@bucket/a",
        "s3://AKID:hu/hush@bucket/a",
        "s3://hush@bucket/a",
        "s3://bucket/a?access_key=AKID&secret_key=hush",
        "s3://bucket/a?sig=hush",
        "abfs://box:hush@account/a",
        "abfs://box:hu/hush@account/a",
        "hdfs://me:hush@node:8020/a",
        "gs://hush@bucket/a",
        "file://me:hush@host/a",
    ],
)
def test_credentials_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(BadStoreUri) as caught:
        parse_store_uri(text)
    assert "hush" not in str(caught.value) + caught.value.root + without_credentials(text)
    assert "bucket" in str(caught.value) or "://" in str(caught.value)
