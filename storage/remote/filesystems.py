"""Which client of pyarrow speaks to a store, with which patience. Credentials, endpoint and region come from the environment.

A store that is away is reported within about 20 s, so that the caller decides what waits, and for how long: three attempts, each of which may
connect for 3 s or be silent for 5 s, and up to 2 s between them. pyarrow's documentation says that `request_timeout` is ignored on Linux; in
fact a connection that carries less than a byte a second for so long is given up there too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyarrow import fs

from storage.remote.uri import StoreUri

CONNECT_TIMEOUT_S = 3.0
"""A connection within a cloud takes milliseconds, and one to another continent 300 ms."""
SILENCE_TIMEOUT_S = 5.0
"""S3 begins an answer within 100 ms mostly, and a busy store of disks within 1 to 2 s."""
ATTEMPTS_MAX = 3
"""The number of attempts for one request. So a rare error of the store is no fault, and a store that is away is reported soon."""
SMALL_BYTES_MAX = 5 << 20
"""Up to here an object is small. pyarrow sends less than one part of 10 MB in a single request."""
GCS_RETRY_S = 15.0
"""What the attempts of S3 take together."""

REGION_ANY = "us-east-1"
"""Servers other than Amazon's have no regions, and accept this one in signatures."""


@dataclass(frozen=True)
class Clients:
    """The clients of one store. `any` does everything but write large objects, which `large` does."""

    any: fs.FileSystem
    large: fs.FileSystem


def connect(uri: StoreUri) -> Clients:
    """The clients for the URI's scheme. Raises OSError or ArrowException if they cannot be made. For an S3 bucket of Amazon's without AWS_REGION
    it asks for the bucket's region; otherwise it makes no request."""
    match uri.scheme:
        case "s3":
            return _s3(uri, os.environ)
        case "gs":
            client = fs.GcsFileSystem(retry_time_limit=timedelta(seconds=GCS_RETRY_S))
        case "abfs" | "abfss":
            client = fs.AzureFileSystem(**azure_options(uri, os.environ))
        case _:
            user, _, address = uri.authority.rpartition("@")
            host, _, port = address.partition(":")
            client = fs.HadoopFileSystem(host or "default", int(port or 0), user=user or None)
    return Clients(client, client)


def place_of(uri: StoreUri) -> str:
    """The root as pyarrow's clients name it: bucket and prefix, or an absolute path."""
    if uri.scheme == "hdfs":
        return uri.path
    bucket = uri.authority.partition("@")[0]
    return f"{bucket}/{uri.path}".rstrip("/")


def s3_endpoint(environment: Mapping[str, str]) -> str | None:
    """The server's address; None for Amazon's own. pyarrow reads these variables only in URIs."""
    return environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or None


def _s3(uri: StoreUri, environment: Mapping[str, str]) -> Clients:
    """Two clients, which differ in how an upload begins. With `allow_delayed_open` a small object is a single request. But if a large one cannot
    be begun then, its stream tries it again when it is destroyed, and completes it with what it has."""
    endpoint = s3_endpoint(environment)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region:
        region = REGION_ANY if endpoint else fs.resolve_s3_region(uri.authority)
    small, large = (
        fs.S3FileSystem(
            endpoint_override=endpoint,
            region=region,
            tls_ca_file_path=environment.get("AWS_CA_BUNDLE") or None,
            connect_timeout=CONNECT_TIMEOUT_S,
            request_timeout=SILENCE_TIMEOUT_S,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX),
            allow_delayed_open=delayed,
            # Without it a stream whose part has failed completes the upload without that part when it is destroyed.
            background_writes=True,
        )
        for delayed in (True, False)
    )
    return Clients(small, large)


def azure_options(uri: StoreUri, environment: Mapping[str, str]) -> dict[str, Any]:
    """What AzureFileSystem is given. Without a key or a token it looks for a role, or for AZURE_CLIENT_ID and its like."""
    account, dot, domain = uri.authority.partition("@")[2].partition(".")
    options: dict[str, Any] = {"account_name": account}
    if dot:
        kind, _, rest = domain.partition(".")
        assert kind, uri.text
        options |= {"blob_storage_authority": f".blob.{rest}", "dfs_storage_authority": f".dfs.{rest}"}
    if key := environment.get("AZURE_STORAGE_KEY"):
        options["account_key"] = key
    elif token := environment.get("AZURE_STORAGE_SAS_TOKEN"):
        options["sas_token"] = token
    return options
