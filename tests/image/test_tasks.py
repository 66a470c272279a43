"""The Tasks API, and the tasks of an image."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.images.models import Image, ImageTask
from tests.image import pictures
from tests.image.conftest import MakeImage
from tests.image.imports.importing import ask, web  # noqa: F401 - a fixture
from tests.support.cast import Api, Person
from tests.support.jobs import drain, run_periodic
from tests.support.tables import each_row
from tests.support.web import Web

V2 = "/image/v2"
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
STUB = {
    "id",
    "type",
    "status",
    "owner",
    "created_at",
    "updated_at",
    "self",
    "schema",
}


def add(person: Person, count: int = 1, image: Image | None = None, **values: Any) -> list[ImageTask]:
    """Make tasks, the last one the newest."""
    now = timezone.now()
    tasks = []
    for number in range(count):
        given = {"type": "api_image_import", "user_id": person.user_id, "request_id": "req-1", **values}
        task = ImageTask.objects.create(project_id=person.project_id, image_id=image.id if image else None, **given)
        ImageTask.objects.filter(pk=task.pk).update(created_at=now - timedelta(seconds=count - number))
        tasks.append(task)
    return tasks


def ids(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return [task["id"] for task in answer.json()["tasks"]]


def test_a_list_shows_stubs_newest_first(alice: Person, charlie: Person, operator: Person) -> None:
    tasks = [*add(charlie), *add(alice)]
    ImageTask.objects.filter(pk=tasks[0].pk).update(created_at=timezone.now() - timedelta(days=1))
    body = Api(operator).get(f"{V2}/tasks").json()
    assert [task["id"] for task in body["tasks"]] == [str(tasks[1].id), str(tasks[0].id)]
    assert set(body["tasks"][0]) == STUB
    assert (body["first"], body["schema"]) == ("/v2/tasks", "/v2/schemas/tasks")
    assert "next" not in body
    assert body["tasks"][0]["self"] == f"/v2/tasks/{tasks[1].id}"


def test_pages_neither_skip_nor_repeat(alice: Person, operator: Person) -> None:
    tasks = add(alice, 5)
    api, path, seen = Api(operator), "/v2/tasks?limit=2&sort_dir=asc", []
    for _ in range(3):
        body = api.get(f"/image{path}").json()
        seen += [task["id"] for task in body["tasks"]]
        path = body.get("next", "")
    assert path == ""
    assert seen == [str(task.id) for task in tasks]


def test_filters_and_orders(alice: Person, operator: Person) -> None:
    pending, failed = add(alice), add(alice, status="failure", type="import")
    api = Api(operator)
    assert ids(api.get(f"{V2}/tasks?status=failure")) == [str(failed[0].id)]
    assert ids(api.get(f"{V2}/tasks?type=api_image_import")) == [str(pending[0].id)]
    assert ids(api.get(f"{V2}/tasks?owner={alice.project_id.hex}&type=import")) == [str(failed[0].id)]
    assert ids(api.get(f"{V2}/tasks?owner={operator.project_id.hex}")) == ids(api.get(f"{V2}/tasks?owner=x")) == []
    assert ids(api.get(f"{V2}/tasks?sort_key=status&sort_dir=desc")) == [str(pending[0].id), str(failed[0].id)]


@each_row(
    "query",
    [
        "status=done",
        "type=dance",
        "sort_dir=up",
        "sort_key=colour",
        "limit=x",
        "limit=-1",
        "marker=nonsense",
        f"marker={uuid.UUID(int=5)}",
    ],
)
def test_a_wrong_query_is_refused(operator: Person, query: str) -> None:
    assert Api(operator).get(f"{V2}/tasks?{query}").status_code == 400


def test_a_task_is_shown_with_what_came_of_it(alice: Person, operator: Person, make: MakeImage) -> None:
    image = make()
    (task,) = add(
        alice,
        image=image,
        status="failure",
        message="Why.",
        input={"a": 1},
        expires_at=timezone.now() + timedelta(days=1),
    )
    shown = Api(operator).get(f"{V2}/tasks/{task.id}").json()
    references = {"image_id", "request_id", "user_id"}
    assert set(shown) == STUB | references | {"input", "result", "message", "expires_at"}
    assert (shown["input"], shown["result"], shown["message"], shown["status"]) == ({"a": 1}, None, "Why.", "failure")
    assert (shown["image_id"], shown["owner"]) == (str(image.id), alice.project_id.hex)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", shown["expires_at"])


def test_a_task_of_no_image_and_of_nobody_names_neither(operator: Person) -> None:
    (task,) = add(operator, user_id=None, request_id="")
    assert not {"image_id", "user_id", "request_id"} & Api(operator).get(f"{V2}/tasks/{task.id}").json().keys()


@pytest.mark.parametrize("task_id", ["nonsense", str(uuid.UUID(int=3)), "%00"])
def test_what_is_not_there(operator: Person, task_id: str) -> None:
    assert Api(operator).get(f"{V2}/tasks/{task_id}").status_code == 404


def test_tasks_end_by_themselves(operator: Person) -> None:
    (task,) = add(operator)
    assert Api(operator).delete(f"{V2}/tasks/{task.id}").status_code == 405


def test_the_tasks_of_an_image(alice: Person, bob: Person, charlie: Person, operator: Person, make: MakeImage) -> None:
    image, other = make(visibility="community"), make()
    (task,) = add(alice, image=image, message="Copied 15 MiB", status="processing")
    add(alice, image=other)
    for person in (alice, bob, operator):
        (shown,) = Api(person).get(f"{V2}/images/{image.id}/tasks").json()["tasks"]
        assert (shown["id"], shown["image_id"], shown["message"]) == (str(task.id), str(image.id), "Copied 15 MiB")
        assert (shown["user"], shown["request-id"]) == (alice.user_id.hex, "req-1")
        assert (shown["deleted"], shown["deleted_at"], shown["expires_at"]) == (False, None, None)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", shown["created_at"])
    assert Api(charlie).get(f"{V2}/images/{image.id}/tasks").json() == {"tasks": []}
    assert Api(charlie).get(f"{V2}/images/{other.id}/tasks").status_code == 404


def test_tasks_are_forgotten_some_time_after_their_end(alice: Person, operator: Person, make: MakeImage) -> None:
    image = make()
    old, young, going_on = add(alice, 3, image=image)
    ImageTask.objects.filter(pk=old.pk).update(status="success", expires_at=timezone.now() - timedelta(seconds=1))
    ImageTask.objects.filter(pk=young.pk).update(status="success", expires_at=timezone.now() + timedelta(seconds=60))
    assert Api(operator).get(f"{V2}/tasks/{old.id}").status_code == 404
    assert set(ids(Api(operator).get(f"{V2}/tasks"))) == {str(young.id), str(going_on.id)}
    run_periodic("images.clean_up")
    assert set(ImageTask.objects.values_list("id", flat=True)) == {young.id, going_on.id}


def test_lists_cost_the_same_whatever_their_length(alice: Person, operator: Person, make: MakeImage) -> None:
    image = make()
    counts = []
    for more in (1, 20):
        add(alice, more, image=image)
        for path in (f"{V2}/tasks", f"{V2}/images/{image.id}/tasks"):
            with CaptureQueriesContext(
                connection,
            ) as queries:
                assert ids(Api(operator).get(path))
            counts.append(len(queries))
    assert counts[:2] == counts[2:]


def test_schemas(alice: Person) -> None:
    task = Api(alice).get(f"{V2}/schemas/task").json()
    assert (task["name"], set(task["properties"]) >= STUB) == ("task", True)
    assert Api(alice).get(f"{V2}/schemas/tasks").json()["name"] == "tasks"


# ----- the older form of an import ------------------------------------------------------------------------------------


def old_import(uri: str, **properties: Any) -> dict[str, Any]:
    given = {"import_from": uri, "import_from_format": "raw", "image_properties": properties}
    return {"type": "import", "input": given}


@pytest.mark.django_db(transaction=True)
def test_an_operator_makes_an_image_by_a_task(operator: Person, web: Web) -> None:  # noqa: F811
    body = old_import(web.serve("/x", pictures.raw()), name="made", container_format="bare", os_distro="debian")
    answer = Api(operator).post(f"{V2}/tasks", body)
    assert answer.status_code == 201, answer.content
    task = answer.json()
    assert answer["Location"].endswith(f"/image/v2/tasks/{task['id']}")
    assert (task["status"], task["type"], task["input"], task["result"]) == ("pending", "import", body["input"], None)
    drain()
    task = Api(operator).get(f"{V2}/tasks/{task['id']}").json()
    assert task["status"] == "success"
    image = Api(operator).get(f"{V2}/images/{task['result']['image_id']}").json()
    assert (image["name"], image["status"], image["os_distro"]) == ("made", "active", "debian")


@each_row(
    "body",
    [
        {},
        {"type": "import"},
        {"type": "export", "input": {}},
        {"type": "import", "input": {}},
        {"type": "import", "input": {"import_from": "x", "import_from_format": "raw", "image_properties": []}},
        old_import("http://127.0.0.1/"),
        old_import("file:///etc/passwd"),
        old_import("http://example.org/", disk_format="qcow2"),
        old_import("http://example.org/", min_disk=5),
        old_import("http://example.org/", container_format="docker"),
        [],
    ],
)
def test_a_wrong_task_makes_nothing(operator: Person, body: Any) -> None:
    assert Api(operator).post(f"{V2}/tasks", body).status_code == 400
    assert (Image.objects.count(), ImageTask.objects.count()) == (0, 0)


def test_asking_twice_makes_two_imports_of_one_image_never(
    alice: Person,
    make: MakeImage,
    web: Web,  # noqa: F811
) -> None:
    image = make()
    assert [ask(alice, image, web.url("/x")).status_code for _ in range(2)] == [202, 409]
