"""``POST /v2/images/{id}/import``: data from the web, and data that was staged."""

from __future__ import annotations

import tracemalloc
import uuid
from pathlib import Path
from typing import Any

import pytest

from provisioning.events.models import Event
from provisioning.images.services import imports
from tests.image import pictures
from tests.image.conftest import MakeImage, files
from tests.image.imports.importing import V2, ask, put, show, task_of
from tests.support import disks
from tests.support.cast import Api, Person
from tests.support.jobs import drain
from tests.support.web import Handler, Web

pytestmark = pytest.mark.django_db(transaction=True)


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


@pytest.mark.slow
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
    announced = [
        (event.payload["status"], event.payload.get("percent")) for event in events if "record" not in event.payload
    ]
    assert announced == [("importing", 0), *(("importing", percent) for percent in (25, 50, 75, 100)), ("active", None)]


@pytest.mark.slow
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
