"""Adding images: fetched, verified, replaced by newer versions, and nothing left behind of a failure."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from provisioning.catalogue.models import CatalogueImage
from provisioning.catalogue.selectors import Offer, State, offer_for
from provisioning.catalogue.services import add, refresh
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.common.values.ids import NOBODY
from provisioning.compute.models import Instance
from provisioning.events.models import Event
from provisioning.images import services as images
from provisioning.images.errors import DownloadError, ImportUriError
from provisioning.images.models import Image, ImageTask
from provisioning.images.services import imports, sources
from tests.image.catalogue.publishing import DATA, Publisher, document, entry, serve_index
from tests.image.conftest import files
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.jobs import drain, run_periodic
from tests.support.tables import each_row
from tests.support.web import Handler, Web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

ADDRESS = {"file": "tiny.qcow2"}


def offer(person: Person) -> Offer:
    return offer_for(person.context, "tiny")


def add_now(person: Person, *, for_all: bool = False) -> None:
    add(person.context, "tiny", for_all=for_all)
    drain()


def live() -> list[Image]:
    return list(Image.objects.exclude(status="deleted").order_by("created_at"))


def test_an_image_from_the_folder_is_added(alice: Person, folder: Publisher, store: Path) -> None:
    folder.publish(entry(properties={"hw_disk_bus": "virtio"}))
    add(alice.context, "tiny", for_all=False)
    assert (offer(alice).state, offer(alice).percent) == (State.FETCHING, 0)
    drain()
    image = Image.objects.get()
    assert (image.status, image.visibility, image.project_id) == ("active", "private", alice.project_id)
    assert (image.name, image.min_disk, image.min_ram, image.disk_format) == ("Tiny Linux", 1, 64, "qcow2")
    assert image.properties == {
        "architecture": "x86_64",
        "os_distro": "tiny",
        "os_type": "linux",
        "os_version": "1.0",
        "os_admin_user": "ada",
        "hw_disk_bus": "virtio",
    }
    assert (store / str(image.id)).read_bytes() == DATA
    assert (offer(alice).state, offer(alice).version) == (State.ADDED, "1.0")


def test_an_image_from_a_site_is_added_for_all(
    alice: Person, operator: Person, folder: Publisher, site: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "REPORT_EVERY", 0.0)
    serve_index(site, folder, document(entry()))
    refresh()
    add_now(operator, for_all=True)
    assert (Image.objects.get().status, Image.objects.get().visibility) == ("active", "public")
    assert (offer(alice).state, offer(alice).for_all) == (State.ADDED, True)
    assert (ImageTask.objects.get().done, ImageTask.objects.get().total) == (len(DATA), len(DATA))
    assert Event.objects.filter(topic="everybody", kind="catalogue", payload={"entry": "tiny"}).count() == 2
    with pytest.raises(ConflictError, match="already added for all projects"):
        add(alice.context, "tiny", for_all=False)


@each_row("compression, packed", [("xz", lzma.compress(DATA)), ("gz", gzip.compress(DATA))])
def test_a_compressed_image_is_unpacked(
    alice: Person, folder: Publisher, store: Path, compression: str, packed: bytes
) -> None:
    (folder.folder / "tiny.packed").write_bytes(packed)
    checksum = {"algorithm": "sha512", "value": hashlib.sha512(packed).hexdigest()}
    folder.publish(entry(file="tiny.packed", compression=compression, checksum=checksum, version=compression))
    add_now(alice)
    image = Image.objects.get(status="active")
    assert (store / str(image.id)).read_bytes() == DATA
    assert (image.size, ImageTask.objects.latest("created_at").done) == (len(DATA), len(DATA))
    images.delete(alice.context, image.id)


def wrong(folder: Publisher) -> dict[str, Any]:
    return {"checksum": {"algorithm": "sha256", "value": "0" * 64}}


def damaged(folder: Publisher) -> dict[str, Any]:
    """Cut a compressed file whose checksum is right."""
    packed = lzma.compress(DATA)[:-20]
    (folder.folder / "cut.xz").write_bytes(packed)
    checksum = {"algorithm": "sha256", "value": hashlib.sha256(packed).hexdigest()}
    return {"file": "cut.xz", "compression": "xz", "checksum": checksum}


def bomb(folder: Publisher) -> dict[str, Any]:
    """Unpack to more than an image may have."""
    packed = gzip.compress(bytes(8 << 20))
    (folder.folder / "bomb.gz").write_bytes(packed)
    checksum = {"algorithm": "sha256", "value": hashlib.sha256(packed).hexdigest()}
    return {"file": "bomb.gz", "compression": "gz", "disk_format": "raw", "checksum": checksum}


def absent(folder: Publisher) -> dict[str, Any]:
    return {"file": "absent.qcow2"}


def other_format(folder: Publisher) -> dict[str, Any]:
    return {"disk_format": "vmdk"}


@each_row(
    "case, reason",
    [
        (wrong, "checksum of tiny.qcow2 is wrong"),
        (damaged, "cannot be decompressed"),
        (bomb, "larger than"),
        (absent, "has no file absent.qcow2"),
        (other_format, "disk_format vmdk"),
    ],
)
def test_a_wrong_file_leaves_nothing_but_the_reason(
    alice: Person, folder: Publisher, store: Path, settings: Settings, case: Any, reason: str
) -> None:
    settings.MAX_IMAGE_SIZE = 4 << 20 if case is bomb else settings.MAX_IMAGE_SIZE
    folder.publish(entry(version=case.__name__, **case(folder)))
    add_now(alice)
    assert (live(), files(store)) == ([], [])
    assert offer(alice).state == State.ABSENT
    assert reason in offer(alice).fault
    assert not CatalogueImage.objects.exclude(image=None).exists()


def test_a_failed_one_can_be_added_again(alice: Person, folder: Publisher) -> None:
    folder.publish(entry(**wrong(folder)))
    add_now(alice)
    folder.publish(entry())
    add_now(alice)
    assert (offer(alice).state, offer(alice).fault, len(live())) == (State.ADDED, "", 1)


def test_a_site_that_breaks_off_leaves_nothing(
    alice: Person, folder: Publisher, site: Web, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(DATA)))
        handler.end_headers()
        handler.wfile.write(DATA[: len(DATA) // 2])

    serve_index(site, folder, document(entry()))
    refresh()
    site.answers["/catalogue/tiny.qcow2"] = half
    add_now(alice)
    assert (live(), files(store)) == ([], [])
    assert "broke off" in offer(alice).fault


def test_an_index_cannot_point_into_the_cloud(
    alice: Person, folder: Publisher, site: Web, settings: Settings, store: Path
) -> None:
    folder.write(b"")
    serve_index(site, folder, document(entry(file="http://10.0.0.1/disk"), entry(id="led", file=site.url("/led"))))
    site.redirect("/led", "http://169.254.169.254/")
    refresh()
    with pytest.raises(ImportUriError):
        add(alice.context, "tiny", for_all=False)
    assert (Image.objects.count(), CatalogueImage.objects.count()) == (0, 0)
    add(alice.context, "led", for_all=False)
    drain()
    assert "inside this cloud" in offer_for(alice.context, "led").fault
    settings.IMPORT_ALLOWED_HOSTS = ["images.example.org"]
    with pytest.raises(ImportUriError, match="not among the allowed hosts"):
        add(alice.context, "led", for_all=False)


def test_users_cannot_read_files_of_the_folder(alice: Person, folder: Publisher) -> None:
    image = images.create(alice.context, name="x", disk_format="qcow2", container_format="bare")
    request = images.ImportRequest("catalogue", uri="tiny.qcow2")
    with pytest.raises(Exception, match="Unknown import method"):
        images.Import.begin(alice.context, image.id, request)


def test_the_same_version_is_added_once(alice: Person, bob: Person, folder: Publisher, charlie: Person) -> None:
    folder.publish(entry())
    add(alice.context, "tiny", for_all=False)
    with pytest.raises(ConflictError, match="already being fetched"):
        add(alice.context, "tiny", for_all=False)
    drain()
    with pytest.raises(ConflictError, match="already added to this project"):
        add(alice.context, "tiny", for_all=False)
    assert offer(charlie).state == State.ABSENT, "another project adds its own"
    add_now(charlie)
    assert len(live()) == 2
    images.delete(alice.context, live()[0].id)
    assert offer(alice).state == State.ABSENT
    add_now(alice)
    assert offer(alice).state == State.ADDED


def test_who_may_not_publish_adds_to_the_own_project_only(alice: Person, bob: Person, folder: Publisher) -> None:
    folder.publish(entry())
    with pytest.raises(ForbiddenError):
        add(alice.context, "tiny", for_all=True)
    with pytest.raises(ForbiddenError):
        add(bob.context, "tiny", for_all=False)
    with pytest.raises(NotFoundError):
        add(alice.context, "nothing", for_all=False)
    assert Image.objects.count() == 0


def test_a_newer_version_replaces_an_older_one(
    cloud: Cloud, alice: Person, folder: Publisher, time_machine: Any
) -> None:
    time_machine.move_to("2026-06-01T12:00:00Z")
    folder.publish(entry())
    add_now(alice)
    old = Image.objects.get(name="Tiny Linux")
    server = cloud.launch(alice.context, image_id=str(old.id))
    folder.publish(entry(version="1.1", checksum={"algorithm": "sha256", "value": "0" * 64}))
    assert (offer(alice).state, offer(alice).version) == (State.NEWER, "1.0")
    add_now(alice)
    old.refresh_from_db()
    assert (offer(alice).state, old.hidden) == (State.NEWER, False), "a failed one replaces nothing"
    assert "checksum" in offer(alice).fault
    folder.publish(entry(version="1.1"))
    add_now(alice)
    old.refresh_from_db()
    assert (offer(alice).state, old.hidden, old.status) == (State.ADDED, True, "active")
    time_machine.move_to("2026-06-01T14:00:00Z")
    run_periodic("catalogue.remove_replaced")
    old.refresh_from_db()
    assert old.status == "active", "a server was launched from it"
    Instance.objects.filter(pk=server.pk).update(image_id=NOBODY)
    Image.objects.filter(pk=old.pk).update(protected=True)
    run_periodic("catalogue.remove_replaced")
    old.refresh_from_db()
    assert old.status == "active", "it is protected"
    Image.objects.filter(pk=old.pk).update(protected=False)
    run_periodic("catalogue.remove_replaced")
    old.refresh_from_db()
    assert old.status == "deleted"
    Instance.objects.filter(pk=server.pk).update(image_id=old.pk)
    assert CatalogueImage.objects.get(version="1.1").image_id is not None


def test_old_failures_are_forgotten(alice: Person, folder: Publisher, time_machine: Any) -> None:
    time_machine.move_to("2026-06-01T12:00:00Z")
    folder.publish(entry(**wrong(folder)))
    add_now(alice)
    run_periodic("catalogue.remove_replaced")
    assert offer(alice).fault
    time_machine.move_to("2026-06-09T12:00:00Z")
    run_periodic("catalogue.remove_replaced")
    assert (offer(alice).fault, CatalogueImage.objects.count()) == ("", 0)


def test_an_image_that_is_deleted_while_it_arrives(alice: Person, folder: Publisher, store: Path) -> None:
    folder.publish(entry())
    add(alice.context, "tiny", for_all=False)
    images.delete(alice.context, Image.objects.get().id)
    drain()
    assert (offer(alice).state, offer(alice).fault, files(store)) == (State.ABSENT, "", [])


def test_an_import_goes_on_after_the_death_of_its_worker(
    alice: Person, folder: Publisher, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DeadError(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise DeadError

    folder.publish(entry())
    add(alice.context, "tiny", for_all=False)
    with monkeypatch.context() as patch:
        patch.setattr(imports.intake, "receive", die)
        with pytest.raises(DeadError):
            drain()
    assert offer(alice).state == State.FETCHING
    lost = timedelta(seconds=imports.Import.timeouts["pending"].seconds + 1)
    ImageTask.objects.update(updated_at=timezone.now() - lost)
    run_periodic("images.clean_up")
    drain()
    assert (offer(alice).state, len(live())) == (State.ADDED, 1)


def test_an_internal_error_is_given_up_with_a_reason(alice: Person, folder: Publisher, store: Path) -> None:
    folder.publish(entry())
    add(alice.context, "tiny", for_all=False)
    imports.Import().given_up(ImageTask.objects.get().id)
    assert "internal reason" in offer(alice).fault
    assert live() == []


@contextmanager
def served(monkeypatch: pytest.MonkeyPatch, content: bytes) -> Iterator[None]:
    """Let every address have this content."""

    @contextmanager
    def web_file(uri: str, *, seconds: float, secure: bool) -> Iterator[Any]:
        assert secure, "a list of checksums is only read by https"

        class Remote(list[bytes]):
            shown = uri

        yield Remote([content])

    with monkeypatch.context() as patch:
        patch.setattr(sources, "web_file", web_file)
        yield


A, B = "a" * 64, "b" * 64


@each_row(
    "content, name, found",
    [
        (f"{A}  x.img\n{B} *y.img\n", "x.img", A),
        (f"{A}  x.img\n{B} *y.img\n", "y.img", B),
        (f"{A}  ./x.img\n{B}  ./y.img\n", "x.img", A),
        (
            f"-----BEGIN PGP SIGNED MESSAGE-----\n# x.img: 1 bytes\nSHA256 (x.img) = {A}\nSHA256 (y.img) = {B}\n",
            "y.img",
            B,
        ),
        (f"{A}\n", "x.img", A),
        (f"{A}  x-Build1.2.img\n", "x.img", A),
    ],
)
def test_a_published_list_of_checksums_is_read(
    monkeypatch: pytest.MonkeyPatch, content: str, name: str, found: str
) -> None:
    with served(monkeypatch, content.encode()):
        assert sources.published_digest("https://example.org/SUMS", "sha256", name) == found


@each_row(
    "content",
    [b"", b"\xff\xfe", f"{A}  x.img\n{B}  y.img\n".encode(), f"{'a' * 32}  z.img\n".encode(), b"0" * (2 << 20)],
)
def test_a_list_without_the_checksum_is_refused(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    with served(monkeypatch, content), pytest.raises(DownloadError):
        sources.published_digest("https://example.org/SUMS", "sha256", "z.img")


def test_a_list_by_http_is_refused(site: Web) -> None:
    with pytest.raises(DownloadError, match="not an https address"):
        sources.published_digest(site.serve("/SUMS", A.encode()), "sha256", "x.img")
    assert site.asked == []
