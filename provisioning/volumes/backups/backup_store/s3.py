"""Backups in an S3-compatible store, such as AWS, Ceph's RADOS gateway, MinIO or Garage."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store as Client

from provisioning.volumes.backups.backup_store.base import (
    ObjectMissingError,
    ObjectStore,
    StoredObject,
    StoreFullError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from obstore.store import S3Config

log = logging.getLogger(__name__)

PATIENCE = timedelta(seconds=20)
"""How long failed requests are retried."""
FULL = ("QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "status: 507", "507 Insufficient")
"""Texts of errors about a full store."""


@dataclass(frozen=True)
class S3Settings:
    """The address and credentials of a bucket; ``endpoint`` is empty for AWS."""

    bucket: str
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    prefix: str  # prefix of all names, without leading or trailing slashes; may be empty


class S3Store(ObjectStore):
    """``<prefix>/<folder>/<name>`` in one bucket."""

    service = "s3"

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        config: S3Config | None = {"endpoint": settings.endpoint} if settings.endpoint else None
        self._client = Client(
            settings.bucket,
            config=config,
            prefix=settings.prefix or None,
            access_key_id=settings.access_key,
            secret_access_key=settings.secret_key,
            region=settings.region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": settings.endpoint.startswith("http://"), "timeout": "60s"},
            retry_config={"max_retries": 4, "retry_timeout": PATIENCE},
        )

    def container(self) -> str:
        return self._settings.bucket

    def put(self, folder: str, name: str, data: bytes) -> None:
        with _translated_errors():
            obstore.put(self._client, f"{folder}/{name}", data, use_multipart=False)

    def get(self, folder: str, name: str) -> bytes:
        with _translated_errors():
            return bytes(obstore.get(self._client, f"{folder}/{name}").bytes())

    def objects(self, folder: str) -> list[StoredObject]:
        with _translated_errors():
            rows = [row for page in obstore.list(self._client, f"{folder}/") for row in page]
        return [StoredObject(row["path"].rpartition("/")[2], row["size"], row["last_modified"]) for row in rows]

    def remove(self, folder: str, names: Iterable[str]) -> None:
        with _translated_errors(), suppress(FileNotFoundError):
            obstore.delete(self._client, [f"{folder}/{name}" for name in names])

    def folders(self) -> list[str]:
        with _translated_errors():
            prefixes = obstore.list_with_delimiter(self._client)["common_prefixes"]
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in prefixes)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert errors of the library to errors of the store."""
    try:
        yield
    except FileNotFoundError as error:  # obstore's NotFoundError is a subclass
        raise ObjectMissingError("A part of the backup is missing in its store.") from error
    except (BaseError, OSError, ValueError) as error:
        log.warning("S3 backup store: %s", str(error).partition("\n")[0])
        if any(word in str(error) for word in FULL):
            raise StoreFullError("There is no space left for backups.") from error
        raise StoreUnavailableError("The backup store is not available now.") from error
