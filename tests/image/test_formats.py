"""Which formats are taken, and what is looked for in each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from compute_agent.disk_formats.contents import contents
from portal.dashboard.images.forms import formats
from provisioning.common.environment import chosen
from provisioning.common.errors import InvalidInputError
from provisioning.images import selectors, services
from provisioning.images.errors import ImageContentError
from provisioning.images.models import Image
from tests.image import pictures
from tests.image.asking import V2, patch, replace
from tests.image.conftest import MakeImage, files
from tests.support import disks
from tests.support.boot_disks import BIOS_BOOT, ESP, LINUX, cd, gpt
from tests.support.cast import Api, Person
from tests.support.landing import diagonal


def pieces(path: Path, size: int) -> Iterator[bytes]:
    data = path.read_bytes()
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.slow
@diagonal(size=[3001, 1 << 21], name=list(disks.GOOD))
def test_a_foreign_disk_is_taken_and_its_size_known(
    alice: Person, make: MakeImage, tmp_path: Path, name: str, size: int
) -> None:
    disk_format, driver, options = disks.GOOD[name]
    image = make(disk_format=disk_format)
    path, places = disks.make(tmp_path, driver, options), (0, disks.SIZE // 2, disks.SIZE - 1000)
    taken = services.upload(alice.context, image.id, pieces(path, size))
    assert (taken.status, taken.virtual_size) == ("active", disks.SIZE)
    with path.open("rb") as file:
        disk = contents(disk_format, file, disks.SIZE)
        parts = [disk.read(place, 1000) for place in places]
    assert parts == [disks.raw_disk()[place : place + 1000] for place in places]
    assert selectors.usable_image_for(alice.context, image.id).id == image.id


def test_the_firmware_that_an_image_asks_for_is_found(alice: Person, make: MakeImage) -> None:
    for disk_format, data, result in (
        ("raw", gpt(ESP, LINUX), "uefi"),
        ("raw", gpt(BIOS_BOOT, ESP, code=b"\xeb"), "bios or uefi"),
        ("iso", cd(0xEF), "uefi"),
        ("raw", b"x", ""),
    ):
        image = make(disk_format=disk_format, data=data)
        assert Image.objects.get(id=image.id).found_firmware == result
        assert image.properties == {}


def test_a_vmdk_with_a_footer_is_taken(alice: Person, make: MakeImage, tmp_path: Path) -> None:
    image = services.upload(
        alice.context, make(disk_format="vmdk").id, pieces(disks.vmdk_with_footer(tmp_path), 1 << 20)
    )
    assert (image.status, image.virtual_size) == ("active", disks.SIZE)


@pytest.mark.parametrize("name", disks.BAD)
def test_a_hostile_disk_is_refused_and_nothing_is_kept(
    alice: Person, make: MakeImage, store: Path, tmp_path: Path, name: str
) -> None:
    maker, _ = disks.BAD[name]
    image = make(disk_format=name.removeprefix("fixed_").partition("_")[0])
    with pytest.raises(ImageContentError):
        services.upload(alice.context, image.id, pieces(maker(tmp_path), 1 << 20))
    image.refresh_from_db()
    assert (image.status, files(store)) == ("queued", [])


@diagonal(declared=["raw", "qcow2", "vmdk", "vhd", "vhdx", "vdi", "iso", "ami", "aki"], name=list(disks.GOOD))
def test_a_disk_is_what_it_is_declared_to_be(
    alice: Person, make: MakeImage, tmp_path: Path, name: str, declared: str
) -> None:
    disk_format, driver, options = disks.GOOD[name]
    if declared == disk_format or name == "fixed VHD":  # a raw disk and 512 bytes more: it may be called one
        return
    image = make(disk_format=declared, container_format=declared if declared.startswith("a") else "bare")
    with pytest.raises(ImageContentError, match=f"does not match disk_format {declared}"):
        services.upload(alice.context, image.id, pieces(disks.make(tmp_path, driver, options), 1 << 20))


def test_what_the_operator_does_not_let_in_is_refused_with_the_reason(
    alice: Person, make: MakeImage, settings: Settings, tmp_path: Path
) -> None:
    before, active = make(disk_format="vmdk"), make(disk_format="iso", data=disks.iso())
    settings.IMAGE_DISK_FORMATS = ["raw", "qcow2"]
    api, path = Api(alice), f"{V2}/images/{before.id}"
    refused = api.post(f"{V2}/images", {"disk_format": "vmdk", "container_format": "bare"})
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "The operator of this cloud does not allow images of disk_format vmdk, only raw, qcow2.",
    )
    assert patch(alice, before.id, replace("/disk_format", "vdi")).status_code == 400
    with pytest.raises(InvalidInputError, match="does not allow images of disk_format vmdk"):
        services.upload(alice.context, before.id, pieces(disks.make(tmp_path, "vmdk"), 1 << 20))
    uri = {"name": "web-download", "uri": "http://example.org/"}
    assert api.post(f"{path}/import", {"method": uri}).status_code == 400
    for name, at in (("image", "properties"), ("images", "properties/images/items/properties")):
        result = api.get(f"{V2}/schemas/{name}").json()
        for part in at.split("/"):
            result = result[part]
        assert result["disk_format"]["enum"] == [None, "raw", "qcow2"]
    assert selectors.usable_image_for(alice.context, active.id).id == active.id, "what is there stays"
    assert formats() == [("raw", "raw"), ("qcow2", "qcow2")]


@pytest.mark.parametrize("listed", ["raw", "vmdk,vhd", "raw,qcow2,floppy"])
def test_a_wrong_list_of_formats_stops_the_start(monkeypatch: pytest.MonkeyPatch, listed: str) -> None:
    monkeypatch.setenv("NOVELLA_IMAGE_DISK_FORMATS", listed)
    with pytest.raises(ImproperlyConfigured, match="raw, qcow2, vmdk, with raw and qcow2 in it"):
        chosen("NOVELLA_IMAGE_DISK_FORMATS", ("raw", "qcow2", "vmdk"), ("raw", "qcow2"))


@pytest.mark.parametrize("hybrid", [True, False])
def test_a_cd_is_taken(alice: Person, make: MakeImage, hybrid: bool) -> None:
    image = make(data=disks.iso(hybrid=hybrid), disk_format="iso")
    assert (image.status, image.virtual_size) == ("active", len(disks.iso()))


def test_no_cd_is_refused(alice: Person, make: MakeImage) -> None:
    with pytest.raises(ImageContentError, match="does not match disk_format iso: it is raw"):
        make(data=pictures.raw(), disk_format="iso")


@pytest.mark.parametrize("kind", ["aki", "ari"])
def test_a_kernel_or_ramdisk_is_taken_but_is_no_disk(alice: Person, make: MakeImage, kind: str) -> None:
    image = make(data=b"not a disk at all", disk_format=kind, container_format=kind)
    assert image.status == "active"
    with pytest.raises(InvalidInputError, match=f"{kind} is not a disk"):
        selectors.usable_image_for(alice.context, image.id)
    assert image.id not in [row.id for row in selectors.usable_images_for(alice.context)]


def test_a_machine_image_boots_as_a_raw_disk(alice: Person, make: MakeImage) -> None:
    image = make(data=pictures.partitioned(), disk_format="ami", container_format="ami")
    assert selectors.usable_image_for(alice.context, image.id).id == image.id


@pytest.mark.parametrize(("disk", "container"), [("qcow2", "aki"), ("aki", "ari"), ("raw", "ami")])
def test_a_container_holds_what_it_is_for(alice: Person, make: MakeImage, disk: str, container: str) -> None:
    with pytest.raises(InvalidInputError, match="Invalid mix of disk and container formats"):
        make(data=pictures.raw(), disk_format=disk, container_format=container)


@pytest.mark.parametrize(
    ("name", "value"), [("disk_format", "ploop"), ("container_format", "ova"), ("container_format", "docker")]
)
def test_what_no_host_can_use_is_refused_at_once(alice: Person, make: MakeImage, name: str, value: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make(**{name: value})
    assert caught.value.field == name
