"""An object store through obstore: whole objects, requests with time limits, plain errors.

A failed request is retried a few times within seconds. If it still fails, `StoreAway` is raised,
and the step waits for the store as it would for the database.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import LocalStore, from_url

from perdure.adapters.settings.library_secrets import OBJECT_STORES, followed
from perdure.domain.foundation.errors import InvalidInput, StoreAway, StoreError
from perdure.domain.installation.blob_place import BlobPlace

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig, S3Config

AT_ONCE = 32
# S3 lists, and deletes, at most so many objects in one request.
LISTED = 1000
STALLED = timedelta(seconds=10)

# Plain HTTP is used only if the operator's own variables name an endpoint with http://.
_CLIENT: "ClientConfig" = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=5),
    "read_timeout": STALLED,
    "timeout": timedelta(seconds=120),
}
_RETRIES: "RetryConfig" = {
    "max_retries": 3,
    "retry_timeout": STALLED,
    "backoff": {
        "init_backoff": timedelta(milliseconds=100),
        "max_backoff": timedelta(seconds=2),
        "base": 2,
    },
}
_VARIABLES = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, beside Amazon's own,"
    " AWS_ENDPOINT_URL",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "file": "PERDURE_BLOBS",
}
# Without credentials, the client asks the cloud's metadata service for some, at these paths.
_NO_CREDENTIALS = re.compile(
    r"latest/(api/token|meta-data)|computeMetadata|metadata/identity|token request", re.IGNORECASE
)


class Objects:
    """The objects below the prefix of one bucket or folder."""

    def __init__(self, place: BlobPlace) -> None:
        self.place = place
        self._store = _open(place)
        self._folder = Path("/", place.prefix) if place.scheme == "file" else None
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def put(self, key: str, data: bytes) -> None:
        """Write an object durably and atomically."""
        async with self._asked("be written"):
            await self._write(key, data)

    async def create(self, key: str, data: bytes) -> None:
        """Write an object unless it exists."""
        async with self._asked("be written"):
            try:
                await self._write(key, data, once=True)
            except AlreadyExistsError:
                return

    async def get(self, key: str) -> bytes | None:
        async with self._asked("be read"):
            try:
                found = await obstore.get_async(self._store, key)
                return bytes(await found.bytes_async())
            except FileNotFoundError:
                return None

    async def size(self, key: str) -> int | None:
        async with self._asked("be read"):
            try:
                return (await obstore.head_async(self._store, key))["size"]
            except FileNotFoundError:
                return None

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; a missing one is no error."""
        for start in range(0, len(keys), LISTED):
            async with self._asked("be deleted"):
                await self._delete(keys[start : start + LISTED])

    async def pages(self) -> AsyncIterator[list[tuple[str, int, datetime]]]:
        """All objects page by page, with size and time of last write; slow."""
        pages = obstore.list(self._store, chunk_size=LISTED)
        while True:
            async with self._asked("be listed"):
                page = await anext(pages, None)
            if page is None:
                return
            yield [(meta["path"], meta["size"], meta["last_modified"]) for meta in page]

    async def _write(self, key: str, data: bytes, *, once: bool = False) -> None:
        # In one request: an interrupted multipart upload would leave parts behind.
        mode = "create" if once else "overwrite"
        await obstore.put_async(self._store, key, data, mode=mode, use_multipart=False)
        if self._folder is not None:
            await asyncio.to_thread(_sync, self._folder / key)

    async def _delete(self, keys: Sequence[str]) -> None:
        try:
            await obstore.delete_async(self._store, keys)
        except FileNotFoundError:
            # Some stores report a missing object as an error, and may have skipped the objects
            # after it. So delete one by one.
            for key in keys:
                with suppress(FileNotFoundError):
                    await obstore.delete_async(self._store, key)

    @asynccontextmanager
    async def _asked(self, verb: str) -> AsyncGenerator[None]:
        """Limit concurrent requests, and translate errors of the request in the block."""
        async with self._turn:
            try:
                yield
            except (InvalidPathError, NotSupportedError) as error:
                raise StoreError(
                    f"An object in {self.place.url} cannot {verb}: {_fact(error)}.",
                    cure="This is a defect of Perdure or of the object store: report it.",
                ) from error
            except (BaseError, OSError) as error:
                raise self._away(error, verb) from error

    def _away(self, error: Exception, verb: str) -> StoreAway:
        url, variables = self.place.url, _VARIABLES[self.place.scheme]
        match error:
            # A missing object was handled before; what is missing here is the bucket.
            case FileNotFoundError():
                bucket = "folder" if self.place.scheme == "file" else "bucket"
                return StoreAway(
                    f"There is no {bucket} {url}, which PERDURE_BLOBS names.",
                    cure=f"Make the {bucket}, or correct PERDURE_BLOBS or {variables}.",
                )
            case PermissionDeniedError() | UnauthenticatedError():
                return StoreAway(
                    f"The object store {url} refuses access: {_fact(error)}.",
                    cure=f"Check {variables}; they must allow to read, write, list and delete.",
                )
            case _ if _NO_CREDENTIALS.search(_first_line(error)):
                return StoreAway(
                    f"There are no credentials for the object store {url}: {_fact(error)}.",
                    cure=f"Set {variables}, or give this machine a role that may use it.",
                )
            case _:
                return StoreAway(
                    f"An object in {url} cannot {verb}: {_fact(error)}.",
                    cure=f"Check the object store, the network and {variables}; it is tried again.",
                )


def _open(place: BlobPlace) -> "ObjectStore":
    """The client for a place; it does not connect yet."""
    if place.scheme == "file":
        return _open_folder(place)
    try:
        secrets = followed(OBJECT_STORES[place.scheme])
        config = cast("S3Config", {name.lower(): secret for name, secret in secrets.items()})
        return from_url(place.url, config=config, client_options=_CLIENT, retry_config=_RETRIES)
    except (BaseError, OSError) as error:
        raise InvalidInput(
            f"The object store {place.url} cannot be used: {_fact(error)}.",
            cure=f"Set {_VARIABLES[place.scheme]}, or correct PERDURE_BLOBS.",
        ) from error


def _open_folder(place: BlobPlace) -> "ObjectStore":
    # Never make the folder: if its disk is not mounted, blobs would go to the wrong disk.
    folder = Path(f"/{place.prefix}")
    if not folder.exists():
        raise StoreAway(
            f"There is no folder {place.url}, which PERDURE_BLOBS names.",
            cure=f"Mount its disk or make it (mkdir -p {folder}), or correct PERDURE_BLOBS.",
        )
    if not folder.is_dir():
        raise InvalidInput(
            f"{place.url}, which PERDURE_BLOBS names, is no folder.", cure="Correct PERDURE_BLOBS."
        )
    return LocalStore(str(folder))


def _sync(path: Path) -> None:
    # The two folders above may be new as well.
    for place in (path, path.parent, path.parent.parent):
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _fact(error: Exception) -> str:
    """What went wrong, without the library's wording, the server's HTML and signed URLs."""
    fact = _first_line(error).rpartition(" - ")[2].partition("<")[0]
    return re.sub(r"\?\S*", "", fact).strip(" .:")[:300] or type(error).__name__
