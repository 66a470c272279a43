"""Images that are shared with single projects."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pytest_django import Settings

from provisioning.common.errors import InvalidInputError
from provisioning.identity.services import projects
from provisioning.images import selectors, services
from provisioning.images.models import ImageMember
from tests.image import pictures
from tests.image.asking import V2, names, patch, replace
from tests.image.conftest import MakeImage
from tests.support.cast import Api, People, Person, make_project
from tests.support.tables import each_row


def members_of(image: Any) -> str:
    return f"{V2}/images/{image.id}/members"


def share(person: Person, image: Any, project: object) -> Any:
    return Api(person).post(members_of(image), {"member": str(project)})


def answer_with(person: Person, image: Any, project: object, status: object) -> Any:
    return Api(person).put(f"{members_of(image)}/{project}", {"status": status})


@pytest.mark.slow
def test_sharing_from_offer_to_end(people: People, make: MakeImage) -> None:
    alice, charlie = people.alice, people.charlie
    image = make(data=pictures.raw(), name="gift")
    other = charlie.project_id
    assert Api(charlie).get(f"{V2}/images/{image.id}").status_code == 404

    shared = share(alice, image, other.hex)
    assert shared.status_code == 200
    shown = shared.json()
    assert set(shown) == {"image_id", "member_id", "status", "created_at", "updated_at", "schema"}
    assert (shown["image_id"], shown["member_id"], shown["status"]) == (str(image.id), other.hex, "pending")
    assert shown["schema"] == "/v2/schemas/member"

    assert Api(charlie).get(f"{V2}/images/{image.id}").status_code == 200
    assert selectors.usable_image_for(charlie.context, image.id).id == image.id
    assert selectors.usable_images_for(charlie.context) == []
    assert names(charlie) == names(charlie, "visibility=shared") == []
    assert names(charlie, "member_status=pending") == names(charlie, "visibility=shared&member_status=all") == ["gift"]

    accepted = answer_with(charlie, image, other.hex, "accepted")
    assert (accepted.status_code, accepted.json()["status"]) == (200, "accepted")
    assert names(charlie) == names(charlie, "visibility=shared") == names(charlie, "visibility=all") == ["gift"]
    assert names(charlie, "member_status=pending") == names(charlie, "visibility=private") == []
    assert [each.id for each in selectors.usable_images_for(charlie.context)] == [image.id]
    assert Api(alice).get(f"{members_of(image)}/{other}").json()["status"] == "accepted"

    assert answer_with(charlie, image, other, "rejected").status_code == 200
    assert names(charlie) == []
    assert names(charlie, "member_status=rejected") == ["gift"]
    assert Api(alice).delete(f"{members_of(image)}/{other.hex}").status_code == 204
    assert Api(alice).delete(f"{members_of(image)}/{other.hex}").status_code == 404
    assert Api(charlie).get(f"{V2}/images/{image.id}").status_code == 404
    with pytest.raises(InvalidInputError):
        selectors.usable_image_for(charlie.context, image.id)


def test_members_read_and_change_nothing(people: People, make: MakeImage) -> None:
    image = make(data=pictures.raw())
    share(people.alice, image, people.charlie.project_id)
    api, path = Api(people.charlie), f"{V2}/images/{image.id}"
    assert b"".join(api.get(f"{path}/file").streaming_content) == pictures.raw()
    assert patch(people.charlie, image.id, replace("/name", "mine")).status_code == 403
    assert api.delete(path).status_code == api.put(f"{path}/tags/x").status_code == 403
    assert share(people.charlie, image, people.operator.project_id).status_code == 403
    assert api.delete(f"{members_of(image)}/{people.charlie.project_id.hex}").status_code == 403
    assert ImageMember.objects.count() == 1


def test_who_knows_whom(people: People, make: MakeImage) -> None:
    image, third = make(), make_project("third")
    for project in (people.charlie.project, third):
        share(people.alice, image, project.id.hex)

    def listed(person: Person) -> Any:
        return [member["member_id"] for member in Api(person).get(members_of(image)).json()["members"]]

    both = [people.charlie.project_id.hex, third.id.hex]
    assert listed(people.alice) == listed(people.bob) == listed(people.operator) == both
    assert listed(people.charlie) == [people.charlie.project_id.hex]
    assert Api(people.charlie).get(f"{members_of(image)}/{third.id.hex}").status_code == 404
    assert answer_with(people.charlie, image, third.id.hex, "accepted").status_code == 404
    assert Api(people.alice).get(f"{members_of(image)}/{third.id.hex}").status_code == 200


def test_strangers_and_readers(people: People, make: MakeImage) -> None:
    image = make()
    mine = people.charlie.project_id.hex
    stranger = Api(people.charlie)
    for answer in (
        stranger.get(members_of(image)),
        stranger.get(f"{members_of(image)}/{mine}"),
        stranger.delete(f"{members_of(image)}/{mine}"),
        share(people.charlie, image, mine),
        answer_with(people.charlie, image, mine, "accepted"),
    ):
        assert answer.status_code == 404
    assert share(people.bob, image, mine).status_code == 403
    share(people.alice, image, mine)
    assert Api(people.bob).delete(f"{members_of(image)}/{mine}").status_code == 403
    assert Api(people.bob).get(f"{members_of(image)}/{mine}").status_code == 200


def test_only_the_member_answers_or_an_operator(people: People, make: MakeImage) -> None:
    image, mine = make(), people.charlie.project_id.hex
    share(people.alice, image, mine)
    assert answer_with(people.alice, image, mine, "accepted").status_code == 403
    assert Api(people.alice).get(f"{members_of(image)}/{mine}").json()["status"] == "pending"
    assert answer_with(people.operator, image, mine, "accepted").json()["status"] == "accepted"
    assert names(people.charlie) == ["picture"]


@pytest.mark.parametrize("visibility", ["private", "community", "public"])
def test_only_shared_images_have_members(people: People, make: MakeImage, visibility: str) -> None:
    image = make(people.operator, visibility="shared")
    share(people.operator, image, people.charlie.project_id)
    services.update(people.operator.context, image.id, {"visibility": visibility})
    operator, path = Api(people.operator), f"{members_of(image)}/{people.charlie.project_id.hex}"
    assert operator.get(members_of(image)).status_code == 403
    assert operator.get(path).status_code == 404
    assert operator.delete(path).status_code == share(people.operator, image, people.alice.project_id).status_code
    assert operator.delete(path).status_code == operator.put(path, {"status": "accepted"}).status_code == 403
    assert operator.get(members_of(image)).json()["message"].endswith("Only shared images have members.")
    visible = Api(people.charlie).get(f"{V2}/images/{image.id}").status_code
    assert visible == (404 if visibility == "private" else 200)
    services.update(people.operator.context, image.id, {"visibility": "shared"})
    assert operator.get(path).status_code == 200


@each_row(
    "body", [{}, [], {"member": ""}, {"member": None}, {"member": 5}, {"member": ["x"]}, {"member": "x" * 300}, "x"]
)
def test_a_wrong_member_is_refused(alice: Person, make: MakeImage, body: Any) -> None:
    assert Api(alice).post(members_of(make()), body).status_code == 400


def test_a_member_is_a_project_and_comes_once(people: People, make: MakeImage, settings: Settings) -> None:
    image = make()
    for unknown in ("factory", uuid.uuid4().hex, "\N{SNOWMAN}"):
        answer = share(people.alice, image, unknown)
        assert answer.status_code == 400
        assert "no project" in answer.json()["message"]
    assert share(people.alice, image, people.charlie.project_id.hex).status_code == 200
    assert share(people.alice, image, people.charlie.project_id).status_code == 409
    settings.IMAGE_MEMBER_LIMIT = 1
    assert share(people.alice, image, people.operator.project_id).status_code == 413
    assert ImageMember.objects.count() == 1


@each_row("body", [{}, [], {"status": "perhaps"}, {"status": None}, {"status": ["accepted"]}])
def test_a_wrong_answer_is_refused(people: People, make: MakeImage, body: Any) -> None:
    image = make()
    mine = people.charlie.project_id
    share(people.alice, image, mine)
    assert Api(people.charlie).put(f"{members_of(image)}/{mine.hex}", body).status_code == 400
    assert ImageMember.objects.get().status == "pending"


def test_ids_that_are_none(people: People, make: MakeImage) -> None:
    image, api = make(), Api(people.alice)
    for member in ("nonsense", uuid.uuid4().hex, "%00", "a" * 300):
        path = f"{members_of(image)}/{member}"
        assert api.get(path).status_code == api.delete(path).status_code == 404
    assert api.get(f"{V2}/images/nonsense/members").status_code == 404


def test_memberships_go_with_their_project(people: People, make: MakeImage) -> None:
    project = make_project("passing")
    share(people.alice, make(), project.id)
    projects.delete_project(project)
    assert not ImageMember.objects.exists()


def test_members_of_a_deleted_image(people: People, make: MakeImage) -> None:
    image = make()
    share(people.alice, image, people.charlie.project_id)
    services.delete(people.alice.context, image.id)
    assert names(people.charlie, "member_status=all") == []
    assert Api(people.alice).get(members_of(image)).status_code == 404
    assert Api(people.charlie).get(members_of(image)).status_code == 404
