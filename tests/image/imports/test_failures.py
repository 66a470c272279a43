"""Imports that fail, are deleted meanwhile, or begun twice."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from provisioning.common.errors import GoneError
from provisioning.images import services
from provisioning.images.data import store as image_store
from provisioning.images.models import Image
from provisioning.images.services import imports
from tests.image import pictures
from tests.image.conftest import MakeImage, files
from tests.image.imports.importing import DATA, V2, ask, put, show, task_of
from tests.support.cast import Api, Person
from tests.support.jobs import drain
from tests.support.web import Handler, Web

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def failing(web: Web, case: str, settings: Settings) -> tuple[str, str]:
    """A URL whose import fails, and what the reason says."""
    if case == "missing":
        return web.url("/missing"), "HTTP 404"
    if case == "another format":
        return web.serve("/x", pictures.qcow2()), "does not match disk_format raw"
    if case == "nothing":
        return web.serve("/x", b""), "empty"
    if case == "announced too large":
        settings.MAX_IMAGE_SIZE = pictures.MIB
        return web.serve("/x", pictures.raw(2 * pictures.MIB)), "larger than"
    if case == "too large":
        settings.MAX_IMAGE_SIZE = pictures.MIB
        data = pictures.raw(2 * pictures.MIB)
        web.answers["/x"] = lambda handler: handler.say(
            200, b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data), Transfer_Encoding="chunked"
        )
        return web.url("/x"), "larger than"
    web.redirect("/x", "http://10.0.0.1/")
    return web.url("/x"), "inside this cloud"


@pytest.mark.parametrize(
    "case", ["missing", "another format", "nothing", "announced too large", "too large", "redirect"]
)
def test_an_import_that_fails_leaves_an_empty_image_and_the_reason(
    alice: Person, make: MakeImage, web: Web, store: Path, settings: Settings, case: str
) -> None:
    image = make()
    uri, words = failing(web, case, settings)
    assert ask(alice, image, uri).status_code == 202
    drain()
    shown, task = show(alice, image), task_of(image)
    assert (shown["status"], shown["size"], shown["os_glance_failed_import"]) == ("queued", None, "local")
    assert "os_glance_import_task" not in shown
    assert (task.status, task.result) == ("failure", None)
    assert words in task.message
    assert files(store) == []
    settings.MAX_IMAGE_SIZE = 1 << 40
    assert ask(alice, image, web.serve("/good", pictures.raw())).status_code == 202
    drain()
    assert show(alice, image)["status"] == "active"


def test_staged_data_that_is_refused_is_removed(alice: Person, make: MakeImage, store: Path) -> None:
    image = make(disk_format="qcow2")
    put(alice, image, pictures.qcow2(backing=b"/etc/passwd"))
    ask(alice, image)
    drain()
    assert (show(alice, image)["status"], show(alice, image)["size"], files(store)) == ("queued", None, [])
    assert "not safe" in task_of(image).message


@pytest.mark.parametrize("staged", [False, True])
def test_an_image_that_is_deleted_before_its_import(
    alice: Person, make: MakeImage, web: Web, store: Path, staged: bool
) -> None:
    image = make()
    if staged:
        put(alice, image, pictures.raw())
    ask(alice, image, None if staged else web.serve("/x", pictures.raw()))
    assert Api(alice).delete(f"{V2}/images/{image.id}").status_code == 204
    drain()
    assert (task_of(image).status, files(store)) == ("failure", [])
    assert Image.objects.get(pk=image.id).status == "deleted"


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("looked", [True, False], ids=["noticed", "at the end"])
def test_an_image_that_is_deleted_during_its_import(
    alice: Person,
    make: MakeImage,
    web: Web,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    staged: bool,
    looked: bool,
) -> None:
    monkeypatch.setattr(imports, "REPORT_EVERY", 0.0 if looked else 1000.0)
    image = make()
    data = pictures.raw(4 * pictures.MIB)
    if staged:
        put(alice, image, data)
    ask(alice, image, None if staged else web.serve("/x", data))
    original = imports.intake.inspection.Inspector.__iter__
    context = alice.context

    def deleting(inspector: Any) -> Iterator[bytes]:
        for number, piece in enumerate(original(inspector)):
            if number == 1:
                services.delete(context, image.id)
            yield piece

    monkeypatch.setattr(imports.intake.inspection.Inspector, "__iter__", deleting)
    drain()
    assert task_of(image).status == "failure"
    assert "deleted" in task_of(image).message
    assert (Image.objects.get(pk=image.id).status, files(store)) == ("deleted", [])


def test_data_is_staged_for_an_image_that_is_deleted_meanwhile(alice: Person, make: MakeImage, store: Path) -> None:
    image = make()

    def slow() -> Iterator[bytes]:
        yield b"a beginning"
        services.delete(alice.context, image.id)

    with pytest.raises(GoneError):
        services.stage(alice.context, image.id, slow())
    assert (Image.objects.get(pk=image.id).status, files(store)) == ("deleted", [])


def test_an_upload_to_an_image_that_is_deleted_meanwhile_is_gone(
    alice: Person, make: MakeImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make()
    publish = image_store.publish
    context = alice.context

    def deleting(*arguments: Any) -> None:
        publish(*arguments)
        services.delete(context, image.id)

    monkeypatch.setattr(image_store, "publish", deleting)
    path = f"{V2}/images/{image.id}/file"
    answer = Api(alice).client.generic("PUT", path, pictures.raw(), content_type=DATA, headers=alice.headers)
    assert answer.status_code == 410


def test_our_own_fault_is_tried_again_and_then_given_up(
    alice: Person, make: MakeImage, web: Web, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make()
    ask(alice, image, web.serve("/x", pictures.raw()))

    def broken(*_: Any, **__: Any) -> None:
        raise OSError("the disk is on fire at /secret/path")

    monkeypatch.setattr(image_store, "publish", broken)
    with pytest.raises(OSError, match="on fire"):
        drain()
    assert (show(alice, image)["status"], task_of(image).status) == ("importing", "processing")
    imports.Import().given_up(task_of(image).id)
    shown, task = show(alice, image), task_of(image)
    assert (shown["status"], task.status, files(store)) == ("queued", "failure", [])
    assert "/secret" not in task.message


def test_a_task_that_is_delivered_again_does_no_harm(alice: Person, make: MakeImage, web: Web, store: Path) -> None:
    image = make()
    ask(alice, image, web.serve("/x", pictures.raw()))
    task = task_of(image)
    drain()
    imports.Import().run(task.id)
    imports.Import().run(uuid.uuid4())
    assert len(web.asked) == 1
    assert (show(alice, image)["status"], task_of(image).status, files(store)) == ("active", "success", [str(image.id)])


@pytest.mark.both_databases
def test_two_workers_with_one_import_do_not_disturb_each_other(
    alice: Person, make: MakeImage, web: Web, store: Path
) -> None:
    image = make()
    begun, go_on = threading.Event(), threading.Event()
    data = pictures.raw(4 * pictures.MIB)

    def slow(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:100])
        begun.set()
        assert go_on.wait(60)
        handler.wfile.write(data[100:])

    web.answers["/slow"] = slow
    ask(alice, image, web.url("/slow"))
    task_id = task_of(image).id

    def first() -> None:
        try:
            imports.Import().run(task_id)
        finally:
            connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(60)
    imports.Import().run(task_id)  # gives way
    go_on.set()
    thread.join(60)
    assert show(alice, image)["status"] == "active"
    assert (store / str(image.id)).read_bytes() == data
