"""The admin's pages of people, projects, roles, credentials and the catalog."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from provisioning.events.models import Event
from provisioning.identity.models import (
    ApplicationCredential,
    Domain,
    Endpoint,
    Group,
    ImpliedRole,
    Project,
    Region,
    Role,
    RoleAssignment,
    Service,
    SignIn,
    Trust,
    User,
)
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.credentials import create_credential
from provisioning.identity.services.trusts import TrustRequest, create_trust
from tests.ops.test_admin import act
from tests.support.cast import PASSWORD, People, Person, make_project, sign_in_browser
from tests.support.clouds import Cloud

pytestmark = pytest.mark.slow

NO_ROLES = {"roleassignment_set-TOTAL_FORMS": "0", "roleassignment_set-INITIAL_FORMS": "0"}
NO_TAGS = {"tags-TOTAL_FORMS": "0", "tags-INITIAL_FORMS": "0"}


def test_a_new_user_starts_in_the_default_domain_with_a_password_worth_the_name(admin: Client, alice: Person) -> None:
    page = admin.get("/admin/identity/user/add/").content.decode()
    assert '<option value="default" selected>' in page
    fields = {"domain": "default", "name": "erin", "password": "short", **NO_ROLES}
    answer = admin.post("/admin/identity/user/add/", fields)
    assert "at least 8 characters" in answer.content.decode()
    assert not User.objects.filter(name="erin").exists()


def test_lists_are_in_the_order_of_names_and_times_have_a_zone(admin: Client, people: People) -> None:
    for name in ("zoe", "anna", "mia"):
        make_project(name)
    page = admin.get("/admin/identity/project/")
    names = [project.name for project in page.context["cl"].result_list]
    assert names == sorted(names)
    users = [user.name for user in admin.get("/admin/identity/user/").context["cl"].result_list]
    assert users == sorted(users)
    assert re.search(r"<td[^>]*>\d+ \w{3} \d{4}, \d\d:\d\d UTC</td>", page.content.decode())


def test_a_project_and_a_user_with_a_role_are_made(admin: Client, alice: Person) -> None:
    fields = {"domain": "default", "name": "lab", "enabled": "on", **NO_ROLES, **NO_TAGS}
    assert admin.post("/admin/identity/project/add/", fields).status_code == 302
    lab = Project.objects.get(name="lab")
    role = RoleAssignment.objects.get(user=alice.user).role
    fields = {
        "domain": "default",
        "name": "dora",
        "password": "dora's own",
        "enabled": "on",
        "default_project": str(lab.id),
        "roleassignment_set-TOTAL_FORMS": "1",
        "roleassignment_set-INITIAL_FORMS": "0",
        "roleassignment_set-0-project": str(lab.id),
        "roleassignment_set-0-role": str(role.id),
    }
    assert admin.post("/admin/identity/user/add/", fields).status_code == 302
    dora = User.objects.get(name="dora")
    assert dora.check_password("dora's own")
    assert "member" in roles_of(dora.id, lab.id)


def test_taking_a_role_wakes_open_pages(admin: Client, alice: Person) -> None:
    given = RoleAssignment.objects.get(user=alice.user)
    fields = {
        "name": "alice",
        "enabled": "on",
        "default_project": str(alice.project_id),
        "roleassignment_set-TOTAL_FORMS": "1",
        "roleassignment_set-INITIAL_FORMS": "1",
        "roleassignment_set-0-id": str(given.pk),
        "roleassignment_set-0-user": str(alice.user_id),
        "roleassignment_set-0-project": str(alice.project_id),
        "roleassignment_set-0-role": str(given.role_id),
        "roleassignment_set-0-DELETE": "on",
    }
    assert admin.post(f"/admin/identity/user/{alice.user_id}/change/", fields).status_code == 302
    assert not roles_of(alice.user_id, alice.project_id)
    assert Event.objects.filter(topic="auth", payload__user_id=str(alice.user_id)).exists()


def test_a_new_password_ends_every_session(admin: Client, alice: Person) -> None:
    page = Client()
    sign_in_browser(page, alice)
    path = f"/admin/identity/user/{alice.user_id}/password/"
    assert "not the same" in admin.post(path, {"password": "a", "again": "b"}).content.decode()
    assert admin.post(path, {"password": "brand new", "again": "brand new"}).status_code == 302
    assert page.get("/").status_code == 302
    alice.user.refresh_from_db()
    assert alice.user.check_password("brand new")


def test_the_operators_own_password_goes_the_same_way(admin: Client, operator: Person) -> None:
    answer = admin.get("/admin/password_change/")
    assert answer.headers["Location"] == f"/admin/identity/user/{operator.user_id}/password/"


def test_a_disabled_user_is_out_at_once(admin: Client, alice: Person) -> None:
    page = Client()
    sign_in_browser(page, alice)
    assert "Lock these users out?" in act(admin, "/admin/identity/user/", "disable", [alice.user]).content.decode()
    act(admin, "/admin/identity/user/", "disable", [alice.user], confirmed="yes")
    assert page.get("/").status_code == 302
    act(admin, "/admin/identity/user/", "enable", [alice.user])
    assert User.objects.get(name="alice").enabled


def test_hashes_of_passwords_are_not_shown(admin: Client, alice: Person) -> None:
    page = admin.get(f"/admin/identity/user/{alice.user_id}/change/").content.decode()
    assert "argon2" not in page


def test_a_project_is_closed_and_reopened(admin: Client, alice: Person) -> None:
    page = Client()
    sign_in_browser(page, alice)
    act(admin, "/admin/identity/project/", "disable", [alice.project], confirmed="yes")
    assert page.get("/").status_code == 302
    act(admin, "/admin/identity/project/", "enable", [alice.project])
    assert Project.objects.get(id=alice.project_id).enabled


def test_a_project_that_owns_something_stays(admin: Client, alice: Person) -> None:
    cloud = Cloud.make()
    cloud.add_host("h1")
    cloud.launch(alice.context, name="kept")
    answer = admin.post(f"/admin/identity/project/{alice.project_id}/delete/", {"post": "yes"}, follow=True)
    assert "server" in answer.content.decode()
    assert Project.objects.filter(id=alice.project_id).exists()


def test_an_empty_project_is_removed(admin: Client, people: People) -> None:
    empty = make_project("empty")
    admin.post(f"/admin/identity/project/{empty.id}/delete/", {"post": "yes"})
    assert not Project.objects.filter(id=empty.id).exists()


def test_the_last_administrator_cannot_be_locked_out(admin: Client, operator: Person) -> None:
    answer = act(admin, "/admin/identity/user/", "disable", [operator.user], confirmed="yes")
    assert "without an administrator" in answer.content.decode()
    answer = admin.post(f"/admin/identity/user/{operator.user_id}/delete/", {"post": "yes"}, follow=True)
    assert "without an administrator" in answer.content.decode()
    assert User.objects.get(id=operator.user_id).enabled


def test_a_refusal_is_said_in_the_form_with_what_was_typed(admin: Client, alice: Person) -> None:
    fields = {"name": "auditor", "implies-TOTAL_FORMS": "1", "implies-INITIAL_FORMS": "0"}
    fields["implies-0-implied"] = str(Role.objects.get(name="admin").id)
    page = admin.post("/admin/identity/role/add/", fields).content.decode()
    assert 'value="auditor"' in page
    assert "admin" in page.split("errorlist")[1].split("</ul>")[0]
    assert not Role.objects.filter(name="auditor").exists()


def test_a_group_gives_its_members_its_roles(admin: Client, alice: Person) -> None:
    project = make_project("club")
    reader = Role.objects.get(name="reader")
    fields = {
        "domain": "default",
        "name": "friends",
        "groupmembership_set-TOTAL_FORMS": "1",
        "groupmembership_set-INITIAL_FORMS": "0",
        "groupmembership_set-0-user": str(alice.user_id),
        "roleassignment_set-TOTAL_FORMS": "1",
        "roleassignment_set-INITIAL_FORMS": "0",
        "roleassignment_set-0-project": str(project.id),
        "roleassignment_set-0-role": str(reader.id),
    }
    assert admin.post("/admin/identity/group/add/", fields).status_code == 302
    assert roles_of(alice.user_id, project.id) == {"reader"}
    friends = Group.objects.get(name="friends")
    admin.post(f"/admin/identity/group/{friends.id}/delete/", {"post": "yes"})
    assert not roles_of(alice.user_id, project.id)


def test_roles_of_an_operators_own_making(admin: Client, alice: Person) -> None:
    reader = Role.objects.get(name="reader")
    fields = {
        "name": "auditor",
        "implies-TOTAL_FORMS": "1",
        "implies-INITIAL_FORMS": "0",
        "implies-0-implied": str(reader.id),
    }
    assert admin.post("/admin/identity/role/add/", fields).status_code == 302
    auditor = Role.objects.get(name="auditor")
    assert ImpliedRole.objects.filter(prior=auditor, implied=reader).exists()
    given = {"user": str(alice.user_id), "role": str(auditor.id), "domain": "default", "inherited": "on"}
    assert admin.post("/admin/identity/roleassignment/add/", given).status_code == 302
    assert "auditor" in roles_of(alice.user_id, make_project("anywhere").id)
    row = RoleAssignment.objects.get(role=auditor)
    admin.post(f"/admin/identity/roleassignment/{row.pk}/delete/", {"post": "yes"})
    assert not RoleAssignment.objects.filter(role=auditor).exists()
    answer = admin.post(f"/admin/identity/role/{reader.id}/delete/", {"post": "yes"}, follow=True)
    assert Role.objects.filter(name="reader").exists()
    assert answer.status_code == 200


def test_a_domain_is_closed_before_it_is_removed(admin: Client) -> None:
    fields = {"name": "school", "enabled": "on", **NO_ROLES}
    assert admin.post("/admin/identity/domain/add/", fields).status_code == 302
    school = Domain.objects.get(name="school")
    path = f"/admin/identity/domain/{school.id}"
    assert Domain.objects.filter(id=school.id).exists()
    admin.post(f"{path}/delete/", {"post": "yes"})
    assert Domain.objects.filter(id=school.id).exists()
    assert admin.post(f"{path}/change/", {"name": "school", **NO_ROLES}).status_code == 302
    admin.post(f"{path}/delete/", {"post": "yes"})
    assert not Domain.objects.filter(id=school.id).exists()


def test_the_catalog_is_changed_through_its_services(admin: Client) -> None:
    assert admin.post("/admin/identity/region/add/", {"id": "annex", "description": "x"}).status_code == 302
    fields = {
        "type": "object-store",
        "name": "swift",
        "enabled": "on",
        "endpoints-TOTAL_FORMS": "0",
        "endpoints-INITIAL_FORMS": "0",
    }
    assert admin.post("/admin/identity/service/add/", fields).status_code == 302
    swift = Service.objects.get(name="swift")
    endpoint = {"service": str(swift.id), "interface": "public", "region": "annex", "enabled": "on"}
    refused = admin.post("/admin/identity/endpoint/add/", endpoint | {"url": "http://x/$(secret)s"})
    assert refused.status_code == 200
    assert admin.post("/admin/identity/endpoint/add/", endpoint | {"url": "http://x/v1"}).status_code == 302
    answer = admin.post("/admin/identity/region/annex/delete/", {"post": "yes"}, follow=True)
    assert Region.objects.filter(id="annex").exists()
    assert answer.status_code == 200
    admin.post(f"/admin/identity/service/{swift.id}/delete/", {"post": "yes"})
    assert not Endpoint.objects.filter(url="http://x/v1").exists()


def test_trusts_are_seen_and_taken_back(admin: Client, alice: Person, charlie: Person) -> None:
    asked = TrustRequest(charlie.user, impersonation=True, project=alice.project, roles=role_records(["reader"]))
    trust = create_trust(alice.context, asked)
    assert "charlie" in admin.get("/admin/identity/trust/").content.decode()
    assert "wonderland" in admin.get(f"/admin/identity/trust/{trust.id}/change/").content.decode()
    admin.post(f"/admin/identity/trust/{trust.id}/delete/", {"post": "yes"})
    assert not Trust.objects.exists()


def test_sessions_and_credentials_are_ended_and_their_secrets_not_shown(admin: Client, alice: Person) -> None:
    record, secret = create_application_credential(alice.user, alice.project, "robot")
    credential = create_credential(alice.user, kind="cert", blob="most secret blob")
    path = f"/admin/identity/applicationcredential/{record.id}"
    shown = admin.get(f"{path}/change/").content.decode() + admin.get("/admin/identity/credential/").content.decode()
    shown += admin.get(f"/admin/identity/credential/{credential.id}/change/").content.decode()
    for hidden in (secret, record.secret_hash, "most secret blob", credential.encrypted_blob):
        assert hidden not in shown
    admin.post(f"{path}/delete/", {"post": "yes"})
    assert not ApplicationCredential.objects.exists()
    page = Client()
    page.post("/auth/login/", {"user_name": "alice", "password": PASSWORD})
    assert page.get("/").status_code == 200
    session = SignIn.objects.get(user=alice.user, browser=True)
    admin.post(f"/admin/identity/signin/{session.id}/delete/", {"post": "yes"})
    assert page.get("/").status_code == 302
