"""Imports: staged or from the web, in the background, whole or not at all."""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ
from pytest_django import Settings

from provisioning.common.errors import GoneError, TooLargeError
from provisioning.events.models import Event
from provisioning.images import jobs, services
from provisioning.images import store as image_store
from provisioning.images.models import Image, ImageTask
from provisioning.images.services import imports, recovery
from provisioning.jobs.message import verify
from provisioning.quotas.services.limits import set_limit
from tests.image import pictures
from tests.image.conftest import MakeImage, files
from tests.support import disks
from tests.support.cast import Api, Person
from tests.support.jobs import drain, run_periodic
from tests.support.web import Handler, Web, web_server

V2 = "/image/v2"
DATA = "application/octet-stream"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def web(settings: Settings) -> Iterator[Web]:
    with web_server() as web:
        settings.IMPORT_ALLOWED_PORTS = [80, web.port]
        settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.1/32")]
        yield web


def ask(person: Person, image: Image, uri: str | None = None, **more: Any) -> Any:
    """Ask for an import, from the web or of what is staged."""
    method = {"name": "web-download", "uri": uri} if uri is not None else {"name": "glance-direct"}
    return Api(person).post(f"{V2}/images/{image.id}/import", {"method": method, **more})


def put(person: Person, image: Image, data: bytes, **headers: str) -> Any:
    """Stage data."""
    path = f"{V2}/images/{image.id}/stage"
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Api(person).client.generic("PUT", path, data, content_type=DATA, headers={**person.headers, **given})


def show(person: Person, image: Image) -> Any:
    return Api(person).get(f"{V2}/images/{image.id}").json()


def task_of(image: Image) -> ImageTask:
    return ImageTask.objects.get(image_id=image.id)


# ----- as it should be ------------------------------------------------------------------------------------------------


def test_a_file_of_the_web_becomes_an_image(
    alice: Person, make: MakeImage, web: Web, store: Path, tmp_path: Path
) -> None:
    image = make(disk_format="vmdk")
    data = disks.make(tmp_path, "vmdk").read_bytes()
    answer = ask(alice, image, web.serve("/disk.vmdk", data))
    assert (answer.status_code, answer.content) == (202, b"")
    shown, task = show(alice, image), task_of(image)
    assert (shown["status"], shown["os_glance_import_task"]) == ("importing", str(task.id))
    assert (shown["os_glance_importing_to_stores"], shown["os_glance_failed_import"]) == ("local", "")
    assert (task.status, task.type) == ("pending", "api_image_import")
    drain()
    shown, task = show(alice, image), task_of(image)
    assert (shown["status"], shown["size"], shown["virtual_size"]) == ("active", len(data), disks.SIZE)
    assert (shown["os_glance_importing_to_stores"], shown["os_glance_failed_import"]) == ("", "")
    assert "os_glance_import_task" not in shown
    assert shown["stores"] == "local"
    assert (task.status, task.result, task.done) == ("success", {"image_id": str(image.id)}, len(data))
    assert task.expires_at is not None
    assert files(store) == [str(image.id)]
    assert (store / str(image.id)).read_bytes() == data


def test_staged_data_becomes_an_image(alice: Person, make: MakeImage, store: Path) -> None:
    image = make(disk_format="qcow2")
    data = pictures.qcow2()
    assert put(alice, image, data, X_OpenStack_Image_Size=str(len(data))).status_code == 204
    shown = show(alice, image)
    assert (shown["status"], shown["size"], shown["checksum"]) == ("uploading", len(data), None)
    assert Api(alice).get(f"{V2}/images/{image.id}/file").status_code == 204
    assert files(store) == [f"{image.id}.staged"]
    assert ask(alice, image).status_code == 202
    drain()
    shown = show(alice, image)
    assert (shown["status"], shown["size"], shown["virtual_size"]) == ("active", len(data), 64 * pictures.MIB)
    assert files(store) == [str(image.id)]
    assert (store / str(image.id)).read_bytes() == data


@pytest.mark.parametrize("more", [{"stores": ["local"]}, {"all_stores": True, "all_stores_must_succeed": False}])
def test_the_one_store_may_be_named(alice: Person, make: MakeImage, web: Web, more: dict[str, Any]) -> None:
    assert ask(alice, make(), web.serve("/x", pictures.raw()), **more).status_code == 202


def test_what_is_new_says_how_data_comes_in(alice: Person) -> None:
    answer = Api(alice).post(f"{V2}/images", {"name": "x"})
    assert answer["OpenStack-image-import-methods"] == "glance-direct,web-download"
    assert answer["OpenStack-image-store-ids"] == "local"


def test_progress_is_noted_and_announced(
    alice: Person, make: MakeImage, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "REPORT_EVERY", 0.0)
    image = make()
    seen: list[tuple[str, int, int | None, str]] = []
    original = imports.tasks.move_on

    def watched(task_id: uuid.UUID, done: int, total: int | None) -> None:
        original(task_id, done, total)
        task = task_of(image)
        seen.append((task.status, task.done, task.total, task.message))

    monkeypatch.setattr(imports.tasks, "move_on", watched)
    ask(alice, image, web.serve("/x", pictures.raw(4 * pictures.MIB)))
    drain()
    size = 4 * pictures.MIB
    assert seen[0] == ("processing", size // 4, size, "Copied 1 MiB of 4 MiB")
    events = Event.objects.filter(kind="image", topic=f"project:{alice.project_id}").order_by("id")
    told = [(event.payload["status"], event.payload.get("percent")) for event in events]
    assert told == [("importing", 0), *(("importing", percent) for percent in (25, 50, 75, 100)), ("active", None)]


def test_an_import_keeps_memory_constant(alice: Person, make: MakeImage, web: Web) -> None:
    piece = b"\1" * pictures.MIB

    def large(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(64 * pictures.MIB))
        handler.end_headers()
        for _ in range(64):
            handler.wfile.write(piece)

    web.answers["/large"] = large
    image = make()
    ask(alice, image, web.url("/large"))
    tracemalloc.start()
    try:
        drain()
        assert tracemalloc.get_traced_memory()[1] < 16 * pictures.MIB
    finally:
        tracemalloc.stop()
    assert show(alice, image)["status"] == "active"


# ----- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "method"),
        ({"method": {}}, 400, "name"),
        ({"method": "web-download"}, 400, "method"),
        ({"method": {"name": "copy-image"}}, 400, "Unknown import method name 'copy-image'"),
        ({"method": {"name": "web-download"}}, 400, "does not pass filtering"),
        ({"method": {"name": "web-download", "uri": 5}}, 400, "uri"),
        ({"method": {"name": "web-download", "uri": "http://127.0.0.2/"}}, 400, "does not pass filtering"),
        ({"method": {"name": "web-download", "uri": "http://a@example.org/"}}, 400, "does not pass filtering"),
        ({"method": {"name": "glance-direct"}}, 409, "needs to be staged"),
        ({"method": {"name": "glance-direct"}, "all_stores_must_succeed": "yes"}, 400, "all_stores_must_succeed"),
        ({"method": {"name": "web-download", "uri": "URI"}, "stores": ["fast"]}, 409, "store fast is not available"),
        ({"method": {"name": "web-download", "uri": "URI"}, "stores": ["local"], "all_stores": True}, 400, "together"),
        (["method"], 400, ""),
    ],
)
def test_a_wrong_request_changes_nothing(
    alice: Person, make: MakeImage, web: Web, body: Any, status: int, words: str
) -> None:
    image = make()
    if isinstance(body, dict) and isinstance(body.get("method"), dict) and body["method"].get("uri") == "URI":
        body = {**body, "method": {**body["method"], "uri": web.url("/x")}}
    answer = Api(alice).post(f"{V2}/images/{image.id}/import", body)
    assert answer.status_code == status, answer.content
    assert words in answer.json()["message"]
    assert (show(alice, image)["status"], ImageTask.objects.count()) == ("queued", 0)


@pytest.mark.parametrize("missing", ["disk_format", "container_format"])
def test_formats_come_before_the_import(alice: Person, make: MakeImage, web: Web, missing: str) -> None:
    image = make(**{missing: None})
    answer = ask(alice, image, web.url("/x"))
    assert answer.status_code == 409
    assert answer.json()["message"] == f"'{missing}' needs to be set before import"


def test_an_image_with_data_is_no_target(alice: Person, make: MakeImage, web: Web) -> None:
    image = make(data=pictures.raw())
    answer = ask(alice, image, web.url("/x"))
    assert answer.status_code == 409
    assert answer.json()["message"] == "Image with status active cannot be target for import"
    assert put(alice, image, b"x").status_code == 409


def test_one_import_at_a_time(alice: Person, make: MakeImage, web: Web) -> None:
    image = make()
    assert ask(alice, image, web.serve("/x", pictures.raw())).status_code == 202
    assert ask(alice, image, web.url("/x")).status_code == 409
    assert put(alice, image, b"x").status_code == 409
    assert ImageTask.objects.count() == 1


def test_methods_can_be_switched_off(alice: Person, make: MakeImage, web: Web, settings: Settings) -> None:
    settings.IMPORT_METHODS = ["web-download"]
    image = make()
    assert put(alice, image, b"x").status_code == 404
    assert ask(alice, image).status_code == 400
    settings.IMPORT_METHODS = ["glance-direct"]
    assert ask(alice, image, web.url("/x")).status_code == 400


def test_others_images_are_not_imported(
    alice: Person, bob: Person, charlie: Person, operator: Person, make: MakeImage, web: Web
) -> None:
    image = make()
    uri = web.serve("/x", pictures.raw())
    assert ask(bob, image, uri).status_code == 403
    assert ask(charlie, image, uri).status_code == 404
    assert ask(charlie, make(visibility="community"), uri).status_code == 403
    assert put(charlie, image, b"x").status_code == 404
    assert ask(operator, image, uri).status_code == 202
    assert task_of(image).project_id == alice.project_id


def test_data_that_is_staged_is_bounded(alice: Person, make: MakeImage, settings: Settings, store: Path) -> None:
    image = make()
    assert put(alice, image, b"four", X_OpenStack_Image_Size="5").status_code == 400
    settings.IMAGE_STORAGE_QUOTA = 100
    assert put(alice, image, b"x" * 101).status_code == 413
    settings.IMAGE_STORAGE_QUOTA, settings.MAX_IMAGE_SIZE = 0, 10
    assert put(alice, image, b"x" * 11).status_code == 413
    path = f"{V2}/images/{image.id}/stage"
    wrong = Api(alice).client.generic("PUT", path, b"{}", content_type="application/json", headers=alice.headers)
    assert wrong.status_code == 415
    assert (show(alice, image)["status"], files(store)) == ("queued", [])


def test_nothing_is_imported_beyond_the_quota(alice: Person, make: MakeImage, web: Web, settings: Settings) -> None:
    settings.IMAGE_STORAGE_QUOTA = pictures.MIB
    first, second = make(), make()
    assert put(alice, first, pictures.raw()).status_code == 204  # all of it
    assert ask(alice, second, web.serve("/x", b"one more")).status_code == 413
    assert ask(alice, first).status_code == 202
    drain()
    assert show(alice, first)["status"] == "active"


def test_a_project_has_two_imports_going_on_and_each_end_calls_the_next(
    alice: Person, charlie: Person, make: MakeImage, web: Web
) -> None:
    uri = web.serve("/x", pictures.raw())
    mine = [make() for _ in range(4)]
    for image in mine:
        assert ask(alice, image, uri).status_code == 202
    assert [task_id(text) for text in waiting()] == [str(task_of(image).id) for image in mine[:2]]
    assert show(alice, mine[3])["status"] == "importing"
    theirs = make(charlie)
    ask(charlie, theirs, uri)
    assert len(waiting()) == 3, "others have a line of their own"
    services.delete(alice.context, mine[2].id)
    imports.fail(task_of(mine[0]).id, "The download broke off.")
    drain()
    assert [show(alice, image)["status"] for image in (mine[0], mine[1], mine[3])] == ["queued", "active", "active"]
    assert show(charlie, theirs)["status"] == "active"
    assert not ImageTask.objects.filter(status__in=("pending", "processing")).exists()
    assert not waiting()


def waiting() -> list[str]:
    return list(OrmQ.objects.filter(key="images").order_by("id").values_list("payload", flat=True))


def task_id(text: str) -> str:
    return str(verify(text).payload["task_id"])


def test_a_project_has_so_many_images(alice: Person, charlie: Person, make: MakeImage) -> None:
    set_limit(None, "image_count_total", 2)
    first = make()
    make()
    answer = Api(alice).post(f"{V2}/images", {"name": "third"})
    assert answer.status_code == 413
    assert "image_count_total" in answer.json()["message"]
    assert Api(alice).get(f"{V2}/info/usage").json()["usage"]["image_count_total"] == {"limit": 2, "usage": 2}
    make(charlie)
    set_limit(alice.project_id, "image_count_total", 3)
    make()
    services.delete(alice.context, first.id)
    make()


# ----- what goes wrong ------------------------------------------------------------------------------------------------


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
    jobs.give_up_import("failed 3 times", str(task_of(image).id))
    shown, task = show(alice, image), task_of(image)
    assert (shown["status"], task.status, files(store)) == ("queued", "failure", [])
    assert "/secret" not in task.message


def test_a_task_that_is_delivered_again_does_no_harm(alice: Person, make: MakeImage, web: Web, store: Path) -> None:
    image = make()
    ask(alice, image, web.serve("/x", pictures.raw()))
    task = task_of(image)
    drain()
    jobs.run_import(str(task.id))
    jobs.run_import(str(uuid.uuid4()))
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
    task_id = str(task_of(image).id)

    def first() -> None:
        try:
            jobs.run_import(task_id)
        finally:
            connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    assert begun.wait(60)
    jobs.run_import(task_id)  # gives way
    go_on.set()
    thread.join(60)
    assert show(alice, image)["status"] == "active"
    assert (store / str(image.id)).read_bytes() == data


# ----- what dies ------------------------------------------------------------------------------------------------------

WORKER = """
import ipaddress, os, signal, sys
import django
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
settings.IMAGE_DIR, settings.IMPORT_ALLOWED_PORTS = sys.argv[2], [int(sys.argv[3])]
settings.IMPORT_ALLOWED_NETWORKS = [ipaddress.ip_network("127.0.0.1/32")]
django.setup()
from compute_agent.disk_formats import inspection
from provisioning.images import jobs
whole = inspection.Inspector.__iter__
def dying(inspector):
    for number, piece in enumerate(whole(inspector)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield piece
inspection.Inspector.__iter__ = dying
jobs.run_import(sys.argv[4])
"""


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.both_databases
def test_an_import_goes_on_after_the_death_of_its_worker(
    alice: Person, make: MakeImage, web: Web, store: Path, staged: bool
) -> None:
    image = make()
    data = pictures.raw(4 * pictures.MIB)
    if staged:
        put(alice, image, data)
    ask(alice, image, None if staged else web.serve("/x", data))
    name, task_id = str(connection.settings_dict["NAME"]), str(task_of(image).id)
    worker = subprocess.run(
        [sys.executable, "-c", WORKER, name, str(store), str(web.port), task_id],
        env={**os.environ, "NOVELLA_ROLE": "worker", "DJANGO_SETTINGS_MODULE": "portal.settings"},
        timeout=60,
    )
    assert worker.returncode == -signal.SIGKILL
    left = image_store.staged_of(image.id) if staged else image_store.part_of(image.id)
    assert (show(alice, image)["status"], files(store)) == ("importing", [left.name])
    assert task_of(image).status == "processing"
    assert not image_store.upload_is_alive(image.id)
    drain()  # the queue delivers it again
    assert (show(alice, image)["status"], files(store)) == ("active", [str(image.id)])
    assert (store / str(image.id)).read_bytes() == data


@pytest.mark.both_databases
def test_an_import_whose_message_was_lost_is_cast_again(alice: Person, make: MakeImage, web: Web) -> None:
    image = make()
    ask(alice, image, web.serve("/x", pictures.raw()))
    OrmQ.objects.all().delete()
    run_periodic("images.clean_up")
    assert drain() == 0
    ImageTask.objects.update(updated_at=timezone.now() - timedelta(seconds=recovery.LOST_AFTER + 1))
    run_periodic("images.clean_up")
    run_periodic("images.clean_up")
    assert drain() == 1
    assert show(alice, image)["status"] == "active"


def test_staged_data_is_given_up_after_a_time(alice: Person, make: MakeImage, store: Path, settings: Settings) -> None:
    settings.STAGING_TIMEOUT = 600
    image = make()
    put(alice, image, pictures.raw())
    Image.objects.update(updated_at=timezone.now() - timedelta(seconds=599))
    run_periodic("images.clean_up")
    assert show(alice, image)["status"] == "uploading"
    Image.objects.update(updated_at=timezone.now() - timedelta(seconds=601))
    run_periodic("images.clean_up")
    assert (show(alice, image)["status"], show(alice, image)["size"], files(store)) == ("queued", None, [])


def test_staging_that_died_is_given_up_soon(alice: Person, make: MakeImage, store: Path) -> None:
    image = make()
    store.mkdir(exist_ok=True)
    image_store.part_of(image.id).write_bytes(b"half")
    old = timezone.now() - timedelta(seconds=recovery.SETTLE_TIME + 1)
    Image.objects.update(status="uploading", updated_at=old)
    run_periodic("images.clean_up")
    assert (show(alice, image)["status"], files(store)) == ("queued", [])


def test_staging_that_goes_on_is_left_alone(alice: Person, make: MakeImage) -> None:
    image = make()

    def slow() -> Iterator[bytes]:
        yield b"a"
        Image.objects.update(updated_at=timezone.now() - timedelta(days=9))
        run_periodic("images.clean_up")
        yield b"b"

    assert services.stage(alice.context, image.id, slow()).status == "uploading"
    assert image_store.staged_of(image.id).read_bytes() == b"ab"


def test_files_of_nobody_are_swept(alice: Person, make: MakeImage, store: Path) -> None:
    kept = make(data=pictures.raw())
    staged = make()
    put(alice, staged, b"x")
    for name in (f"{uuid.uuid4()}.part", f"{uuid.uuid4()}.staged", f"{kept.id}.part"):
        (store / name).write_bytes(b"left")
    (store / "README.txt").write_text("not ours")
    run_periodic("images.clean_up")
    assert files(store) == sorted(["README.txt", str(kept.id), f"{staged.id}.staged"])


def test_a_quota_that_is_full_stops_a_download(alice: Person, make: MakeImage, settings: Settings) -> None:
    settings.IMAGE_STORAGE_QUOTA = 10
    with pytest.raises(TooLargeError, match="storage quota has left"):
        services.upload(alice.context, make().id, [b"x" * 11])
