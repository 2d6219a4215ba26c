"""What a store's answer means. pyarrow reports most of them as OSError with a text, so the text is read.

S3     When uploading part for key 'a' in bucket 'b': AWS Error SLOW_DOWN (HTTP status 503) during UploadPart operation: ...
GCS    google::cloud::Status(PERMISSION_DENIED: ...)
Azure  ... Status code: 403 ... ErrorCode: AuthorizationPermissionMismatch
HDFS   errno, and the name of Java's exception
"""

from __future__ import annotations

import errno
import re

from base.short_text import cut
from storage.remote.errors import BadStoreUri, StoreDenied, StoreFault, StoreFull, StoreUnreachable

REASON_CHARACTERS_MAX = 500
"""The largest number of characters of a store's text in a message of ours. Some stores send a page of XML."""

_NO_BUCKET = (
    "NO_SUCH_BUCKET",
    "NoSuchBucket",
    "ContainerNotFound",
    "FilesystemNotFound",
    "The specified bucket does not exist",
)
_FULL = ("QuotaExceeded", "StorageFull", "InsufficientStorage", "DSQuotaExceeded", "No space left", "HTTP status 507")
_DENIED = (
    *(
        "ACCESS_DENIED",
        "INVALID_ACCESS_KEY_ID",
        "SIGNATURE_DOES_NOT_MATCH",
        "INVALID_SIGNATURE",
        "INVALID_CLIENT_TOKEN_ID",
    ),
    *(
        "MISSING_AUTHENTICATION_TOKEN",
        "UNRECOGNIZED_CLIENT",
        "REQUEST_EXPIRED",
        "REQUEST_TIME_TOO_SKEWED",
        "ExpiredToken",
    ),
    *("InvalidToken", "AccountProblem", "KMS.DisabledException"),
    *(
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "AuthenticationFailed",
        "AuthorizationFailure",
        "AuthorizationPermissionMismatch",
    ),
    *("AuthenticationException", "AccessControlException", "Permission denied", "credentials"),
)
_AGAIN = (
    "SLOW_DOWN",
    "SlowDown",
    "THROTTLING",
    "REQUEST_TIMEOUT",
    "NETWORK_CONNECTION",
    "INTERNAL_FAILURE",
    "SERVICE_UNAVAILABLE",
)
_REDIRECTED = ("PermanentRedirect", "HTTP status 301", "AuthorizationHeaderMalformed")
_CHECKSUM = ("SHA256", "checksum", "NotImplemented", "aws-chunked", "STREAMING")
_STATUS = re.compile(r"(?:HTTP status|Status code:|status code) (\d{3})")

_INSTALL_HDFS = (
    "Install Java and Hadoop's native client on every host, and set JAVA_HOME, CLASSPATH, and HADOOP_HOME or ARROW_LIBHDFS_DIR in the "
    "environment of the service and of its workers."
)

RIGHT_OF = {"write": "s3:PutObject", "read": "s3:GetObject", "list": "s3:ListBucket", "delete": "s3:DeleteObject"}
"""The right in Amazon's policies that each operation needs. Reading asks for the object's size first, which needs s3:GetObject too."""


def means_no_object(error: Exception) -> bool:
    """Whether nothing of the name is there, or a folder."""
    missing = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
    return missing or any(words in str(error) for words in ("is a directory", "is not a file", "AWS Error NO_SUCH_KEY"))


def hides_an_answer(error: BaseException) -> bool:
    """Whether S3's client has lost the answer: it puts the text of a refusal in the place of the bytes that were asked for, which is too small
    for it if they are few. It may have been any refusal, also that the server is busy."""
    return isinstance(error, OSError) and "Failed to flush response stream" in str(error)


def fault_of(error: Exception, root: str, operation: str, name: str) -> StoreFault:
    """The fault that an error of pyarrow means, other than a missing object. `operation`: a key of RIGHT_OF."""
    text = " ".join(str(error).split())
    reason = cut(text.rstrip("."), REASON_CHARACTERS_MAX).rstrip(".")
    doing = f"{operation} {name}" if name else f"{operation} its root"
    number = error.errno if isinstance(error, OSError) else None
    status = int(found[1]) if (found := _STATUS.search(text)) else None

    def says(words: tuple[str, ...]) -> bool:
        return any(word in text for word in words)

    if says(("libhdfs", "libjvm")):
        return BadStoreUri(root, f"this host has no client of HDFS ({reason})", _INSTALL_HDFS)
    if says(_NO_BUCKET):
        return BadStoreUri(
            root, f"its bucket does not exist ({reason})", "Create the bucket, or correct `stepwell.store`."
        )
    if says(_REDIRECTED):
        return BadStoreUri(
            root, f"its bucket is in another region ({reason})", "Set AWS_REGION to the bucket's region."
        )
    if number in (errno.ENOSPC, errno.EDQUOT) or says(_FULL):
        return StoreFull(root, doing, reason)
    if says(_AGAIN):
        return StoreUnreachable(root, doing, reason)
    if number in (errno.EACCES, errno.EPERM) or status in (401, 403) or says(_DENIED):
        right = "read" if "HeadObject" in text else operation
        return StoreDenied(root, f"{right} {name}".rstrip(), reason, _missing_right(root, right), right=right)
    if status is not None and 400 <= status < 500 and status not in (408, 429):
        return StoreDenied(root, doing, reason, _what_of_a_bad_request(text, root, operation), right=operation)
    return StoreUnreachable(root, doing, reason)


def _missing_right(root: str, operation: str) -> str:
    right = f" ({RIGHT_OF[operation]})" if root.startswith("s3:") else ""
    return (
        "Check that the credentials of the environment, or the role of this host, are valid and may "
        f"{operation} objects there{right}: docs/durability.md lists the rights."
    )


def _what_of_a_bad_request(text: str, root: str, operation: str) -> str:
    if root.startswith("s3:") and any(word in text for word in _CHECKSUM):
        return (
            "This server does not know the checksums that newer clients send. Set AWS_REQUEST_CHECKSUM_CALCULATION=when_required in the "
            "environment of the service and of its workers."
        )
    return _missing_right(root, operation)
