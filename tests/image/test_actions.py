"""Images taken out of use for a time, and how much of them projects may keep."""

from __future__ import annotations

import uuid

import pytest
from pytest_django import Settings

from provisioning.common.errors import InvalidInputError, TooLargeError
from provisioning.images import selectors, services
from provisioning.images.models import Image
from provisioning.quotas.services.limits import set_limit
from tests.image import pictures
from tests.image.asking import V2
from tests.image.conftest import MakeImage
from tests.support.cast import Api, People, Person


def act(person: Person, image: Image, action: str) -> int:
    return int(Api(person).post(f"{V2}/images/{image.id}/actions/{action}").status_code)


@pytest.mark.slow
def test_out_of_use_and_back(people: People, make: MakeImage) -> None:
    image = make(people.operator, data=pictures.raw(), visibility="public")
    path = f"{V2}/images/{image.id}"
    assert act(people.operator, image, "deactivate") == act(people.operator, image, "deactivate") == 204
    assert Api(people.alice).get(path).json()["status"] == "deactivated"
    refused = Api(people.alice).get(f"{path}/file")
    assert refused.status_code == 403
    assert "deactivated" in refused.json()["message"]
    assert b"".join(Api(people.operator).get(f"{path}/file").streaming_content) == pictures.raw()
    with pytest.raises(InvalidInputError, match="is deactivated: no server can boot from it"):
        selectors.usable_image_for(people.alice.context, image.id)
    assert selectors.usable_images_for(people.alice.context) == []
    assert act(people.operator, image, "reactivate") == act(people.operator, image, "reactivate") == 204
    assert Api(people.alice).get(path).json()["status"] == "active"
    assert selectors.usable_image_for(people.alice.context, image.id).id == image.id


@pytest.mark.slow
def test_who_may(people: People, make: MakeImage) -> None:
    image = make(data=pictures.raw())
    for action, status in (("deactivate", "deactivated"), ("reactivate", "active")):
        assert (act(people.bob, image, action), act(people.charlie, image, action)) == (403, 404)
        assert act(people.alice, image, action) == 204, "its project's member"
        image.refresh_from_db()
        assert image.status == status
    for visibility in ("public", "community"):
        foreign = make(people.operator, data=pictures.raw(), visibility=visibility)
        assert act(people.alice, foreign, "deactivate") == 403


def test_only_what_has_data(people: People, make: MakeImage) -> None:
    image = make()
    answer = Api(people.operator).post(f"{V2}/images/{image.id}/actions/deactivate")
    assert answer.status_code == 403
    assert answer.json()["message"] == "Not allowed to deactivate image in status 'queued'"
    assert act(people.operator, image, "reactivate") == 403
    services.delete(people.alice.context, image.id)
    assert (
        act(people.operator, image, "deactivate") == act(people.operator, Image(id=uuid.uuid4()), "reactivate") == 404
    )


def test_a_deactivated_image_can_be_deleted(people: People, make: MakeImage) -> None:
    image = make(data=pictures.raw())
    services.deactivate(people.operator.context, image.id)
    services.delete(people.alice.context, image.id)
    assert Image.objects.get(id=image.id).status == "deleted"


def test_storage_of_a_project(people: People, make: MakeImage, settings: Settings) -> None:
    first = make(data=pictures.raw(3000))
    make(people.charlie, data=pictures.raw(5000))
    assert selectors.storage_left(people.alice.project_id) == (50 << 30) - 3000
    settings.IMAGE_STORAGE_QUOTA = 0
    assert selectors.storage_left(people.alice.project_id) is None
    settings.IMAGE_STORAGE_QUOTA = 10_000
    assert selectors.storage_left(people.alice.project_id) == 7000
    assert selectors.storage_left(people.operator.project_id) == 10_000
    settings.IMAGE_STORAGE_QUOTA = 2000
    assert selectors.storage_left(people.alice.project_id) == 0
    services.delete(people.alice.context, first.id)
    assert selectors.storage_left(people.alice.project_id) == 2000
    set_limit(None, "image_size_total", 2)
    assert selectors.storage_left(people.alice.project_id) == 2 << 20, "the operator's default, in MiB"
    set_limit(people.alice.project_id, "image_size_total", -1)
    assert selectors.storage_left(people.alice.project_id) is None


def test_usage_of_a_project(people: People, make: MakeImage, settings: Settings) -> None:
    make(data=pictures.raw(1 << 20))
    make(data=pictures.raw(1 << 20))
    make(people.charlie, data=pictures.raw(512))
    Image.objects.filter(pk=make().pk).update(status="uploading", size=5 << 20)
    settings.IMAGE_STORAGE_QUOTA = 10 << 20
    usage = Api(people.bob).get(f"{V2}/info/usage").json()["usage"]
    assert usage == {
        "image_size_total": {"limit": 10, "usage": 2},
        "image_stage_total": {"limit": 10, "usage": 5},
        "image_count_total": {"limit": 100, "usage": 3},
        "image_count_uploading": {"limit": -1, "usage": 1},
    }
    settings.IMAGE_STORAGE_QUOTA = 0
    assert Api(people.bob).get(f"{V2}/info/usage").json()["usage"]["image_size_total"]["limit"] == -1


def test_an_upload_beyond_the_quota(people: People, make: MakeImage, settings: Settings) -> None:
    settings.IMAGE_STORAGE_QUOTA = 4096
    make(data=pictures.raw(4096))
    image, api = make(), Api(people.alice)
    answer = api.client.put(
        f"{V2}/images/{image.id}/file",
        data=pictures.raw(512),
        content_type="application/octet-stream",
        headers=api.headers,
    )
    assert answer.status_code == 413
    image.refresh_from_db()
    assert image.status == "queued"


def test_visibilities_that_need_a_rule(people: People) -> None:
    assert Api(people.alice).post(f"{V2}/images", {"visibility": "community"}).status_code == 201
    answer = Api(people.alice).post(f"{V2}/images", {"visibility": "public"})
    assert answer.status_code == 403
    assert answer.json()["message"] == "You are not authorized to complete publicize_image action."


def test_the_owner_need_not_be_a_project_here(operator: Person, settings: Settings) -> None:
    stranger = uuid.uuid4().hex
    given = {"owner": stranger, "disk_format": "raw", "container_format": "bare"}
    made = Api(operator).post(f"{V2}/images", given).json()
    assert made["owner"] == stranger
    services.upload(operator.context, made["id"], [pictures.raw()])
    assert Api(operator).get(f"{V2}/images?owner={stranger}").json()["images"][0]["status"] == "active"
    settings.IMAGE_STORAGE_QUOTA = pictures.MIB
    with pytest.raises(TooLargeError):
        services.upload(operator.context, Api(operator).post(f"{V2}/images", given).json()["id"], [b"x" * 9])
