"""What a member tries with images, to pass a limit or to harm others."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from compute_agent.contract.build import ImageRef, InstanceSpec, RescueImage
from compute_agent.contract.commands import RescueRequest
from compute_agent.contract.messages import SERVER, Command, encode
from compute_agent.disk_formats import vhd
from compute_agent.disk_formats.reading import DiskFormatError
from compute_agent.link.portal_link import MAX_FRAME
from provisioning.common.errors import InvalidInputError, TooLargeError
from provisioning.images import services
from provisioning.images.data import web_download
from provisioning.images.errors import DownloadError, ImageContentError
from provisioning.images.models import Image
from provisioning.images.records.fields import MAX_PROPERTIES_SIZE, MAX_VALUE
from provisioning.images.services import uploads
from tests.agent.cast import make_spec
from tests.image import pictures
from tests.image.asking import V2, add, patch
from tests.image.conftest import MakeImage, files
from tests.support.cast import Api, Person
from tests.support.small_disk import small_disk
from tests.support.tables import each_row
from tests.support.web import answers_of

FULL = MAX_PROPERTIES_SIZE // MAX_VALUE
"""Properties of the longest value that an image may have."""


# ----- properties -----------------------------------------------------------------------------------------------------


def test_the_properties_of_an_image_are_bounded_together(alice: Person, make: MakeImage) -> None:
    image = make(properties={f"p{number}": "x" * (MAX_VALUE - 8) for number in range(FULL)})
    assert patch(alice, image.id, add("/more", "x" * 100)).status_code == 413
    assert patch(alice, image.id, add("/p0", "x")).status_code == 200
    assert patch(alice, image.id, add("/more", "x" * 100)).status_code == 200
    body = {f"p{number}": "x" * MAX_VALUE for number in range(FULL + 1)}
    assert Api(alice).post(f"{V2}/images", body).status_code == 413


def test_the_properties_of_images_never_make_an_order_too_long_for_its_host() -> None:
    """A host that cannot read an order loses its link, and gets the same order again: nobody's servers would go on."""
    worst = {"os_command_line": "\x01" * MAX_PROPERTIES_SIZE}

    def with_worst(image: ImageRef) -> ImageRef:
        return msgspec.structs.replace(image, properties=worst)

    spec: InstanceSpec = make_spec()
    image = with_worst(spec.image)
    rescue = RescueImage(image=image, kernel=image, ramdisk=image)
    spec = msgspec.structs.replace(spec, image=image, kernel=image, ramdisk=image, rescue=rescue)
    order = Command(
        id="x", subject_kind=SERVER, subject_id=spec.uuid, generation=1, body=RescueRequest(instance=spec, ran=True)
    )
    assert len(encode(order)) < MAX_FRAME


# ----- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("becomes", "error"), [("qcow2", ImageContentError), ("vhd", ImageContentError), (None, InvalidInputError)]
)
def test_data_is_judged_by_the_format_that_the_record_keeps(
    alice: Person,
    make: MakeImage,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    becomes: str | None,
    error: type[Exception],
) -> None:
    """The format could be changed between the look at the record and the beginning of the upload."""
    image, begin = make(disk_format="raw"), uploads.begin

    def late(task: Any, subject: Image) -> None:
        services.update(alice.context, subject.id, {"disk_format": becomes})
        begin(task, subject)

    monkeypatch.setattr(uploads, "begin", late)
    with pytest.raises(error):
        services.upload(alice.context, image.id, [pictures.raw()])
    image.refresh_from_db()
    assert (image.status, image.disk_format, files(store)) == ("queued", becomes, [])


def test_uploads_side_by_side_do_not_pass_the_storage_quota_together(
    alice: Person, make: MakeImage, store: Path, settings: Settings
) -> None:
    settings.IMAGE_STORAGE_QUOTA = 3 * pictures.MIB
    first, second = make(), make()

    def meanwhile() -> Iterator[bytes]:
        yield pictures.raw(pictures.MIB)
        services.upload(alice.context, second.id, [pictures.raw(2 * pictures.MIB)])
        yield pictures.raw(pictures.MIB)

    with pytest.raises(TooLargeError):
        services.upload(alice.context, first.id, meanwhile())
    first.refresh_from_db()
    assert (first.status, first.size, files(store)) == ("queued", None, [str(second.id)])
    services.upload(alice.context, first.id, [pictures.raw(pictures.MIB)])


def test_staged_data_beside_an_upload_does_not_pass_the_storage_quota(
    alice: Person,
    make: MakeImage,
    store: Path,
    settings: Settings,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    settings.IMAGE_STORAGE_QUOTA = 3 * pictures.MIB
    first, second = make(), make()

    def meanwhile() -> Iterator[bytes]:
        yield pictures.raw(2 * pictures.MIB)
        services.upload(alice.context, second.id, [pictures.raw(2 * pictures.MIB)])

    with django_capture_on_commit_callbacks(execute=True), pytest.raises(TooLargeError):
        services.stage(alice.context, first.id, meanwhile())
    first.refresh_from_db()
    assert (first.status, files(store)) == ("queued", [str(second.id)])


@pytest.mark.parametrize("way", ["file", "stage"])
def test_a_store_that_fills_up_in_the_middle_says_so_and_keeps_nothing(
    alice: Person, make: MakeImage, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """What was free a moment ago somebody else has written by now."""
    monkeypatch.setattr("provisioning.images.data.store.has_room", lambda more=0: True)
    image, api = make(), Api(alice)
    with small_disk(tmp_path / "small", "1M") as folder:
        settings.IMAGE_DIR = folder
        answer = api.client.put(
            f"{V2}/images/{image.id}/{way}",
            data=pictures.raw(3 * pictures.MIB),
            content_type="application/octet-stream",
            headers=api.headers,
        )
        left = files(folder)
    image.refresh_from_db()
    assert (answer.status_code, image.status, left) == (503, "queued", [])


def test_the_table_of_a_vhd_is_bounded(tmp_path: Path) -> None:
    """Every entry is looked at: of a table as large as the file that would take minutes."""
    size, entries = 80 << 20, 16 << 20
    footer = struct.pack(">8sIIQI4sI4sQQHBBII16sB", b"conectix", 2, 0, 512, 0, b"", 0, b"", 1, 1, 1, 1, 1, 3, 0, b"", 0)
    header = struct.pack(">8sQQIIII16s", b"cxsparse", 0, 2048, 0, entries, 512, 0, b"")
    path = tmp_path / "bomb"
    with path.open("w+b") as file:
        file.write(footer.ljust(512, b"\0") + header)
        file.truncate(size)
        with pytest.raises(DiskFormatError):
            vhd.check(file, size)


def test_a_name_with_hundreds_of_silent_addresses_does_not_keep_a_worker(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def silent(address: tuple[str, int], timeout: float) -> socket.socket:
        tried.append(address[0])
        raise TimeoutError

    many = [f"93.184.{number}.1" for number in range(200)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **more: answers_of(*many))
    monkeypatch.setattr(socket, "create_connection", silent)
    settings.IMPORT_ALLOWED_PORTS, settings.IMPORT_ALLOWED_HOSTS, settings.IMPORT_DENIED_HOSTS = [443], [], []
    with pytest.raises(DownloadError), web_download.web_file("https://many.example/image"):
        raise AssertionError
    assert len(tried) == web_download.MOST_ADDRESSES
    settings.IMPORT_TIMEOUT, tried[:] = 0, []
    with pytest.raises(DownloadError), web_download.web_file("https://many.example/image"):
        raise AssertionError
    assert tried == []


# ----- lists ----------------------------------------------------------------------------------------------------------

HEAVY = {
    "tags": "&".join(f"tag={number}" for number in range(51)),
    "properties": "&".join(f"p{number}=x" for number in range(51)),
    "sort": "sort=" + ",".join(["name:asc", "size:desc"] * 200),
    "sort keys": "&".join(["sort_key=name"] * 400),
    "values": "id=in:" + ",".join(["x"] * 1001),
}


@each_row("what", HEAVY)
def test_a_list_is_narrowed_and_sorted_by_few_things(alice: Person, make: MakeImage, what: str) -> None:
    """Hundreds of sort keys behind a marker made a statement that SQLite refuses: a 500 for anybody with a token."""
    marker = make().id
    assert Api(alice).get(f"{V2}/images?{HEAVY[what]}&marker={marker}").status_code == 400
