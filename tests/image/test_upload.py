"""Image data on its way into the store."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections
from django.utils import timezone

from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, TooLargeError
from provisioning.images import selectors, services
from provisioning.images.data import store as image_store
from provisioning.images.errors import ImageContentError, InterruptedUploadError
from provisioning.images.models import Image
from provisioning.jobs.periodic import reaping
from tests.image import pictures
from tests.image.conftest import MakeImage, files
from tests.support.cast import Person
from tests.support.tables import each_row

BLOCK, HEADER = 32 << 10, 256
GOOD = [
    ("qcow2", pictures.qcow2(), 64 * pictures.MIB),
    ("qcow2", pictures.qcow2(version=2), 64 * pictures.MIB),
    (
        "qcow2",
        pictures.qcow2(length=3 * pictures.CLUSTER + 16),
        64 * pictures.MIB,
    ),  # as qemu-img create ends an empty one
    ("raw", pictures.raw(3 * pictures.MIB + 17), 3 * pictures.MIB + 17),
    ("raw", pictures.partitioned(), pictures.MIB),
    ("raw", b"short", 5),
]


def bytewise(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def dribbled(data: bytes) -> Iterator[bytes]:
    """Yield 7 bytes at a time where formats have headers and tables: behind each 32 KiB, and at the end."""
    for start in range(0, len(data), BLOCK):
        block = data[start : start + BLOCK]
        yield from bytewise(block[:HEADER], 7)
        yield from bytewise(block[HEADER:-HEADER], 4_001)
        yield from bytewise(block[HEADER:][-HEADER:], 7)


def whole(data: bytes) -> Iterator[bytes]:
    return bytewise(data, 1 << 20)


@pytest.mark.parametrize(("disk_format", "data", "virtual_size"), GOOD)
def test_good_data_makes_the_image_active(
    alice: Person, make: MakeImage, store: Path, disk_format: str, data: bytes, virtual_size: int
) -> None:
    record = make(disk_format=disk_format)
    assert record.status == "queued"
    image = services.upload(alice.context, record.id, bytewise(data, 10_007), expected_size=len(data))
    assert (image.status, image.size, image.virtual_size) == ("active", len(data), virtual_size)
    assert image.checksum == hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert (image.os_hash_algo, image.os_hash_value) == ("sha512", hashlib.sha512(data).hexdigest())
    assert selectors.open_data(image).read_bytes() == data
    assert files(store) == [str(image.id)]
    assert (store / str(image.id)).stat().st_mode & 0o077 == 0


BAD = {
    "qcow2 with a backing file": ("qcow2", pictures.qcow2(backing=b"/etc/passwd")),
    "qcow2 with an external data file": ("qcow2", pictures.qcow2(features=1 << 2)),
    "qcow2 with an unknown feature": ("qcow2", pictures.qcow2(features=1 << 9)),
    "qcow2 of an unknown version": ("qcow2", pictures.qcow2(version=4)),
    "qcow2 of version 1": ("qcow2", pictures.qcow2(version=1)),
    "encrypted qcow2": ("qcow2", pictures.qcow2(encryption=2)),
    "qcow2 cut in its header": ("qcow2", pictures.qcow2(length=100)),
    "qcow2 cut in its tables": ("qcow2", pictures.qcow2(length=3 * pictures.CLUSTER)),
    "qcow2 cut in its data": ("qcow2", pictures.qcow2(last_cluster=9)),
    "qcow2 with tables outside": ("qcow2", pictures.qcow2(l1_offset=1 << 40)),
    "qcow2 with unaligned tables": ("qcow2", pictures.qcow2(l1_offset=3 * pictures.CLUSTER + 8)),
    "qcow2 with a second table outside": ("qcow2", pictures.qcow2(l1_entry=(1 << 63) | (1 << 40))),
    "qcow2 with impossible clusters": ("qcow2", pictures.qcow2(cluster_bits=40)),
    "qcow2 of no size": ("qcow2", pictures.qcow2(virtual_size=0)),
    "qcow2 of absurd size": ("qcow2", pictures.qcow2(virtual_size=1 << 60)),
    "qcow2 that is also a partitioned disk": ("qcow2", pictures.qcow2_with_boot_sector()),
    "raw declared as qcow2": ("qcow2", pictures.raw()),
    "qcow2 declared as raw": ("raw", pictures.qcow2()),
    "qcow2 with a backing file declared as raw": ("raw", pictures.qcow2(backing=b"/etc/passwd")),
    "partitioned qcow2 declared as raw": ("raw", pictures.qcow2_with_boot_sector()),
    "VMDK descriptor declared as raw": ("raw", pictures.vmdk_descriptor()),
    "VMDK descriptor declared as qcow2": ("qcow2", pictures.vmdk_descriptor()),
    "sparse VMDK declared as raw": ("raw", pictures.vmdk_sparse()),
    "VHD declared as raw": ("raw", pictures.vhd()),
    "VDI declared as raw": ("raw", pictures.vdi()),
    "QED declared as raw": ("raw", pictures.qed()),
    "ISO declared as raw": ("raw", pictures.iso()),
    "LUKS declared as raw": ("raw", pictures.luks()),
    "nothing": ("qcow2", b""),
}


@pytest.mark.slow
@each_row("pieces", [dribbled, whole])
@each_row("case", BAD)
def test_bad_data_is_refused_and_nothing_is_kept(
    alice: Person, make: MakeImage, store: Path, case: str, pieces: Callable[[bytes], Iterator[bytes]]
) -> None:
    disk_format, data = BAD[case]
    image = make(disk_format=disk_format)
    with pytest.raises(ImageContentError):
        services.upload(alice.context, image.id, pieces(data))
    image.refresh_from_db()
    assert (image.status, image.size, image.checksum) == ("queued", None, None)
    assert files(store) == []


def test_a_raw_image_may_be_empty(alice: Person, make: MakeImage) -> None:
    """The standard command line uploads nothing where it has no terminal; Glance's image is active then."""
    image = make(disk_format="raw")
    services.upload(alice.context, image.id, [])
    image.refresh_from_db()
    assert (image.status, image.size, image.checksum) == ("active", 0, "d41d8cd98f00b204e9800998ecf8427e"), (
        "the MD5 of nothing"
    )


def test_after_a_refusal_good_data_is_taken(alice: Person, make: MakeImage) -> None:
    image = make(disk_format="qcow2")
    with pytest.raises(ImageContentError, match="does not match disk_format qcow2: it is raw"):
        services.upload(alice.context, image.id, [pictures.raw()])
    assert services.upload(alice.context, image.id, [pictures.qcow2()]).status == "active"


def test_an_interrupted_upload_leaves_the_record_queued(alice: Person, make: MakeImage, store: Path) -> None:
    image = make()

    def broken() -> Iterator[bytes]:
        yield pictures.raw(3 * pictures.MIB)
        assert files(store) == [f"{image.id}.part"]
        image.refresh_from_db()
        assert image.status == "saving"
        raise InterruptedUploadError("gone")

    with pytest.raises(InterruptedUploadError):
        services.upload(alice.context, image.id, broken())
    image.refresh_from_db()
    assert image.status == "queued"
    assert files(store) == []


def test_too_much_data_is_refused_while_it_arrives(
    alice: Person, make: MakeImage, store: Path, settings: pytest.FixtureRequest
) -> None:
    settings.MAX_IMAGE_SIZE = 4 * pictures.MIB  # type: ignore[attr-defined]
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100:
            sent += 1
            yield pictures.raw()

    with pytest.raises(TooLargeError):
        services.upload(alice.context, make().id, endless())
    assert sent <= 6
    assert files(store) == []


def test_the_announced_size_counts(alice: Person, make: MakeImage, store: Path) -> None:
    image = make()
    with pytest.raises(InvalidInputError, match="is not the 100 bytes that were announced"):
        services.upload(alice.context, image.id, [pictures.raw()], expected_size=100)
    assert files(store) == []


def test_formats_come_first(alice: Person, make: MakeImage) -> None:
    image = make(disk_format=None)
    with pytest.raises(InvalidInputError, match="must be set prior to saving data"):
        services.upload(alice.context, image.id, [b"x"])


def test_data_comes_once(alice: Person, make: MakeImage) -> None:
    image = make(data=pictures.raw())
    with pytest.raises(ConflictError):
        services.upload(alice.context, image.id, [pictures.partitioned()])
    assert selectors.open_data(image).read_bytes() == pictures.raw()


def test_only_the_project_uploads(charlie: Person, make: MakeImage, operator: Person) -> None:
    image = make()
    with pytest.raises(NotFoundError):
        services.upload(charlie.context, image.id, [b"x"])
    public = make(person=operator, visibility="public")
    with pytest.raises(ForbiddenError):
        services.upload(charlie.context, public.id, [b"x"])


def test_deleted_while_uploading(alice: Person, make: MakeImage, store: Path) -> None:
    image = make()

    def slow() -> Iterator[bytes]:
        yield pictures.raw()
        services.delete(alice.context, image.id)

    with pytest.raises(NotFoundError, match="may have been deleted during the upload"):
        services.upload(alice.context, image.id, slow())
    assert Image.objects.get(pk=image.id).status == "deleted"
    assert files(store) == []


@pytest.mark.django_db(transaction=True)
def test_one_of_two_uploads_gets_the_image(alice: Person, make: MakeImage, store: Path) -> None:
    image, context, gate = make(), alice.context, threading.Barrier(4)

    def run(number: int) -> object:
        def data() -> Iterator[bytes]:
            yield pictures.raw() + bytes([number])
            gate.wait(60)  # until the others have been refused

        gate.wait(60)
        try:
            return services.upload(context, image.id, data()).checksum
        except ConflictError as error:
            gate.wait(60)
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(4)))
    assert sum(isinstance(result, ConflictError) for result in results) == 3
    image.refresh_from_db()
    assert image.status == "active"
    assert image.checksum in results
    assert files(store) == [str(image.id)]


def test_an_upload_that_died_with_its_process_is_found(make: MakeImage, store: Path) -> None:
    image = make()
    old = timezone.now() - timedelta(minutes=5)
    store.mkdir()
    (store / f"{image.id}.part").write_bytes(b"half")
    Image.objects.update(status="saving", updated_at=old)
    with image_store.new_file(image.id):
        assert reaping.reap("images.clean_up", [Image]) == 0
    (store / f"{image.id}.part").write_bytes(b"half")
    assert reaping.reap("images.clean_up", [Image]) == 1
    image.refresh_from_db()
    assert image.status == "queued"
    assert files(store) == []


def test_an_upload_whose_record_alone_is_behind_is_completed(make: MakeImage, store: Path) -> None:
    """A copy of the records from before its end was put back, or its process died in between."""
    image = make(data=pictures.raw())
    whole = Image.objects.values("status", "size", "virtual_size", "checksum", "os_hash_value").get()
    old = timezone.now() - timedelta(minutes=5)
    Image.objects.update(status="saving", size=None, virtual_size=None, checksum="", os_hash_value="", updated_at=old)
    assert reaping.reap("images.clean_up", [Image]) == 1
    assert Image.objects.values("status", "size", "virtual_size", "checksum", "os_hash_value").get() == whole
    assert files(store) == [str(image.id)]


def test_a_young_upload_is_left_alone(make: MakeImage) -> None:
    make()
    Image.objects.update(status="saving")
    assert reaping.reap("images.clean_up", [Image]) == 0


@pytest.mark.django_db(transaction=True)
def test_delete_removes_the_bits_but_not_under_a_reader(alice: Person, make: MakeImage, store: Path) -> None:
    image = make(data=pictures.raw())
    with selectors.open_data(image).open("rb") as reading:
        services.delete(alice.context, image.id)
        assert files(store) == []
        assert reading.read() == pictures.raw()
    with pytest.raises(NotFoundError):
        services.delete(alice.context, image.id)
    with pytest.raises(InvalidInputError, match=f"Can not find requested image {image.id}"):
        selectors.usable_image_for(alice.context, image.id)


def test_what_can_be_launched(alice: Person, charlie: Person, operator: Person, make: MakeImage) -> None:
    mine, empty = make(data=pictures.raw()), make()
    public = make(person=operator, data=pictures.raw(), visibility="public")
    community = make(person=operator, data=pictures.raw(), visibility="community")
    for image in (mine, public, community):
        assert selectors.usable_image_for(alice.context, str(image.id)).id == image.id
    assert [image.id for image in selectors.usable_images_for(charlie.context)] == [public.id]
    with pytest.raises(InvalidInputError, match="is not active"):
        selectors.usable_image_for(alice.context, empty.id)
    for person, image_id in ((charlie, mine.id), (operator, mine.id), (alice, uuid.uuid4()), (alice, "nonsense")):
        with pytest.raises(InvalidInputError, match="Can not find requested image") as caught:
            selectors.usable_image_for(person.context, image_id)
        assert caught.value.field == "imageRef"
