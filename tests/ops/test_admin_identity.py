"""The admin's pages of people, projects, roles, credentials and the catalog."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from provisioning.identity.models import (
    ApplicationCredential,
    Endpoint,
    Project,
    Region,
    RoleAssignment,
    Service,
    SignIn,
    Trust,
    User,
)
from provisioning.identity.selectors.lookups import role_records
from provisioning.identity.services.application_credentials import create_application_credential
from provisioning.identity.services.credentials import create_credential
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.trusts import TrustRequest, create_trust
from tests.ops.test_admin import act
from tests.support.cast import PASSWORD, People, Person, make_project, sign_in_browser

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["domain", "group", "project", "role", "roleassignment", "user"])
def test_records_with_pages_in_the_dashboard_have_no_second_form(admin: Client, alice: Person, kind: str) -> None:
    group = create_group(alice.user.domain, "staff")
    assignment = RoleAssignment.objects.get(user=alice.user)
    rows = {
        "domain": (alice.user.domain, "/domains/default/"),
        "group": (group, f"/groups/{group.id}/"),
        "project": (alice.project, f"/projects/{alice.project_id}/"),
        "role": (assignment.role, f"/roles/{assignment.role_id}/edit/"),
        "roleassignment": (assignment, ""),
        "user": (alice.user, f"/users/{alice.user_id}/"),
    }
    row, page = rows[kind]
    path = f"/admin/identity/{kind}"
    assert admin.get(f"{path}/add/").status_code == 403
    assert admin.post(f"{path}/{row.pk}/change/", {"name": "x"}).status_code == 403
    assert admin.post(f"{path}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
    shown = admin.get(f"{path}/{row.pk}/change/").content.decode()
    assert 'name="_save"' not in shown
    assert 'value="delete_selected"' not in admin.get(f"{path}/").content.decode()
    if page:
        assert f'href="{page}"' in shown
        assert f'href="{page}"' in admin.get(f"{path}/").content.decode()
        assert admin.get(page).status_code == 200


def test_lists_are_in_the_order_of_names_and_times_have_a_zone(admin: Client, people: People) -> None:
    for name in ("zoe", "anna", "mia"):
        make_project(name)
    page = admin.get("/admin/identity/project/")
    names = [project.name for project in page.context["cl"].result_list]
    assert names == sorted(names)
    users = [user.name for user in admin.get("/admin/identity/user/").context["cl"].result_list]
    assert users == sorted(users)
    assert re.search(r"<td[^>]*>\d+ \w{3} \d{4}, \d\d:\d\d UTC</td>", page.content.decode())


def test_the_operators_own_password_goes_the_same_way(admin: Client, operator: Person) -> None:
    assert admin.get("/admin/password_change/").headers["Location"] == "/settings/password/"


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


def test_the_last_administrator_cannot_be_locked_out(admin: Client, operator: Person) -> None:
    answer = act(admin, "/admin/identity/user/", "disable", [operator.user], confirmed="yes")
    assert "without an administrator" in answer.content.decode()
    assert User.objects.get(id=operator.user_id).enabled


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
    request = TrustRequest(charlie.user, impersonation=True, project=alice.project, roles=role_records(["reader"]))
    trust = create_trust(alice.context, request)
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
