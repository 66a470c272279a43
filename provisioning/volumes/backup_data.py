"""The objects of a backup: chunks, compressed and named by number and digest, and the manifest that makes it whole."""

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
from provisioning.volumes.backup_store.base import ObjectMissingError, ObjectStore

MANIFEST = "manifest.json"
LEVEL = 1
"""Of zlib: what a host sends is compressed while it waits."""
SAMPLE, WORTH_IT = 32_768, 0.95
"""Bytes of a sample, and the part of them that must be left for a chunk to be compressed."""
_PLAIN, _ZLIB, _SEALED = b"\0", b"\1", b"\2"
NONCE = 12


class StoredChunk(msgspec.Struct, frozen=True):
    """One chunk as the manifest names it."""

    digest: str  # SHA-256 of the chunk as it travels, hex


class Manifest(msgspec.Struct, frozen=True):
    """What a backup consists of; it is written last, and without it there is no backup."""

    backup_id: str
    volume_id: str
    parent_id: str  # the backup whose data lies below this one's; empty: it is full
    size_gb: int
    disk_bytes: int
    chunks: list[StoredChunk]
    version: int = 1


def object_name(number: int, digest: str) -> str:
    """Return the name of a chunk: another run's chunk of the same number never takes its place."""
    return f"{number:08d}-{digest}"


class Place(NamedTuple):
    """Where the objects of one backup lie."""

    store: ObjectStore
    backup_id: uuid.UUID
    key: bytes = b""  # 32 bytes: its chunks are encrypted with it (AES-GCM), as its volume was


def keep_chunk(place: Place, number: int, chunk: bytes, disk_bytes: int) -> None:
    """Look through a chunk and store it.  Raises InvalidInputError for what is none, and what the store raises."""
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
    """Return what an encrypted object is bound to: it is none in another place."""
    return f"{place.backup_id}/{name}".encode()


def _packed(chunk: bytes) -> bytes:
    """Compress what becomes smaller by it, which three samples tell: encrypted or packed data costs nothing."""
    samples = b"".join(chunk[at : at + SAMPLE] for at in (0, len(chunk) // 2, max(len(chunk) - SAMPLE, 0)))
    if len(zlib.compress(samples, LEVEL)) > WORTH_IT * len(samples):
        return _PLAIN + chunk
    return _ZLIB + zlib.compress(chunk, LEVEL)


def chunk_of(place: Place, number: int, digest: str) -> bytes:
    """Return a chunk as it was sent.  Raises GoneError, with its number, for one that is lost or damaged."""
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
    """Decrypt what is encrypted; nothing when the key is another one, or there was none."""
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
    """Write the manifest once all that it names is stored, and remove what an earlier run has left.

    Returns the manifest's SHA-256 and the bytes that are stored.  Raises ConflictError when chunks are missing.
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
    """Return the manifest and its SHA-256; ``digest``: what that must be.

    Raises GoneError when it is lost or damaged.
    """
    try:
        text = store.get(str(backup_id), MANIFEST)
        manifest = msgspec.json.decode(text, type=Manifest)
    except (ObjectMissingError, msgspec.MsgspecError) as error:
        raise GoneError(f"Backup {backup_id} has no data in its store any more.") from error
    found = hashlib.sha256(text).hexdigest()
    if manifest.backup_id != str(backup_id) or (digest and found != digest):
        raise GoneError(f"The list of parts of backup {backup_id} is damaged in its store.")
    return manifest, found


def discard(store: ObjectStore, backup_id: uuid.UUID) -> int:
    """Remove everything of a backup, the manifest first; return how many objects."""
    names: Sequence[str] = [each.name for each in store.objects(str(backup_id))]
    store.remove(str(backup_id), sorted(names, key=lambda name: name != MANIFEST))
    return len(names)


def most_chunks(disk_bytes: int) -> int:
    """Return how many chunks a backup of such a disk has at most: in the worst case each has a single extent's data."""
    return 2 * (disk_bytes // CHUNK + 1) + disk_bytes // (65_536 * 32_768)
