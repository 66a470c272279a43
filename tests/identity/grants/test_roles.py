"""``/v3/roles``: made, listed, changed and deleted."""

from __future__ import annotations

import uuid
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.events.models import Event
from provisioning.identity.models import ApplicationCredential, ImpliedRole, Role, RoleAssignment
from provisioning.identity.selectors.entries import roles_on_system
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.assignments import grant, revoke_grant
from provisioning.identity.services.roles import (
    BUILT_IN,
    DEFAULT_IMPLICATIONS,
    create_role,
    delete_role,
    ensure_role,
    unimply,
    update_role,
)
from tests.identity.grants.conftest import V3, Acme, role_named
from tests.support.cast import Api, People
from tests.support.roles import remove_role
from tests.support.tables import each_row

ROLES = f"{V3}/roles"


def create(api: Api, **values: Any) -> dict[str, Any]:
    answer = api.post(ROLES, {"role": values})
    assert answer.status_code == 201, answer.content
    return dict(answer.json()["role"])


def test_a_role_is_made_shown_changed_and_deleted(people: People) -> None:
    api = Api(people.operator)
    made = create(api, name="auditor", description="Looks.", colour="green")
    assert made == {
        "id": made["id"],
        "name": "auditor",
        "domain_id": None,
        "description": "Looks.",
        "options": {},
        "colour": "green",
        "links": {"self": f"http://127.0.0.1:8000{ROLES}/{made['id']}"},
    }
    assert api.get(f"{ROLES}/{made['id']}").json()["role"] == made
    changed = api.patch(f"{ROLES}/{made['id']}", {"role": {"name": "seer", "description": None, "size": 3}})
    assert changed.status_code == 200
    assert changed.json()["role"] == made | {"name": "seer", "description": "", "size": 3}
    assert api.delete(f"{ROLES}/{made['id']}").status_code == 204
    gone = api.get(f"{ROLES}/{made['id']}")
    assert gone.status_code == 404
    assert gone.json()["error"]["message"] == f"Could not find role: {made['id']}."


def test_a_name_is_taken_once_in_the_cloud_and_once_in_each_domain(people: People, acme: Acme) -> None:
    api = Api(people.operator)
    made = create(api, name="auditor")
    of_domain = create(api, name="auditor", domain_id="acme")
    assert of_domain["domain_id"] == "acme"
    answer = api.post(ROLES, {"role": {"name": "auditor"}})
    assert answer.status_code == 409
    assert "Choose another name" in answer.json()["error"]["message"]
    assert api.post(ROLES, {"role": {"name": "auditor", "domain_id": "acme"}}).status_code == 409
    other = create(api, name="other")
    assert api.patch(f"{ROLES}/{other['id']}", {"role": {"name": "auditor"}}).status_code == 409
    assert {role.id.hex for role in Role.objects.filter(name="auditor")} == {made["id"], of_domain["id"]}


def test_lists_have_the_clouds_roles_or_a_domains(people: People, acme: Acme) -> None:
    api = Api(people.operator)
    create(api, name="smith", domain_id="acme")

    def names(query: str) -> list[str]:
        answer = api.get(f"{ROLES}?{query}")
        assert answer.status_code == 200, answer.content
        return [role["name"] for role in answer.json()["roles"]]

    assert names("") == list(BUILT_IN)
    assert names("domain_id=acme") == ["smith"]
    assert names("domain_id=nowhere") == names("domain_id=%00") == names("name=x") == names("name=%00") == []
    assert names("name=member") == ["member"]
    assert names("name__contains=em") == ["member"]
    assert names("name__istartswith=A") == ["admin"]
    assert names("name__startswith=A") == []
    assert names("name__endswith=er&sort_key=name&sort_dir=desc") == ["reader", "member", "manager"]
    assert names("sort_dir=desc") == list(BUILT_IN)


def test_a_list_goes_on_where_a_page_ends(people: People) -> None:
    api = Api(people.operator)
    first = api.get(f"{ROLES}?limit=3").json()
    assert [role["name"] for role in first["roles"]] == ["admin", "manager", "member"]
    following = first["links"]["next"].removeprefix("http://127.0.0.1:8000")
    second = api.get(following).json()
    assert [role["name"] for role in second["roles"]] == ["reader", "service"]
    assert second["links"]["next"] is None
    with_dashes = uuid.UUID(first["roles"][-1]["id"])
    assert api.get(f"{ROLES}?marker={with_dashes}").json()["roles"] == second["roles"]


def test_a_list_cannot_be_asked_for_like_this(people: People) -> None:
    api = Api(people.operator)
    for query in ("limit=-1", "limit=x", "marker=nothing", "sort_dir=up", "sort_key=links"):
        assert api.get(f"{ROLES}?{query}").status_code == 400, query


@each_row("name", BUILT_IN)
def test_the_roles_that_rules_ask_for_stay_as_they_are(people: People, name: str) -> None:
    role = role_named(name)
    role.options = {}  # as a cloud of an earlier version has it
    role.save(update_fields=["options"])
    api = Api(people.operator)
    shown = api.get(f"{ROLES}/{role.id.hex}").json()["role"]
    assert shown["options"] == {"immutable": True}
    assert api.delete(f"{ROLES}/{role.id.hex}").status_code == 403
    for change in ({"name": "x"}, {"description": "x"}, {"options": {"immutable": False}}):
        assert api.patch(f"{ROLES}/{role.id.hex}", {"role": change}).status_code == 403
    ensure_role(name)
    assert role_named(name).options == {"immutable": True}


def test_an_immutable_role_can_only_be_made_mutable(people: People) -> None:
    api = Api(people.operator)
    made = create(api, name="auditor", options={"immutable": True})
    where = f"{ROLES}/{made['id']}"
    assert made["options"] == {"immutable": True}
    for change in (
        {"name": "x"},
        {"name": "x", "options": {"immutable": False}},
        {"options": {"immutable": True}},
        {"options": {}},
    ):
        assert api.patch(where, {"role": change}).status_code == 403
    assert api.delete(where).status_code == 403
    freed = api.patch(where, {"role": {"options": {"immutable": None}}})
    assert freed.status_code == 200
    assert freed.json()["role"]["options"] == {}
    assert api.delete(where).status_code == 204


def test_a_role_stays_in_its_domain(people: People, acme: Acme) -> None:
    api = Api(people.operator)
    made = create(api, name="smith", domain_id="acme")
    where = f"{ROLES}/{made['id']}"
    assert api.patch(where, {"role": {"domain_id": "acme", "description": "x"}}).status_code == 200
    for domain_id in (None, "default"):
        assert api.patch(where, {"role": {"domain_id": domain_id}}).status_code == 400


WRONG: list[Any] = [
    [],
    "role",
    {},
    {"role": []},
    {"role": {}},
    {"role": {"name": ""}},
    {"role": {"name": "  "}},
    {"role": {"name": None}},
    {"role": {"name": 7}},
    {"role": {"name": ["x"]}},
    {"role": {"name": "x" * 256}},
    {"role": {"name": "a\0b"}},
    {"role": {"name": "x", "description": 5}},
    {"role": {"name": "x", "description": "x" * 70_000}},
    {"role": {"name": "x", "domain_id": 5}},
    {"role": {"name": "x", "domain_id": {}}},
    {"role": {"name": "x", "domain_id": ""}},
    {"role": {"name": "x", "domain_id": "nowhere"}},
    {"role": {"name": "x", "options": []}},
    {"role": {"name": "x", "options": {"immutable": "yes"}}},
    {"role": {"name": "x", "options": {"other": True}}},
    {"role": {"name": "x", "y" * 300: 1}},
    {"role": {"name": "x"}, "more": 1},
]


def test_a_body_that_makes_no_role_is_400(people: People) -> None:
    before, api = Role.objects.count(), Api(people.operator)
    assert [body for body in WRONG if api.post(ROLES, body).status_code != 400] == []
    assert Role.objects.count() == before


def test_what_is_no_role_is_404(people: People) -> None:
    api = Api(people.operator)
    for text in ("x", "%00", "0" * 31, "0" * 32, "a" * 300, "..%2f", "%F0%9F%98%80"):
        assert api.get(f"{ROLES}/{text}").status_code == 404, text
        assert api.patch(f"{ROLES}/{text}", {"role": {"name": "x"}}).status_code == 404, text
        assert api.delete(f"{ROLES}/{text}").status_code == 404, text


def test_a_role_with_a_long_name_of_any_letters_is_kept(people: People) -> None:
    name = "é" * 255
    made = create(Api(people.operator), name=name)
    assert existing(Role, made["id"]).name == name


def test_a_deleted_role_is_taken_from_everybody_at_once(people: People) -> None:
    role = create_role("auditor")
    grant(role, user=people.bob.user, project=people.bob.project)
    grant(role, user=people.bob.user, system=True)
    record = ApplicationCredential.objects.create(user=people.bob.user, project=people.bob.project, name="x")
    record.roles.add(role)
    assert "auditor" in people.bob.context.roles
    headers = people.bob.headers
    before = Event.objects.filter(topic="auth").count()
    assert Api(people.operator).delete(f"{ROLES}/{role.id.hex}").status_code == 204
    assert "auditor" not in people.bob.context.roles
    assert not RoleAssignment.objects.filter(user=people.bob.user, system=True).exists()
    assert list(record.roles.all()) == []
    assert Event.objects.filter(topic="auth").count() == before + 1
    assert Api(None, **headers).get(f"{V3}/auth/projects").status_code == 200


def test_only_a_role_in_the_way_of_the_last_administrator_stays(people: People) -> None:
    """A role that implied admin before that was refused may be what everybody administers by."""
    chief = create_role("chief")
    chief.implies.create(implied=role_named("admin"))
    grant(chief, user=people.alice.user, system=True)
    remove_role(people.operator.user, people.operator.project, "admin")
    with pytest.raises(ForbiddenError, match="without an administrator"):
        delete_role(chief)
    assert roles_on_system(people.alice.user_id) >= {"admin", "chief"}
    with pytest.raises(ForbiddenError, match="without an administrator"):
        unimply(chief, role_named("admin"))
    with pytest.raises(ForbiddenError, match="without an administrator"):
        revoke_grant(chief, user=people.alice.user, system=True)


def test_a_renamed_role_gives_another_name_at_once(people: People) -> None:
    role = create_role("auditor")
    grant(role, user=people.bob.user, project=people.bob.project)
    before = Event.objects.filter(topic="auth").count()
    update_role(role, name="seer")
    assert "seer" in people.bob.context.roles
    assert "auditor" not in people.bob.context.roles
    assert Event.objects.filter(topic="auth").count() == before + 1


def test_services_check_names_themselves(db: None) -> None:
    for name in ("", " ", "x" * 256, "\0"):
        with pytest.raises(InvalidInputError):
            create_role(name)
    role = create_role("x")
    with pytest.raises(InvalidInputError):
        update_role(role, name="")
    with pytest.raises(ConflictError):
        create_role("x")
    with pytest.raises(TypeError, match="domain"):
        update_role(role, domain=None)


def test_roles_are_for_administrators(people: People) -> None:
    role = role_named("member")
    for person in (people.alice, people.bob, people.charlie):
        api = Api(person)
        assert api.post(ROLES, {"role": {"name": "x"}}).status_code == 403
        assert api.post(ROLES, {}).status_code == 403
        for path in (role.id.hex, "0" * 32, "x"):
            assert api.get(f"{ROLES}/{path}").status_code == 403
            assert api.patch(f"{ROLES}/{path}", {"role": {"name": "x"}}).status_code == 403
            assert api.delete(f"{ROLES}/{path}").status_code == 403


def test_clouds_from_before_get_a_manager_between(people: People) -> None:
    Role.objects.filter(name__in=["manager", "service"]).delete()
    admin, member = role_named("admin"), role_named("member")
    admin.implies.create(implied=member)  # as it was then
    made = [ensure_role(name) for name in BUILT_IN]
    manager = made[1]
    assert set(ImpliedRole.objects.values_list("prior__name", "implied__name")) == set(DEFAULT_IMPLICATIONS)
    assert not role_named("service").implies.exists()
    assert Api(people.operator).get("/identity/v3/users").status_code == 200
    unimply(manager, member)
    assert [ensure_role(name) for name in BUILT_IN] == made
    assert not manager.implies.exists(), "what an operator took away stays away"


def test_a_manager_of_ones_own_becomes_that_of_the_cloud(people: People) -> None:
    Role.objects.filter(name="manager").delete()
    own, member = create_role("moderator", description="ours"), role_named("member")
    Role.objects.filter(id=own.id).update(name="manager")
    member.implies.create(implied=own)  # a circle is not closed
    role_named("admin").implies.create(implied=member)
    kept = ensure_role("manager", description="x")
    assert (kept.id, kept.description, kept.options) == (own.id, "ours", {"immutable": True})
    assert set(kept.implies.values_list("implied__name", flat=True)) == set()
    assert [each.implied.name for each in role_named("admin").implies.order_by("implied__name")] == [
        "manager",
        "member",
    ]


@pytest.mark.parametrize("own", [False, True])
def test_the_migration_gives_them_to_clouds_that_are_not_seeded_again(people: People, own: bool) -> None:
    Role.objects.filter(name__in=["manager", "service"]).delete()
    admin, member = role_named("admin"), role_named("member")
    admin.implies.create(implied=member)
    if own:
        member.implies.create(implied=Role.objects.create(name="manager"))  # a circle is not closed
    give_roles = import_module("provisioning.identity.migrations.0007_manager_and_service").give_roles
    for _ in range(2):  # and changes nothing when they are there
        give_roles(apps, None)
    expected = {*DEFAULT_IMPLICATIONS} if not own else {
        ("admin", "manager"), ("admin", "member"), ("member", "manager"), ("member", "reader")
    }  # fmt: skip
    assert set(ImpliedRole.objects.values_list("prior__name", "implied__name")) == expected
    assert all(role_named(name).options["immutable"] for name in ("manager", "service"))
    before = Role.objects.count()
    assert [ensure_role(name).name for name in BUILT_IN] == list(BUILT_IN)
    assert Role.objects.count() == before
    Role.objects.all().delete()
    give_roles(apps, None)
    assert not Role.objects.exists(), "an empty database gets its roles with the rest"
