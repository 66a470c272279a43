"""Users in the dashboard: found, made with a password shown once, let in and out, and what signs in for them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from provisioning.common.errors import NotAuthenticatedError
from provisioning.identity.models import ApplicationCredential, Domain, Role, User
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.domains import create_domain
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.passwords import authenticate_password
from provisioning.identity.services.users import set_user_enabled, update_user
from tests.dashboard.conftest import SignedIn, offered
from tests.support.cast import PASSWORD, People, Person, make_user

NEW = {"name": "dora", "email": "dora@example.org", "how": "make", "project": "wonderland", "role": "member"}


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


def names(client: Client, address: str) -> list[str]:
    return [user.name for user in client.get(address).context["records"]]


def signs_in(name: str, password: str) -> bool:
    try:
        authenticate_password(user_name=name, domain_id="default", password=password, source="192.0.2.1")
    except NotAuthenticatedError:
        return False
    return True


@pytest.mark.slow
def test_users_are_found_by_name_address_id_domain_and_state(at_operator: Client, people: People) -> None:
    other = create_domain("Other", domain_id="other")
    make_user("alice", domain=other)
    update_user(people.bob.user, email="builder@example.org")
    set_user_enabled(people.charlie.user, enabled=False)
    User.objects.filter(id=people.alice.user_id).update(password_expires_at=timezone.now() - timedelta(days=1))
    assert names(at_operator, "/users/?q=ALI") == ["alice", "alice"]
    assert names(at_operator, "/users/?q=ali&domain=other") == ["alice"]
    assert names(at_operator, "/users/?q=builder") == ["bob"]
    assert names(at_operator, f"/users/?q={people.bob.user_id.hex}") == ["bob"]
    assert names(at_operator, "/users/?state=disabled") == ["charlie"]
    assert names(at_operator, "/users/?state=expired") == ["alice"]
    page = at_operator.get("/users/").content.decode()
    assert "Password expired" in page.partition("<tbody")[2]
    assert ">Disabled<" in page.partition("<tbody")[2]


def test_projects_by_groups_are_counted_once(at_operator: Client, alice: Person, charlie: Person) -> None:
    staff = create_group(Domain.objects.get(), "staff")
    add_to_group(staff, alice.user)
    for project in (alice.project, charlie.project):
        grant(Role.objects.get(name="reader"), group=staff, project=project)
    (row,) = at_operator.get("/users/?q=alice").context["records"]
    assert row.projects == 2


def test_a_user_is_made_with_a_password_that_is_shown_once(at_operator: Client, alice: Person) -> None:
    answer = at_operator.post("/users/create/", NEW)
    assert answer.status_code == 201
    assert "no-store" in answer.headers["Cache-Control"]
    password = re.search(r'data-testid="password">([^<]+)<', answer.content.decode())
    assert password
    dora = User.objects.get(name="dora")
    assert (dora.email, dora.default_project) == ("dora@example.org", alice.project)
    assert roles_of(dora.id, alice.project_id) == {"member", "reader"}
    assert signs_in("dora", password[1])
    assert password[1] not in at_operator.get(f"/users/{dora.id}/").content.decode()
    again = at_operator.post("/users/create/", NEW | {"name": "emil"}).content.decode()
    assert password[1] not in again


def test_a_generated_password_keeps_the_rule_of_length(at_operator: Client, alice: Person, settings: Any) -> None:
    settings.PASSWORD_MIN_LENGTH = 40
    assert at_operator.post("/users/create/", NEW).status_code == 201
    typed = NEW | {"name": "emil", "how": "type", "password": "shorter than forty"}
    assert list(at_operator.post("/users/create/", typed).context["form"].errors) == ["password"]


def test_a_typed_password_is_never_shown(at_operator: Client, alice: Person) -> None:
    typed = NEW | {"how": "type", "password": "a typed password"}
    answer = at_operator.post("/users/create/", typed, follow=True)
    assert answer.redirect_chain[0][0] == f"/users/{User.objects.get(name='dora').id}/"
    assert "a typed password" not in answer.content.decode()
    assert signs_in("dora", "a typed password")
    refused = at_operator.post("/users/create/", typed)
    assert refused.status_code == 422
    assert "a typed password" not in refused.content.decode()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "alice"}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"email": "x" * 300}, "email"),
        ({"email": "a\0b"}, "email"),
        ({"description": "a\0b"}, "description"),
        ({"domain": "nowhere"}, "domain"),
        ({"project": "nowhere"}, "project"),
        ({"project": "a\0b"}, "project"),
        ({"role": "nothing"}, "role"),
        ({"role": "a\0b"}, "role"),
        ({"role": ""}, "role"),
        ({"how": "type"}, "password"),
        ({"how": "type", "password": "x" * 1025}, "password"),
    ],
)
def test_what_is_wrong_with_a_user_is_reported_at_its_field(
    at_operator: Client, alice: Person, changes: dict[str, str], field: str
) -> None:
    before = User.objects.count()
    answer = at_operator.post("/users/create/", NEW | changes)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert User.objects.count() == before


def test_a_user_without_a_project_needs_no_role(at_operator: Client, people: People) -> None:
    assert at_operator.post("/users/create/", {"name": "dora", "how": "make"}).status_code == 201
    dora = User.objects.get(name="dora")
    assert dora.default_project is None
    assert "No role anywhere" in at_operator.get(f"/users/{dora.id}/").content.decode()


def test_the_form_begins_with_the_project_one_comes_from(at_operator: Client, alice: Person) -> None:
    assert 'value="wonderland"' in at_operator.get(f"/users/create/?project={alice.project_id}").content.decode()
    assert at_operator.get("/users/create/?project=x").status_code == 200


def test_the_page_of_a_user_tells_roles_and_how_they_come(at_operator: Client, alice: Person, charlie: Person) -> None:
    staff = create_group(Domain.objects.get(), "staff")
    add_to_group(staff, alice.user)
    grant(Role.objects.get(name="reader"), group=staff, project=charlie.project)
    grant(Role.objects.get(name="reader"), user=alice.user, domain=Domain.objects.get(), inherited=True)
    answer = at_operator.get(f"/users/{alice.user_id}/")
    rows = {
        (str(row.project or row.domain), row.role.name, str(row.group or ""), row.inherited)
        for row in answer.context["standings"]
    }
    assert rows == {
        ("wonderland", "member", "", False),
        ("factory", "reader", "staff", False),
        ("Default", "reader", "", True),
    }
    page = answer.content.decode()
    assert "direct, on all projects below" in page
    assert page.count('title="Change roles"') == 1


def test_a_user_is_changed(at_operator: Client, alice: Person) -> None:
    address = f"/users/{alice.user_id}/edit/"
    typed = {"name": "alison", "email": "a@b.example", "description": "new", "project": "wonderland"}
    assert at_operator.post(address, typed).status_code == 303
    alice.user.refresh_from_db()
    assert (alice.user.name, alice.user.email, alice.user.description) == ("alison", "a@b.example", "new")
    assert 'value="alison"' in at_operator.get(address).content.decode()
    for changes, field in (({"name": "bob"}, "name"), ({"project": "nowhere"}, "project"), ({"name": " "}, "name")):
        assert list(at_operator.post(address, typed | changes).context["form"].errors) == [field]
    at_operator.post(address, typed | {"project": ""})
    alice.user.refresh_from_db()
    assert alice.user.default_project is None


def test_a_disabled_user_is_out_at_once_and_let_in_again(at_operator: Client, at_alice: Client, alice: Person) -> None:
    assert "Disable alice?" in at_operator.get(f"/users/{alice.user_id}/disable/").content.decode()
    answer = at_operator.post(f"/users/{alice.user_id}/disable/", follow=True)
    assert "alice was disabled." in answer.content.decode()
    assert at_alice.get("/").status_code == 302
    assert not signs_in("alice", PASSWORD)
    at_operator.post(f"/users/{alice.user_id}/enable/")
    assert signs_in("alice", PASSWORD)


def test_a_new_password_ends_the_old_one_and_every_session(
    at_operator: Client, at_alice: Client, alice: Person
) -> None:
    address = f"/users/{alice.user_id}/password/"
    answer = at_operator.post(address, {"how": "make"})
    assert answer.status_code == 201
    password = re.search(r'data-testid="password">([^<]+)<', answer.content.decode())
    assert password
    assert at_alice.get("/").status_code == 302
    assert signs_in("alice", password[1])
    assert not signs_in("alice", PASSWORD)
    assert at_operator.post(address, {"how": "type", "password": "typed by hand"}).status_code == 303
    assert signs_in("alice", "typed by hand")
    assert list(at_operator.post(address, {"how": "type"}).context["form"].errors) == ["password"]


def test_a_user_is_signed_out_everywhere(at_operator: Client, at_alice: Client, alice: Person) -> None:
    answer = at_operator.post(f"/users/{alice.user_id}/sign-out/", follow=True)
    assert "alice is signed out everywhere." in answer.content.decode()
    assert at_alice.get("/").status_code == 302
    assert signs_in("alice", PASSWORD)


def test_sessions_are_counted(at_operator: Client, alice: Person) -> None:
    assert "Not signed in." in at_operator.get(f"/users/{alice.user_id}/").content.decode()
    Client().post("/auth/login/", {"user_name": "alice", "password": PASSWORD})
    assert "1 browser or program" in at_operator.get(f"/users/{alice.user_id}/").content.decode()


def test_a_lockout_is_shown_and_lifted(at_operator: Client, alice: Person, settings: Any) -> None:
    settings.LOCKOUT_ATTEMPTS = 2
    for _ in range(3):
        assert not signs_in("alice", "wrong")
    assert not signs_in("alice", PASSWORD)
    page = at_operator.get(f"/users/{alice.user_id}/").content.decode()
    assert ">Locked out<" in page
    assert "Remove lockout" in page
    assert "Locked out" in at_operator.get("/users/?q=alice").content.decode()
    at_operator.post(f"/users/{alice.user_id}/unlock/")
    assert signs_in("alice", PASSWORD)
    assert "Remove lockout" not in at_operator.get(f"/users/{alice.user_id}/").content.decode()


def test_a_deleted_user_is_gone(at_operator: Client, at_alice: Client, alice: Person) -> None:
    answer = at_operator.post(f"/users/{alice.user_id}/delete/", follow=True)
    assert "alice was deleted." in answer.content.decode()
    assert at_alice.get("/").status_code == 302
    assert not User.objects.filter(name="alice").exists()


@pytest.mark.parametrize("action", ["disable", "delete"])
def test_the_last_administrator_stays(at_operator: Client, operator: Person, action: str) -> None:
    assert "This is you." in at_operator.get(f"/users/{operator.user_id}/{action}/").content.decode()
    answer = at_operator.post(f"/users/{operator.user_id}/{action}/", follow=True)
    assert "without an administrator" in answer.content.decode()
    operator.user.refresh_from_db()
    assert operator.user.enabled


def test_an_operator_ends_an_application_credential_of_its_user_only(
    at_operator: Client, alice: Person, bob: Person
) -> None:
    credential, secret = create_application_credential(alice.user, alice.project, "backup")
    page = at_operator.get(f"/users/{alice.user_id}/").content.decode()
    assert "backup" in page
    assert secret not in page
    foreign = f"/users/{bob.user_id}/credentials/{credential.id}/delete/"
    assert at_operator.post(foreign).status_code == 404
    address = f"/users/{alice.user_id}/credentials/{credential.id}/delete/"
    assert "Delete backup of alice?" in at_operator.get(address).content.decode()
    assert "backup was deleted." in at_operator.post(address, follow=True).content.decode()
    assert not ApplicationCredential.objects.exists()


def test_a_role_is_given_from_the_page_of_the_user(at_operator: Client, bob: Person, charlie: Person) -> None:
    address = f"/users/{bob.user_id}/roles/add/"
    assert offered(at_operator.get(f"{address}?q=FACT"), "project") == ["factory"]
    member = str(Role.objects.get(name="member").id)
    answer = at_operator.post(address, {"project": str(charlie.project_id), "roles": member})
    assert answer.headers["Location"] == f"/users/{bob.user_id}/"
    assert "member" in roles_of(bob.user_id, charlie.project_id)
    for typed, field in (({"roles": member}, "project"), ({"project": str(charlie.project_id)}, "roles")):
        refused = at_operator.post(address, typed)
        assert (refused.status_code, list(refused.context["form"].errors)) == (422, [field])
