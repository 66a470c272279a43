"""Stores of backups, each by the same tests, and what is kept in them."""

import hashlib
import random
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_agent.disk_formats.extents import CHUNK, Extent, ExtentsError, chunks, decoded
from provisioning.common.errors import ConflictError, GoneError, InvalidInputError
from provisioning.volumes.backups import backup_data
from provisioning.volumes.backups.backup_data import MANIFEST, Manifest, Place, StoredChunk
from provisioning.volumes.backups.backup_store.base import (
    ObjectMissingError,
    ObjectStore,
    StoreFullError,
    StoreUnavailableError,
)
from provisioning.volumes.backups.backup_store.folder import FolderStore
from provisioning.volumes.backups.backup_store.s3 import S3Settings, S3Store
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, s3_server

MIB = 1 << 20


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def s3_store(server: S3Server, prefix: str = "cloud") -> S3Store:
    return S3Store(S3Settings(BUCKET, server.endpoint, "us-east-1", ACCESS_KEY, SECRET_KEY, prefix))


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "folder":
        yield FolderStore(tmp_path / "store")
        return
    with s3_server() as server:
        yield s3_store(server)


def test_objects_are_kept_listed_and_removed_with_their_folder(store: ObjectStore) -> None:
    assert store.folders() == []
    assert store.objects("a") == []
    store.put("a", "1", b"one")
    store.put("a", "1", b"other")
    store.put("b", "2", b"two")
    assert store.get("a", "1") == b"other"
    assert [(each.name, each.size) for each in store.objects("a")] == [("1", 5)]
    assert store.folders() == ["a", "b"]
    store.remove("a", ["1", "missing"])
    assert store.folders() == ["b"]
    with pytest.raises(ObjectMissingError):
        store.get("a", "1")


@pytest.mark.slow
def test_a_backup_is_whole_with_its_manifest_and_what_an_earlier_run_left_goes(store: ObjectStore) -> None:
    backup_id, parts = uuid.uuid4(), _parts()
    backup_data.keep_chunk(Place(store, backup_id), 0, _parts(seed=2)[0], 64 * MIB)  # the run that was killed
    for number, chunk in enumerate(parts[:-1]):
        backup_data.keep_chunk(Place(store, backup_id), number, chunk, 64 * MIB)
    manifest = _manifest(backup_id, parts)
    with pytest.raises(ConflictError):
        backup_data.seal(store, manifest)
    with pytest.raises(GoneError):
        backup_data.manifest_of(store, backup_id)
    backup_data.keep_chunk(Place(store, backup_id), len(parts) - 1, parts[-1], 64 * MIB)
    digest, size = backup_data.seal(store, manifest)
    assert len(store.objects(str(backup_id))) == len(parts) + 1
    assert size == sum(each.size for each in store.objects(str(backup_id)))
    assert backup_data.manifest_of(store, backup_id, digest)[0] == manifest
    read = [backup_data.chunk_of(Place(store, backup_id), n, each.digest) for n, each in enumerate(manifest.chunks)]
    assert read == parts
    assert backup_data.discard(store, backup_id) == len(parts) + 1
    assert store.folders() == []


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["flipped", "cut", "bomb", "missing", "manifest"])
def test_damage_in_the_store_is_reported(tmp_path: Path, damage: str) -> None:
    store, backup_id, parts = FolderStore(tmp_path), uuid.uuid4(), _parts()
    for number, chunk in enumerate(parts):
        backup_data.keep_chunk(Place(store, backup_id), number, chunk, 64 * MIB)
    digest, _ = backup_data.seal(store, _manifest(backup_id, parts))
    name = backup_data.object_name(1, hashlib.sha256(parts[1]).hexdigest())
    path = tmp_path / str(backup_id) / (MANIFEST if damage == "manifest" else name)
    body = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(body[:-9])
        case "bomb":
            path.write_bytes(b"\1" + zlib.compress(bytes(64 * MIB)))
        case "manifest":
            path.write_bytes(body.replace(b'"size_gb":1', b'"size_gb":2'))
        case _:
            path.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    with pytest.raises(GoneError):
        _read(store, backup_id, digest, parts)
    assert backup_data.chunk_of(Place(store, backup_id), 0, hashlib.sha256(parts[0]).hexdigest()) == parts[0]


@pytest.mark.slow
def test_the_data_of_an_encrypted_volume_is_encrypted_and_bound_to_its_place(tmp_path: Path) -> None:
    store, backup_id, (chunk, other) = FolderStore(tmp_path), uuid.uuid4(), _parts()[:2]
    place, digest = Place(store, backup_id, bytes(32)), hashlib.sha256(chunk).hexdigest()
    for number, part in enumerate((chunk, other)):
        backup_data.keep_chunk(place, number, part, 64 * MIB)
    assert backup_data.chunk_of(place, 0, digest) == chunk
    (path,) = [path for path in (tmp_path / str(backup_id)).iterdir() if digest in path.name]
    body = path.read_bytes()
    assert chunk[100:150] not in body
    path.with_name(backup_data.object_name(7, digest)).write_bytes(body)
    for wrong, number in ((place, 7), (place._replace(key=b"\1" * 32), 0), (place._replace(key=b""), 0)):
        with pytest.raises(GoneError):
            backup_data.chunk_of(wrong, number, digest)


def test_what_is_no_chunk_of_the_disk_is_not_stored(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    (chunk,) = chunks([Extent(60 * MIB, 8 * MIB, zero=True)], _none)
    for bad in (b"", b"NVX1\xff\xff\xff\xff", chunk, chunk + b"x"):
        with pytest.raises(InvalidInputError):
            backup_data.keep_chunk(Place(store, uuid.uuid4()), 0, bad, 64 * MIB)
    assert store.folders() == []


def test_a_full_folder_takes_nothing_and_keeps_nothing_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioning.volumes.backups.backup_store.folder.RESERVE", 1 << 60)
    store = FolderStore(tmp_path)
    with pytest.raises(StoreFullError):
        store.put("a", "1", b"one")
    assert store.objects("a") == []


def test_an_s3_store_in_trouble_is_tried_again_and_then_reported(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = s3_store(server)
    server.faults = [503, 0, 500]
    store.put("a", "1", b"one")
    assert server.objects == {"cloud/a/1": b"one"}
    server.full = True
    with pytest.raises(StoreFullError):
        store.put("a", "2", b"two")
    assert list(server.objects) == ["cloud/a/1"]
    stranger = S3Store(S3Settings(BUCKET, server.endpoint, "us-east-1", "other", SECRET_KEY, ""))
    with pytest.raises(StoreUnavailableError):
        stranger.get("a", "1")


@pytest.mark.slow
def test_extents_come_back_as_they_were_and_zeros_are_not_sent() -> None:
    disk = bytearray(40 * MIB)
    noise = random.Random(1).randbytes(9 * MIB)  # noqa: S311 - noise
    disk[3 * MIB : 12 * MIB] = noise
    extents = [Extent(0, 2 * MIB, zero=True), Extent(2 * MIB, 30 * MIB)]
    sent = list(chunks(extents, lambda at, n: bytes(disk[at : at + n])))
    assert len(sent) == 2
    assert sum(map(len, sent)) < 9 * MIB + 4096
    back, covered = bytearray(b"\xff" * len(disk)), 0
    for chunk in sent:
        for extent, data in decoded(chunk, len(disk)):
            back[extent.offset : extent.offset + extent.length] = bytes(extent.length) if extent.zero else data
            covered += extent.length
            assert len(data) <= CHUNK
    assert covered == 32 * MIB
    assert back[: 32 * MIB] == disk[: 32 * MIB]
    with pytest.raises(ExtentsError):
        list(chunks([Extent(0, MIB)], lambda at, n: b"short"))


def _parts(seed: int = 1) -> list[bytes]:
    noise = random.Random(seed).randbytes(MIB)  # noqa: S311 - noise
    return list(chunks([Extent(0, 20 * MIB)], lambda at, n: noise[:n]))


def _read(store: ObjectStore, backup_id: uuid.UUID, digest: str, parts: list[bytes]) -> None:
    backup_data.manifest_of(store, backup_id, digest)
    for number, part in enumerate(parts):
        backup_data.chunk_of(Place(store, backup_id), number, hashlib.sha256(part).hexdigest())


def _manifest(backup_id: uuid.UUID, parts: list[bytes]) -> Manifest:
    digests = [StoredChunk(hashlib.sha256(part).hexdigest()) for part in parts]
    return Manifest(str(backup_id), str(uuid.uuid4()), "", 1, 64 * MIB, digests)


def _none(offset: int, length: int) -> bytes:
    raise AssertionError
