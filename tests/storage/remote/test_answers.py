"""What the texts of the clients mean, of stores that no test can run. And which client speaks to them."""

from __future__ import annotations

import errno

import pytest

from storage.remote.answers import REASON_CHARACTERS_MAX, fault_of
from storage.remote.errors import BadStoreUri, StoreDenied, StoreFault, StoreFull, StoreUnreachable
from storage.remote.filesystems import azure_options, place_of, s3_endpoint
from storage.remote.uri import parse_store_uri


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            "AWS Error SLOW_DOWN (HTTP status 503) during PutObject operation: Reduce your request rate",
            StoreUnreachable,
        ),
        ("AWS Error UNKNOWN (HTTP status 429) during GetObject operation: TooManyRequests", StoreUnreachable),
        (
            "AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 6, Could not resolve hostname",
            StoreUnreachable,
        ),
        ("AWS Error UNKNOWN (HTTP status 301) during PutObject operation: PermanentRedirect", BadStoreUri),
        ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: The specified bucket does not exist", BadStoreUri),
        ("AWS Error UNKNOWN (HTTP status 400) during PutObject operation: ExpiredToken", StoreDenied),
        ("AWS Error REQUEST_TIME_TOO_SKEWED during PutObject operation: the clocks differ", StoreDenied),
        ("AWS Error UNKNOWN (HTTP status 507) during PutObject operation: XMinioStorageFull", StoreFull),
        ("AWS Error UNKNOWN (HTTP status 403) during PutObject operation: QuotaExceeded", StoreFull),
        ("google::cloud::Status(PERMISSION_DENIED: no storage.objects.create)", StoreDenied),
        ("google::cloud::Status(UNAVAILABLE: Retry policy exhausted)", StoreUnreachable),
        ("google::cloud::Status(NOT_FOUND: The specified bucket does not exist.)", BadStoreUri),
        ("Azure Error: [AuthorizationPermissionMismatch] 403 This request is not authorized", StoreDenied),
        ("Azure Error: [ContainerNotFound] 404 The specified container does not exist", BadStoreUri),
        ("Azure Error: [ServerBusy] 503 The server is busy", StoreUnreachable),
        (
            "Azure4Core11Credentials23AuthenticationExceptionE: Failed to get token from DefaultAzureCredential",
            StoreDenied,
        ),
        ("Unable to load libjvm dlopen(/usr/lib/jvm/default-java/libjvm.so) failed", BadStoreUri),
        ("AccessControlException: Permission denied: user=me, access=WRITE", StoreDenied),
        ("DSQuotaExceededException: The DiskSpace quota of /a is exceeded", StoreFull),
        ("Unable to load libhdfs: libhdfs.so: cannot open shared object file", BadStoreUri),
        (OSError(errno.ENOSPC, "No space left on device"), StoreFull),
        (OSError(errno.EACCES, "Permission denied"), StoreDenied),
    ],
)
def test_what_an_error_means(error: str | OSError, kind: type[StoreFault]) -> None:
    fault = fault_of(OSError(error) if isinstance(error, str) else error, "s3://bucket/a", "write", "x/y")
    assert type(fault) is kind
    assert "s3://bucket/a" in str(fault) and fault.what_to_do
    assert kind is BadStoreUri or "write x/y" in str(fault)


def test_a_server_without_the_new_checksums_is_told_apart() -> None:
    text = "AWS Error UNKNOWN (HTTP status 400) during UploadPart operation: XAmzContentSHA256Mismatch"
    fault = fault_of(OSError(text), "s3://bucket/a", "write", "x")
    assert isinstance(fault, StoreDenied) and "AWS_REQUEST_CHECKSUM_CALCULATION=when_required" in fault.what_to_do


def test_a_page_of_text_is_cut() -> None:
    assert len(str(fault_of(OSError("x" * 10_000), "s3://bucket/a", "list", ""))) < REASON_CHARACTERS_MAX + 300


def test_how_the_clients_are_told_where() -> None:
    places = {
        text: place_of(parse_store_uri(text))
        for text in ("s3://b", "gs://b/a/", "hdfs://n:1/a", "abfs://c@acc.dfs.core.windows.net/a")
    }
    assert [*places.values()] == ["b", "b/a", "/a", "c/a"]
    assert s3_endpoint({"AWS_ENDPOINT_URL": "a"}) == "a"
    assert s3_endpoint({"AWS_ENDPOINT_URL": "a", "AWS_ENDPOINT_URL_S3": "b"}) == "b"
    assert s3_endpoint({}) is None
    azure = parse_store_uri("abfs://c@acc.dfs.core.chinacloudapi.cn/a")
    domain = {
        "blob_storage_authority": ".blob.core.chinacloudapi.cn",
        "dfs_storage_authority": ".dfs.core.chinacloudapi.cn",
    }
    assert azure_options(azure, {"AZURE_STORAGE_KEY": "k"}) == {"account_name": "acc", "account_key": "k", **domain}
    assert azure_options(parse_store_uri("abfs://c@acc/a"), {"AZURE_STORAGE_SAS_TOKEN": "t"}) == {
        "account_name": "acc",
        "sas_token": "t",
    }
