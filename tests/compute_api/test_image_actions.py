"""createImage and createBackup over HTTP: bodies, answers at each microversion, states, and who may."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute.models import Instance
from provisioning.images.models import Image
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, launch
from tests.support.cast import Api, People
from tests.support.clouds import Cloud
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

LAST_WITH_LOCATION = {"OpenStack-API-Version": "compute 2.44"}
FIRST_WITHOUT = {"OpenStack-API-Version": "compute 2.45"}
BACKUP = {"name": "copy", "backup_type": "daily", "rotation": 1}


def act(api: Api, ident: str, action: str, body: object) -> Any:
    return api.post(f"{V21}/servers/{ident}/action", {action: body})


@pytest.mark.slow
@pytest.mark.parametrize("action", ["createImage", "createBackup"])
def test_the_image_is_in_the_header_until_it_is_in_the_body(
    people: People, api: Api, cloud: Cloud, action: str
) -> None:
    old, new = Api(people.alice, **LAST_WITH_LOCATION), Api(people.alice, **FIRST_WITHOUT)
    body = {"name": "copy"} if action == "createImage" else BACKUP
    ident = launch(api, cloud)
    answer = act(old, ident, action, body)
    assert (answer.status_code, answer.content) == (202, b"")
    base, _, image_id = answer.headers["Location"].rpartition("/")
    assert base.endswith("/image/v2/images")
    assert Image.objects.get(id=image_id).name == "copy"
    cloud.run()
    answer = act(new, ident, action, body)
    assert answer.status_code == 202
    assert "Location" not in answer.headers
    assert list(answer.json()) == ["image_id"]
    shown = old.get(f"/image/v2/images/{answer.json()['image_id']}").json()
    assert (shown["status"], shown["visibility"], shown["image_type"]) == (
        "queued",
        "private",
        "snapshot" if action == "createImage" else "backup",
    )
    assert shown["instance_uuid"] == ident


@pytest.mark.slow
def test_a_backup_that_is_not_kept_has_no_address(people: People, api: Api, cloud: Cloud) -> None:
    old = Api(people.alice, **LAST_WITH_LOCATION)
    ident = launch(api, cloud)
    answer = act(old, ident, "createBackup", BACKUP | {"rotation": "0"})
    assert answer.status_code == 202
    assert "Location" not in answer.headers
    cloud.run()
    assert not Image.objects.filter(name="copy").exclude(status="deleted").exists()


@each_row(
    ("action", "body"),
    [
        ("createImage", {}),
        ("createImage", {"name": ""}),
        ("createImage", {"name": " copy"}),
        ("createImage", {"name": "x" * 256}),
        ("createImage", {"name": "co\0py"}),
        ("createImage", {"name": 7}),
        ("createImage", {"name": "copy", "metadata": {"a": 1}}),
        ("createImage", {"name": "copy", "metadata": {"a": "x" * 256}}),
        ("createImage", {"name": "copy", "metadata": {"": "x"}}),
        ("createImage", {"name": "copy", "metadata": {"status": "active"}}),
        ("createImage", {"name": "copy", "more": 1}),
        ("createImage", None),
        ("createBackup", {"name": "copy"}),
        ("createBackup", BACKUP | {"rotation": -1}),
        ("createBackup", BACKUP | {"rotation": "many"}),
        ("createBackup", BACKUP | {"rotation": 10**30}),
        ("createBackup", BACKUP | {"rotation": None}),
        ("createBackup", BACKUP | {"backup_type": 1}),
        ("createBackup", BACKUP | {"backup_type": "a\0b"}),
        ("createBackup", BACKUP | {"more": 1}),
    ],
)
def test_a_wrong_body_is_refused_and_nothing_begins(
    api: Api, cloud: Cloud, action: str, body: object, server: str
) -> None:
    before = Image.objects.count()
    assert act(api, server, action, body).status_code == 400
    assert Image.objects.count() == before
    assert Instance.objects.get(id=server).task_state is None


def test_too_much_metadata_is_forbidden(api: Api, people: People, cloud: Cloud, server: str) -> None:
    set_limit(people.alice.project_id, "metadata_items", 1)
    answer = act(api, server, "createImage", {"name": "copy", "metadata": {"a": "1", "b": "2"}})
    assert (answer.status_code, answer.json()) == (
        403,
        {"forbidden": {"code": 403, "message": "Image metadata limit exceeded"}},
    )


def test_metadata_stands_in_the_image(api: Api, cloud: Cloud, server: str) -> None:
    act(api, server, "createImage", {"name": "copy", "metadata": {"purpose": "test", "image_type": "mine"}})
    image = Image.objects.get(name="copy")
    assert (image.properties["purpose"], image.properties["image_type"]) == ("test", "mine")


@each_row("action", ["createImage", "createBackup"])
@each_row("state", ["error", "rescued", "resized", "shelved", "shelved_offloaded", "building"])
def test_other_states_are_a_conflict(api: Api, cloud: Cloud, action: str, state: str, server: str) -> None:
    Instance.objects.filter(id=server).update(vm_state=state)
    answer = act(api, server, action, {"name": "copy"} if action == "createImage" else BACKUP)
    assert (answer.status_code, answer.json()["conflictingRequest"]["message"]) == (
        409,
        f"Cannot '{action}' instance {server} while it is in vm_state {state}",
    )


def test_only_members_of_the_project_may(people: People, api: Api, cloud: Cloud, server: str) -> None:
    assert act(Api(people.bob), server, "createImage", {"name": "copy"}).status_code == 403
    assert act(Api(people.charlie), server, "createImage", {"name": "copy"}).status_code == 404
    assert act(Api(people.bob), server, "createBackup", BACKUP).status_code == 403
    assert act(Api(people.charlie), server, "createBackup", BACKUP).status_code == 404
