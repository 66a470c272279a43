"""The objects of a backup: compressed chunks, named by number and digest, and a manifest, which is written last."""

import hashlib
import secrets
import uuid
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from compute_agent.disk_formats.extents import CHUNK, LONGEST, ExtentsError, decoded
from provisioning.common.errors import ConflictError, GoneError, InvalidInputError
from provisioning.volumes.backups.backup_store.base import ObjectMissingError, ObjectStore

MANIFEST = "manifest.json"
LEVEL = 1
"""Compression level of zlib. It is low because hosts wait while their data is compressed."""
SAMPLE, WORTH_IT = 32_768, 0.95
"""Size of a sample in bytes. A chunk is stored compressed if its samples shrink to this fraction of their size or less.
"""
_PLAIN, _ZLIB, _SEALED = b"\0", b"\1", b"\2"
NONCE = 12


class StoredChunk(msgspec.Struct, frozen=True):
    """One chunk, as listed in the manifest."""

    digest: str  # SHA-256 of the transferred chunk, hex


class Manifest(msgspec.Struct, frozen=True):
    """The contents of a backup. It is written last; without it the backup is incomplete."""

    backup_id: str
    volume_id: str
    parent_id: str  # the backup that this one builds on; empty: full backup
    size_gb: int
    disk_bytes: int
    chunks: list[StoredChunk]
    version: int = 1


def object_name(number: int, digest: str) -> str:
    """Return the name of a chunk. Its digest distinguishes it from a chunk with the same number of an earlier run."""
    return f"{number:08d}-{digest}"


class Place(NamedTuple):
    """The location of a backup's objects."""

    store: ObjectStore
    backup_id: uuid.UUID
    key: bytes = b""  # 32 bytes; chunks are encrypted with it (AES-GCM) if the volume was encrypted


def keep_chunk(place: Place, number: int, chunk: bytes, disk_bytes: int) -> None:
    """Validate and store a chunk.  Raises InvalidInputError for an invalid chunk, and the errors of the store."""
    try:
        decoded(chunk, disk_bytes)
    except ExtentsError as error:
        raise InvalidInputError(str(error)) from error
    name, body = object_name(number, hashlib.sha256(chunk).hexdigest()), _packed(chunk)
    if place.key:
        nonce = secrets.token_bytes(NONCE)
        body = _SEALED + nonce + AESGCM(place.key).encrypt(nonce, body, _bound(place, name))
    place.store.put(str(place.backup_id), name, body)


def _bound(place: Place, name: str) -> bytes:
    """Return the associated data that ties an encrypted object to its backup and name."""
    return f"{place.backup_id}/{name}".encode()


def _packed(chunk: bytes) -> bytes:
    """Compress a chunk if samples of it become smaller. Encrypted or compressed data is stored as it is."""
    samples = b"".join(chunk[at : at + SAMPLE] for at in (0, len(chunk) // 2, max(len(chunk) - SAMPLE, 0)))
    if len(zlib.compress(samples, LEVEL)) > WORTH_IT * len(samples):
        return _PLAIN + chunk
    return _ZLIB + zlib.compress(chunk, LEVEL)


def chunk_of(place: Place, number: int, digest: str) -> bytes:
    """Return a chunk as the host sent it.  Raises GoneError if the chunk is missing or damaged."""
    name = object_name(number, digest)
    try:
        body = place.store.get(str(place.backup_id), name)
    except ObjectMissingError as error:
        raise GoneError(f"Part {number + 1} of backup {place.backup_id} is missing in its store.") from error
    chunk = _unpacked(_opened(place, name, body))
    if chunk is None or hashlib.sha256(chunk).hexdigest() != digest:
        raise GoneError(f"Part {number + 1} of backup {place.backup_id} is damaged in its store.")
    return chunk


def _opened(place: Place, name: str, body: bytes) -> bytes:
    """Decrypt an object if the backup has a key; return b"" if the key is wrong or the object is not encrypted."""
    if not place.key:
        return body
    nonce = body[1 : 1 + NONCE]
    if body[:1] != _SEALED or len(nonce) < NONCE:
        return b""
    try:
        return AESGCM(place.key).decrypt(nonce, body[1 + NONCE :], _bound(place, name))
    except InvalidTag:
        return b""


def _unpacked(body: bytes) -> bytes | None:
    if body[:1] == _PLAIN:
        return body[1:]
    if body[:1] != _ZLIB:
        return None
    unpacker = zlib.decompressobj()
    try:
        chunk = unpacker.decompress(body[1:], LONGEST)
    except zlib.error:
        return None
    return chunk if unpacker.eof and not unpacker.unused_data else None


def seal(store: ObjectStore, manifest: Manifest) -> tuple[str, int]:
    """Write the manifest after all its chunks, and remove objects of earlier runs.

    Returns the manifest's SHA-256 and the number of stored bytes. Raises ConflictError if chunks are missing.
    """
    there = {each.name: each.size for each in store.objects(manifest.backup_id) if each.name != MANIFEST}
    named = [object_name(number, chunk.digest) for number, chunk in enumerate(manifest.chunks)]
    if set(named) - set(there):
        raise ConflictError("Not all parts of the backup are stored.")
    text = msgspec.json.encode(manifest)
    store.put(manifest.backup_id, MANIFEST, text)
    if extra := set(there) - set(named):
        store.remove(manifest.backup_id, sorted(extra))
    return hashlib.sha256(text).hexdigest(), sum(there[name] for name in named) + len(text)


def manifest_of(store: ObjectStore, backup_id: uuid.UUID, digest: str = "") -> tuple[Manifest, str]:
    """Return the manifest and its SHA-256.

    Raises GoneError if the manifest is missing or damaged, or if ``digest`` is given and the SHA-256 differs from it.
    """
    try:
        text = store.get(str(backup_id), MANIFEST)
        manifest = msgspec.json.decode(text, type=Manifest)
    except (ObjectMissingError, msgspec.MsgspecError) as error:
        raise GoneError(f"Backup {backup_id} no longer has data in its store.") from error
    actual = hashlib.sha256(text).hexdigest()
    if manifest.backup_id != str(backup_id) or (digest and actual != digest):
        raise GoneError(f"The list of parts of backup {backup_id} is damaged in its store.")
    return manifest, actual


def discard(store: ObjectStore, backup_id: uuid.UUID) -> int:
    """Remove all objects of a backup, the manifest first; return the number of objects."""
    names: Sequence[str] = [each.name for each in store.objects(str(backup_id))]
    store.remove(str(backup_id), sorted(names, key=lambda name: name != MANIFEST))
    return len(names)


def most_chunks(disk_bytes: int) -> int:
    """Return the maximum number of chunks of a disk. In the worst case, each chunk has only the data of one extent."""
    return 2 * (disk_bytes // CHUNK + 1) + disk_bytes // (65_536 * 32_768)
