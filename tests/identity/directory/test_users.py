"""Users: made, changed, locked out and removed."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute.models import KeyPair
from provisioning.identity.models import SignIn, User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.groups import add_to_group, create_group
from tests.identity.bodies import TOKENS, by_password
from tests.identity.directory.people_of_domains import V3, fault, made, make_realm, role, status
from tests.support.cast import Api, People, Person, make_project, make_user
from tests.support.tables import each_row

SECRET = "a password of hers"


def test_a_user_is_made_shown_changed_and_removed(people: People) -> None:
    api = Api(people.operator)
    user = made(
        api,
        "user",
        name="grace",
        password=SECRET,
        email="grace@example.org",
        description="d",
        default_project_id=people.alice.project.id.hex,
        options={"lock_password": True, "multi_factor_auth_rules": [["password", "totp"]]},
        room=["a", 1],
    )
    assert (user["domain_id"], user["enabled"], user["room"]) == ("default", True, ["a", 1])
    assert user["options"] == {"lock_password": True, "multi_factor_auth_rules": [["password", "totp"]]}
    assert (user["email"], user["description"]) == ("grace@example.org", "d")
    assert user["default_project_id"] == people.alice.project.id.hex
    assert user["password_expires_at"] is None
    path = f"{V3}/users/{user['id']}"
    assert SECRET not in api.get(path).content.decode()
    assert api.get(path).json()["user"] == user
    changes = {"name": "hopper", "email": None, "default_project_id": None, "options": {"lock_password": None}}
    changed = api.patch(path, {"user": changes}).json()["user"]
    assert changed["name"] == "hopper"
    assert {"email", "default_project_id"}.isdisjoint(changed)
    assert changed["options"] == {"multi_factor_auth_rules": [["password", "totp"]]}
    assert status(api.delete(path)) == 204
    assert status(api.get(path)) == 404


@pytest.mark.parametrize("kind", ["user", "group"])
def test_nobody_is_made_in_a_domain_that_is_not_there(people: People, kind: str) -> None:
    answer = Api(people.operator).post(f"{V3}/{kind}s", {kind: {"name": "x", "domain_id": "none"}})
    assert fault(answer) == (404, "Could not find domain: none.")
    assert not User.objects.filter(name="x").exists()


def test_a_user_made_with_a_password_signs_in_and_one_without_does_not(people: People) -> None:
    api = Api(people.operator)
    for name, fields, expected in (
        ("grace", {"password": SECRET}, 201),
        ("hal", {}, 401),
        ("ida", {"password": None}, 401),
    ):
        made(api, "user", name=name, **fields)
        person = Person(User.objects.get(name=name), people.alice.project)
        assert status(Api(None).post(TOKENS, by_password(person, "unscoped", password=SECRET))) == expected


def test_a_password_set_by_an_administrator_ends_every_token_and_session(people: People) -> None:
    alice = people.alice
    old, path = Api(alice), f"{V3}/users/{alice.user.id.hex}"
    assert status(Api(None).post(TOKENS, by_password(alice))) == 201
    assert status(Api(people.operator).patch(path, {"user": {"password": SECRET}})) == 200
    assert status(old.get(path)) == 401
    assert not SignIn.objects.filter(user=alice.user).exists()
    assert status(Api(None).post(TOKENS, by_password(alice))) == 401
    assert status(Api(None).post(TOKENS, by_password(alice, password=SECRET))) == 201


def test_a_user_locked_out_is_out_at_once_and_the_old_tokens_stay_out(people: People) -> None:
    alice = people.alice
    old, path = Api(alice), f"{V3}/users/{alice.user.id.hex}"
    for enabled in (False, True):
        assert Api(people.operator).patch(path, {"user": {"enabled": enabled}}).json()["user"]["enabled"] is enabled
        assert status(old.get(path)) == 401
    assert status(Api(alice).get(path)) == 200


def test_a_removed_users_key_pairs_and_tokens_go_too(people: People) -> None:
    alice = people.alice
    old = Api(alice)
    KeyPair.objects.create(user_id=alice.user_id, name="k", public_key="p", fingerprint="f")
    KeyPair.objects.create(user_id=people.bob.user_id, name="k", public_key="p", fingerprint="f")
    assert status(Api(people.operator).delete(f"{V3}/users/{alice.user.id.hex}")) == 204
    assert [pair.user_id for pair in KeyPair.objects.all()] == [people.bob.user_id]
    assert status(old.get(f"{V3}/auth/projects")) == 401


def test_the_last_administrator_stays(people: People) -> None:
    path = f"{V3}/users/{people.operator.user.id.hex}"
    api = Api(people.operator)
    for answer in (api.delete(path), api.patch(path, {"user": {"enabled": False, "description": "x"}})):
        code, message = fault(answer)
        assert (code, "administrator" in message) == (403, True)
    user = api.get(path).json()["user"]
    assert (user["enabled"], "description" in user) == (True, False)


def test_the_name_of_a_user_is_taken_once_in_its_domain(people: People) -> None:
    api = Api(people.operator)
    make_realm()
    assert status(api.post(f"{V3}/users", {"user": {"name": "alice"}})) == 409
    made(api, "user", name="alice", domain_id="other")
    assert status(api.patch(f"{V3}/users/{people.bob.user.id.hex}", {"user": {"name": "alice"}})) == 409
    long = "x" * 255
    assert made(api, "user", name=long)["name"] == long


@each_row(
    ("fields", "named"),
    [
        ({}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": " "}, "name"),
        ({"name": None}, "name"),
        ({"name": "x", "enabled": 1}, "enabled"),
        ({"name": "x", "email": 5}, "email"),
        ({"name": "x", "email": "e" * 255}, "email"),
        ({"name": "x", "password": 5}, "password"),
        ({"name": "x", "password": ""}, "password"),
        ({"name": "x", "password": "p" * 1025}, "password"),
        ({"name": "x", "domain_id": None}, "domain_id"),
        ({"name": "x", "default_project_id": "0" * 32}, "project"),
        ({"name": "x", "default_project_id": "no id"}, "project"),
        ({"name": "x", "default_project_id": [1]}, "default_project_id"),
        ({"name": "x", "options": {"lock_password": "yes"}}, "lock_password"),
        ({"name": "x", "options": {"nonsense": True}}, "nonsense"),
        ({"name": "x", "options": {"multi_factor_auth_rules": ["password"]}}, "multi_factor_auth_rules"),
        ({"name": "x", "options": {"multi_factor_auth_rules": [[]]}}, "multi_factor_auth_rules"),
        ({"name": "x", "options": []}, "options"),
        ({"name": "x", "original_password": "secret"}, "original_password"),
        ({"name": "x", "federated": []}, "federated"),
        ({"name": "x", "id": "y"}, "id"),
    ],
)
def test_a_wrong_user_is_refused_and_the_field_is_named(people: People, fields: dict[str, Any], named: str) -> None:
    before = User.objects.count()
    code, message = fault(Api(people.operator).post(f"{V3}/users", {"user": fields}))
    assert (code, named in message) == (400, True), message
    assert User.objects.count() == before


def test_a_refused_change_leaves_everything_as_it_was(people: People) -> None:
    api, path = Api(people.operator), f"{V3}/users/{people.alice.user.id.hex}"
    before = api.get(path).json()
    for fields in (
        {"description": "new", "name": "bob"},
        {"description": "new", "domain_id": "other"},
        {"description": "new", "options": {"lock_password": 1}},
        {"description": "new", "big": "x" * 20_000},
    ):
        assert status(api.patch(path, {"user": fields})) in {400, 409}
    assert api.get(path).json() == before


def test_users_see_themselves_and_what_they_are_in(people: People) -> None:
    alice, bob = people.alice, people.bob
    group = create_group(alice.user.domain, "g")
    add_to_group(group, alice.user)
    grant(role("reader"), group=group, project=make_project("p"))
    own = f"{V3}/users/{alice.user.id.hex}"
    assert [each["name"] for each in Api(alice).get(f"{own}/groups").json()["groups"]] == ["g"]
    assert [each["name"] for each in Api(alice).get(f"{own}/projects").json()["projects"]] == ["p", "wonderland"]
    for path in (own, f"{own}/groups", f"{own}/projects"):
        assert status(Api(bob).get(path)) == 403
        assert status(Api(people.operator).get(path)) == 200
    for answer in (
        Api(alice).patch(own, {"user": {"description": "x"}}),
        Api(alice).delete(own),
        Api(alice).post(f"{V3}/users", {"user": {"name": "x"}}),
    ):
        assert status(answer) == 403


def test_passwords_expire_as_the_user_shows(people: People) -> None:
    user = make_user("old")
    User.objects.filter(id=user.id).update(password_expires_at="2030-01-31T12:00:00Z")
    path = f"{V3}/users/{user.id.hex}"
    api = Api(people.operator)
    assert api.get(path).json()["user"]["password_expires_at"] == "2030-01-31T12:00:00.000000"
    never = {"user": {"options": {"ignore_password_expiry": True}}}
    assert api.patch(path, never).json()["user"]["password_expires_at"] is None
