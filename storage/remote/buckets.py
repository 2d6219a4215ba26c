"""The checkpoint store in a bucket, or in HDFS, by pyarrow's clients.

An object must not appear if its pieces end with an exception. pyarrow has no way to abort: closing a stream completes the upload, and so does
destroying it. So all pieces are there before a stream is opened. They are held in memory, and beyond HELD_BYTES_MAX in a file that has no name.
If an upload cannot be begun, or a part of it fails, it is never completed, and there is no object (filesystems.py says what that depends on).
Parts of it stay until the bucket's rule for incomplete uploads removes them. If it is this process that cannot go on, there is nothing but to
let the half be completed and then to delete it.

HDFS shows a file while it is written. There an object is written under another name first, and then renamed.

If a connection is cut within the headers of an answer, S3's client takes the answer for whole and empty: an object seems to have no bytes, a
folder no objects, and a block that is read is memory that nobody has written. So what is empty is asked for twice, and the place of a block is
marked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import IO, Any
from uuid import uuid4

import pyarrow
from pyarrow import fs
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_random_exponential
from xxhash import xxh3_128

from storage.remote.answers import fault_of, hides_an_answer, means_no_object
from storage.remote.errors import BadStoreUri, ObjectMissing, StoreFull, StoreUnreachable
from storage.remote.filesystems import ATTEMPTS_MAX, SMALL_BYTES_MAX, Clients, connect, place_of
from storage.remote.objects_protocol import PARTIAL, PIECE_BYTES_MAX, ObjectInfo, WrittenObject, check_name
from storage.remote.uri import BUCKET_SCHEMES, StoreUri

HELD_BYTES_MAX = 64 << 20
"""The largest number of bytes of an object that are held in memory while it is written. It is the bound of a pack. A larger object goes through
a temporary file."""
IN_FLIGHT_BYTES_MAX = 32 << 20
"""Given to pyarrow before it is waited for, because it holds all parts (10 MB each) until they are sent. Three fill a fast connection."""
BLOCK_BYTES = 8 << 20
"""The number of bytes that one request asks for when an object is read. Each request costs some 30 ms, so blocks of 1 MiB would read at 30
MB/s."""
DELETES_AT_ONCE = 8
"""An object takes three requests, one after the other: is it there, delete it, keep its folder."""
RETRY_WAIT_S_MAX = 1.0
"""Between attempts, as the client waits between its own."""


MARK_BYTES = 16
"""At the end of where a block is read to. That a block has the same random bytes there does not happen, or, with a block of one byte, not three
times in a row."""


class _NoContent(OSError):
    """An answer without the bytes that it is to have."""


@retry(
    retry=retry_if_exception(lambda error: isinstance(error, _NoContent) or hides_an_answer(error)),
    stop=stop_after_attempt(ATTEMPTS_MAX),
    wait=wait_random_exponential(multiplier=0.2, max=RETRY_WAIT_S_MAX),
    reraise=True,
)
def _read_at(file: Any, wanted: int, at: int) -> bytes:
    """One request. The client repeats failed requests by itself, except for an answer that it cannot read or that looks empty."""
    block = bytearray(wanted)
    mark = os.urandom(min(MARK_BYTES, wanted))
    block[-len(mark) :] = mark
    file.seek(at)
    count = file.readinto(block)
    if count == wanted and block.endswith(mark):
        raise _NoContent("the answer had no content")
    return bytes(block[:count])


class BucketStore:
    """The objects below a bucket's prefix, or a folder of HDFS. The client is made by the first operation."""

    def __init__(self, uri: StoreUri, clients: Callable[[StoreUri], Clients] = connect) -> None:
        self.root = uri.text
        self._uri, self._connect = uri, clients
        self._place = place_of(uri)
        self._shows_drafts = uri.scheme not in BUCKET_SCHEMES
        self._lock = threading.Lock()
        self._known: Clients | None = None

    def write(self, name: str, pieces: Iterable[bytes]) -> WrittenObject:
        path = self._path(name)
        digest, size = xxh3_128(), 0
        with SpooledTemporaryFile(max_size=HELD_BYTES_MAX) as held:
            for piece in pieces:
                if piece:
                    self._hold(held, piece, name)
                digest.update(piece)
                size += len(piece)
            self._hold(held, b"", name)
            with self._faults("write", name):
                put = self._write_renamed if self._shows_drafts else self._upload
                put(path, held, size)
                found = self._files.get_file_info(path).size
        if found != size:
            raise StoreUnreachable(self.root, f"write {name}", f"it has {found} bytes of the {size} that were written")
        return WrittenObject(size, digest.hexdigest())

    def read(self, name: str) -> Iterator[bytes]:
        path, at = self._path(name), 0
        with self._faults("read", name):
            file = self._files.open_input_file(path)
            if not file.size():
                file = self._files.open_input_file(path)  # see the module's docstring
        with file:
            size = file.size()
            while at < size:
                wanted = min(BLOCK_BYTES, size - at)
                with self._faults("read", name):
                    block = _read_at(file, wanted, at)
                if len(block) != wanted:
                    reason = f"it ended after {at + len(block)} of {size} bytes"
                    raise StoreUnreachable(self.root, f"read {name}", reason)
                for start in range(0, wanted, PIECE_BYTES_MAX):
                    yield block[start : start + PIECE_BYTES_MAX]
                at += wanted

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        folder = self._path(prefix.rstrip("/")) if prefix.strip("/") else self._place
        try:
            with self._faults("list", prefix):
                found = self._infos(folder)
        except ObjectMissing:
            return
        for info in found:
            if info.type == fs.FileType.File and not info.base_name.startswith(PARTIAL):
                yield ObjectInfo(info.path.removeprefix(self._place).lstrip("/"), info.size)

    def _infos(self, folder: str) -> Any:
        """What is below a folder. That there is nothing is believed the second time; see the module's docstring."""
        below = fs.FileSelector(folder, recursive=True)
        with suppress(FileNotFoundError):
            if found := self._files.get_file_info(below):
                return found
        return self._files.get_file_info(below)

    def delete(self, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(DELETES_AT_ONCE) as threads:
            for _ in threads.map(self._delete, names):
                pass

    def _delete(self, name: str) -> None:
        with suppress(ObjectMissing), self._faults("delete", name):
            self._files.delete_file(self._path(name))

    @property
    def _clients(self) -> Clients:
        with self._lock:
            if self._known is None:
                self._known = self._connect(self._uri)
            return self._known

    @property
    def _files(self) -> Any:
        return self._clients.any

    def _path(self, name: str) -> str:
        return f"{self._place}/{check_name(name)}"

    def _hold(self, held: IO[bytes], piece: bytes, name: str) -> None:
        """Takes one more piece; after the last, which is empty, all of them can be read."""
        try:
            if piece:
                held.write(piece)
            else:
                held.seek(0)
        except OSError as error:
            raise StoreFull(self.root, f"write {name}", f"its temporary file on this host: {error.strerror}") from error

    def _upload(self, path: str, held: IO[bytes], size: int) -> None:
        # Without `compression` a name that ends with .gz or .zst would be compressed.
        client = self._clients.large if size > SMALL_BYTES_MAX else self._clients.any
        stream = client.open_output_stream(path, compression=None)
        in_flight, reading = 0, True
        try:
            while piece := held.read(PIECE_BYTES_MAX):
                reading = False
                stream.write(piece)
                in_flight += len(piece)
                if in_flight >= IN_FLIGHT_BYTES_MAX:
                    stream.flush()
                    in_flight = 0
                reading = True
        except BaseException as error:
            if reading or not isinstance(error, OSError | pyarrow.ArrowException):
                with suppress(OSError, pyarrow.ArrowException):
                    stream.close()
                    self._files.delete_file(path)
            raise
        stream.close()

    def _write_renamed(self, path: str, held: IO[bytes], size: int) -> None:
        folder = path.rpartition("/")[0]
        draft = f"{folder}/{PARTIAL}{uuid4().hex}"
        try:
            self._files.create_dir(folder, recursive=True)
            self._upload(draft, held, size)
            with suppress(FileNotFoundError):  # HDFS renames only to a name that is free
                self._files.delete_file(path)
            self._files.move(draft, path)
        except BaseException:
            with suppress(OSError):
                self._files.delete_file(draft)
            raise

    @contextmanager
    def _faults(self, operation: str, name: str) -> Iterator[None]:
        """Turns what pyarrow raises into a fault."""
        try:
            yield
        except (OSError, pyarrow.ArrowException) as error:
            if operation == "write" or not means_no_object(error):
                raise fault_of(error, self.root, operation, name) from error
            self._check_bucket()
            raise ObjectMissing(self.root, name) from None

    def _check_bucket(self) -> None:
        """Raises BadStoreUri if the bucket is missing, which a request for an object does not tell. Who may not ask is not told."""
        if self._shows_drafts:
            return
        with suppress(OSError, pyarrow.ArrowException):
            if self._files.get_file_info(self._place.partition("/")[0]).type == fs.FileType.NotFound:
                raise BadStoreUri(
                    self.root, "its bucket does not exist", "Create the bucket, or correct `stepwell.store`."
                )
