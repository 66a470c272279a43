"""Pages for who has a role on a domain, or on the system: where one begins, what one sees, what one may do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from provisioning.identity.models import Domain, Group, Project, Role, RoleAssignment, User
from provisioning.identity.services.assignments import assign_role, grant, revoke_grant
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.roles import create_role
from tests.dashboard.conftest import SignedIn, offered, ticked
from tests.identity.directory.people_of_domains import Realm, make_realm, role
from tests.support.cast import PASSWORD, People, make_project, make_user
from tests.support.standing import standing

pytestmark = pytest.mark.slow

LISTS = ("/projects/", "/users/", "/groups/", "/roles/")


def enter(user: User) -> Client:
    """A browser in which this person has signed in by the form."""
    client = Client(raise_request_exception=False)
    typed = {"user_name": user.name, "password": PASSWORD, "domain": user.domain.name}
    assert client.post("/auth/login/", typed).status_code == 303
    return client


@dataclass
class Domains:
    """The domain ``other`` that dora administers, with the group staff; the browser in which she has signed in."""

    realm: Realm
    people: People
    staff: Group
    at_dora: Client

    @property
    def outside(self) -> Iterator[tuple[str, Any]]:
        """What is in another domain, by its kind."""
        yield "projects", self.people.alice.project.id
        yield "users", self.people.alice.user.id
        yield "groups", create_group(self.people.alice.user.domain, "elsewhere").id


@pytest.fixture
@standing
def domains(people: People) -> Domains:
    realm = make_realm()
    return Domains(realm, people, create_group(realm.domain, "staff"), enter(realm.dora))


@pytest.fixture
@standing
def at_auditor(people: People) -> Client:
    user = make_user("auditor")
    grant(role("reader"), user=user, system=True)
    return enter(user)


@pytest.fixture
@standing
def at_chief(people: People) -> Client:
    user = make_user("chief")
    grant(role("admin"), user=user, system=True)
    return enter(user)


def links(client: Client, path: str) -> set[str]:
    page = client.get(path, follow=True).content.decode()
    return {
        entry for entry in ("/instances/", "/domain/", "/system/", *LISTS, "/domains/") if f'href="{entry}"' in page
    }


# --- where one begins -------------------------------------------------------------------------------------------------


def test_who_has_no_project_begins_in_the_domain(domains: Domains) -> None:
    answer = domains.at_dora.get("/", follow=True)
    assert answer.redirect_chain == [("/domain/", 303)]
    page = answer.content.decode()
    assert "<h1><bdi>Other</bdi></h1>" in page
    assert links(domains.at_dora, "/domain/") == {"/domain/", *LISTS}
    assert "<bdi>dora</bdi> in <bdi>Other</bdi>" in page


def test_who_has_a_role_on_the_system_alone_begins_there(at_auditor: Client) -> None:
    assert at_auditor.get("/", follow=True).redirect_chain == [("/system/", 303)]
    assert links(at_auditor, "/system/") == {"/system/", *LISTS, "/domains/"}


def test_a_project_comes_first_and_the_own_domain_before_others(domains: Domains, people: People) -> None:
    first = Domain.objects.create(id="aaa", name="AAA")
    grant(role("reader"), user=domains.realm.erin, domain=first)
    assert enter(domains.realm.erin).get("/").status_code == 200
    grant(role("reader"), user=domains.realm.dora, domain=first)
    assert "<h1><bdi>Other</bdi></h1>" in enter(domains.realm.dora).get("/domain/").content.decode()


def test_one_changes_between_projects_domains_and_the_system(domains: Domains) -> None:
    dora, client = domains.realm.dora, domains.at_dora
    assign_role(dora, domains.realm.project, "member")
    grant(role("reader"), user=dora, system=True)
    page = client.get("/users/").content.decode()
    for address in (f"/auth/project/{domains.realm.project.id}/", "/auth/domain/other/", "/auth/system/"):
        assert f'formaction="{address}"' in page
    answer = client.post("/auth/system/", {"next": "/users/"}, follow=True)
    assert answer.redirect_chain == [("/users/", 302)]
    assert "alice" in answer.content.decode()
    answer = client.post(f"/auth/project/{domains.realm.project.id}/", {"next": "/users/"}, follow=True)
    assert answer.redirect_chain == [("/", 302)]
    assert "<h1><bdi>works</bdi></h1>" in answer.content.decode()
    answer = client.post("/auth/domain/other/", {"next": "/instances/"}, follow=True)
    assert answer.redirect_chain == [("/domain/", 302)]
    assert "You now administer the domain Other." in answer.content.decode()


def test_nobody_changes_to_what_is_not_theirs(domains: Domains) -> None:
    for address in ("/auth/domain/default/", "/auth/domain/nowhere/", "/auth/domain/%00/", "/auth/system/"):
        answer = domains.at_dora.post(address, follow=True)
        assert "You have no role on" in answer.content.decode()
        assert answer.redirect_chain[-1][0] == "/domain/"
    assert Client().post("/auth/system/").headers["Location"] == "/auth/login/"


def test_a_role_that_is_taken_away_ends_the_session(domains: Domains) -> None:
    revoke_grant(role("admin"), user=domains.realm.dora, domain=domains.realm.domain)
    assert domains.at_dora.get("/domain/").headers["Location"].startswith("/auth/login/")


def test_pages_of_projects_say_that_they_are(domains: Domains, at_auditor: Client) -> None:
    for client in (domains.at_dora, at_auditor):
        for path in ("/instances/", "/networks/", "/project/", "/api-access/", "/application-credentials/create/"):
            answer = client.get(path)
            assert (answer.status_code, "belongs to a project" in answer.content.decode()) == (403, True), path
        assert client.post("/key-pairs/create/", {"name": "x"}).status_code == 403


def test_ones_own_settings_are_there(domains: Domains) -> None:
    client = domains.at_dora
    for path in ("/settings/", "/settings/password/", "/settings/sessions/"):
        assert client.get(path).status_code == 200
    typed = {"original": PASSWORD, "password": "another-one-1", "again": "another-one-1"}
    assert client.post("/settings/password/", typed).status_code == 303
    assert client.get("/domain/").status_code == 200  # in the same domain as before


# --- a domain ---------------------------------------------------------------------------------------------------------


def test_lists_have_what_is_in_the_domain_whatever_is_asked_for(domains: Domains) -> None:
    assign_role(domains.realm.erin, domains.people.alice.project, "reader")
    for query in ("", "?domain=default", "?q=a", "?q="):
        result = {path: domains.at_dora.get(path + query).context["records"] for path in LISTS}
        for path in LISTS[:3]:
            assert {each.domain_id for each in result[path]} <= {"other"}
    names = {user.name: user.projects for user in domains.at_dora.get("/users/").context["records"]}
    assert names == {"dora": 0, "erin": 1}  # the one elsewhere is not counted
    assert [each.name for each in domains.at_dora.get("/domains/").context["records"]] == ["Other"]


def test_the_domain_s_page_counts_and_shows_who_has_a_role_on_it(domains: Domains) -> None:
    add_to_group(domains.staff, domains.realm.erin)
    grant(role("reader"), group=domains.staff, domain=domains.realm.domain, inherited=True)
    grant(role("reader"), user=domains.people.alice.user, domain=domains.realm.domain)
    answer = domains.at_dora.get("/domain/")
    assert answer.context["inside"] == {"projects": 1, "users": 2, "groups": 1}
    rows = {row.member.actor.name: row for row in answer.context["members"]}
    assert [each.name for each in rows["dora"].member.own] == ["admin"]
    assert [each.name for each in rows["staff"].member.handed_down] == ["reader"]
    assert (rows["erin"].member.others[0].group, rows["erin"].member.others[0].below) == (domains.staff, True)
    assert (rows["alice"].page, rows["alice"].change, rows["alice"].remove) == ("", "", "")
    for word in ("Edit", "Disable", "Delete"):
        assert f">{word}<" not in answer.content.decode()


def test_what_is_in_other_domains_is_not_shown_and_not_changed(domains: Domains) -> None:
    for kind, key in domains.outside:
        for tail in ("", "edit/", "delete/"):
            path = f"/{kind}/{key}/{tail}"
            assert domains.at_dora.get(path).status_code == domains.at_dora.post(path).status_code == 403
    for path in ("/domains/default/", "/domains/default/edit/", "/domains/nowhere/", "/domains/create/", "/system/"):
        assert domains.at_dora.get(path).status_code == 403, path
    for path in ("/quotas/", f"/projects/{domains.realm.project.id}/quotas/"):
        assert domains.at_dora.get(path).status_code == 403


def test_users_groups_and_projects_are_made_in_the_domain_alone(domains: Domains) -> None:
    client = domains.at_dora
    assert (
        client.post("/users/create/", {"name": "u", "how": "make", "project": "works", "role": "member"}).status_code
        == 201
    )
    assert client.post("/groups/create/", {"name": "g"}).status_code == 303
    assert client.post("/projects/create/", {"name": "p", "parent": "works"}).status_code == 303
    made = [User.objects.get(name="u"), Group.objects.get(name="g"), Project.objects.get(name="p")]
    assert {each.domain_id for each in made} == {"other"}
    for path in ("/users/create/", "/groups/create/", "/projects/create/"):
        answer = client.post(path, {"name": "x", "domain": "default", "how": "make"})
        assert "domain" in answer.context["form"].errors
    elsewhere = domains.people.alice.project
    for path, field in (("/users/create/", "project"), ("/projects/create/", "parent")):
        answer = client.post(path, {"name": "x", "how": "make", "role": "member", field: str(elsewhere.id)})
        assert field in answer.context["form"].errors
    assert "wonderland" not in client.get(f"/users/create/?project={elsewhere.id}").content.decode()
    assert not User.objects.filter(name="x").exists()


def test_everything_in_the_domain_is_changed_and_removed(domains: Domains) -> None:
    client, erin, project = domains.at_dora, domains.realm.erin, domains.realm.project
    assert client.post(f"/users/{erin.id}/edit/", {"name": "erna"}).status_code == 303
    assert client.post(f"/users/{erin.id}/password/", {"how": "make"}).status_code == 201
    assert client.post(f"/users/{erin.id}/disable/").status_code == 303
    assert client.post(f"/groups/{domains.staff.id}/users/add/", {"who": str(erin.id)}).status_code == 303
    assert client.post(f"/groups/{domains.staff.id}/users/{erin.id}/remove/").status_code == 303
    assert client.post(f"/projects/{project.id}/edit/", {"name": "plant"}).status_code == 303
    erin.refresh_from_db()
    project.refresh_from_db()
    assert (erin.name, erin.enabled, project.name) == ("erna", False, "plant")
    for path in (f"/users/{erin.id}/delete/", f"/groups/{domains.staff.id}/delete/", f"/projects/{project.id}/delete/"):
        assert client.post(path).status_code == 303
    assert set(User.objects.filter(domain="other").values_list("name", flat=True)) == {"dora"}
    assert not Project.objects.filter(domain="other").exists()


def test_members_come_from_the_domain_and_get_no_role_that_operates_the_cloud(domains: Domains) -> None:
    client, project, erin = domains.at_dora, domains.realm.project, domains.realm.erin
    path = f"/projects/{project.id}/members/add/"
    page = client.get(path)
    given = ["manager", "member", "reader"]
    assert (offered(page, "roles"), offered(page, "who")) == (given, ["staff", "dora", "erin"])
    member = str(role("member").id)
    for beyond in ("admin", "service"):
        assert client.post(path, {"who": f"user:{erin.id.hex}", "roles": str(role(beyond).id)}).status_code == 422
    answer = client.post(path, {"who": f"user:{domains.people.alice.user.id.hex}", "roles": member})
    assert "who" in answer.context["form"].errors
    assert client.post(path, {"who": f"group:{domains.staff.id.hex}", "roles": member}).status_code == 303
    given = RoleAssignment.objects.filter(project=project).values_list("user__name", "group__name", "role__name")
    assert set(given) == {("erin", None, "member"), (None, "staff", "member")}
    answer = client.post(
        f"/users/{erin.id}/roles/add/", {"project": str(domains.people.alice.project.id), "roles": member}
    )
    assert "project" in answer.context["form"].errors
    answer = client.post(f"/groups/{domains.staff.id}/users/add/", {"who": str(domains.people.alice.user.id)})
    assert "who" in answer.context["form"].errors


def test_roles_on_the_domain_and_on_all_its_projects(domains: Domains) -> None:
    client, erin, member, reader = domains.at_dora, domains.realm.erin, role("member"), role("reader")
    path = f"/domains/other/members/user/{erin.id}/"
    add = "/domains/other/members/add/"
    assert client.post(add, {"who": f"user:{erin.id.hex}"}).status_code == 422  # no role at all
    typed = {"who": f"user:{erin.id.hex}", "roles": str(reader.id), "handed_down": str(member.id)}
    assert client.post(add, typed).headers["Location"] == "/domains/other/"
    page = client.get(path)
    assert (ticked(page, "roles"), ticked(page, "handed_down")) == ([str(reader.id)], [str(member.id)])

    def held() -> set[tuple[str, bool]]:
        given = RoleAssignment.objects.filter(user=erin, domain="other")
        return {(each.role.name, each.inherited) for each in given}

    assert held() == {("reader", False), ("member", True)}
    assert client.post(path, {"roles": str(member.id), "handed_down": str(member.id)}).status_code == 303
    assert held() == {("member", False), ("member", True)}
    assert client.post(path, {"handed_down": str(role("admin").id)}).status_code == 422
    assert held() == {("member", False), ("member", True)}
    assert client.post(f"{path}remove/").status_code == 303
    assert held() == set()


def test_a_manager_of_the_domain_gives_no_role_beyond_the_own(domains: Domains) -> None:
    mona, ruth = (make_user(name, domain=domains.realm.domain) for name in ("mona", "ruth"))
    grant(role("manager"), user=mona, domain=domains.realm.domain)
    client, path = enter(mona), f"/projects/{domains.realm.project.id}/members/add/"
    assert offered(client.get(path), "roles") == ["manager", "member", "reader"]
    for name, status in (("service", 422), ("member", 303)):
        assert client.post(path, {"who": f"user:{ruth.id.hex}", "roles": str(role(name).id)}).status_code == status
    typed = {"name": "dora", "enabled": "on", "email": "x@example.org"}
    refused = client.post(f"/users/{domains.realm.dora.id}/edit/", typed, follow=True)
    assert "a role that you may not assign" in refused.content.decode()
    assert User.objects.get(name="dora").email != "x@example.org"
    assert client.get(f"/users/{ruth.id}/edit/").status_code == 200
    assert client.get("/roles/create/").status_code == 403


def test_who_is_admin_already_keeps_that_when_other_roles_change(domains: Domains) -> None:
    client, erin, admin, reader = domains.at_dora, domains.realm.erin, role("admin"), role("reader")
    grant(admin, user=erin, domain=domains.realm.domain)
    path = f"/domains/other/members/user/{erin.id}/"
    assert "admin" in offered(client.get(path), "roles")
    assert client.post(path, {"roles": [str(admin.id), str(reader.id)]}).status_code == 303
    assert client.post(path, {"roles": str(reader.id)}).status_code == 422  # only an operator takes admin away
    assert set(RoleAssignment.objects.filter(user=erin, domain="other").values_list("role__name", flat=True)) == {
        "admin",
        "reader",
    }


def test_a_domain_has_roles_of_its_own(domains: Domains) -> None:
    client = domains.at_dora
    other, elsewhere = (
        create_role("smith", domain=domains.realm.domain),
        create_role("baker", domain=Domain.objects.get(id="default")),
    )
    rows = {row["role"].name: row for row in client.get("/roles/").context["rows"]}
    assert [rows["smith"][verb] for verb in ("update", "delete", "imply")] == [True] * 3
    assert [rows["reader"][verb] for verb in ("update", "delete", "imply")] == [False] * 3
    assert "baker" not in rows
    assert client.post("/roles/create/", {"name": "tailor"}).status_code == 303
    assert Role.objects.get(name="tailor").domain_id == "other"
    assert "domain" in client.post("/roles/create/", {"name": "x", "domain": "default"}).context["form"].errors
    path = f"/roles/{other.id}/implications/"
    assert "admin" not in offered(client.get(path), "roles")
    assert client.post(path, {"roles": str(role("reader").id)}).status_code == 303
    assert client.post(f"/roles/{other.id}/edit/", {"name": "goldsmith"}).status_code == 303
    assert client.post(f"/roles/{other.id}/delete/").status_code == 303
    for key in (elsewhere.id, role("reader").id):
        for tail in ("edit/", "delete/", "implications/"):
            assert client.get(f"/roles/{key}/{tail}").status_code == 403


def test_of_a_user_only_that_in_the_domain_is_shown(domains: Domains) -> None:
    erin, alice = domains.realm.erin, domains.people.alice
    assign_role(erin, alice.project, "reader")
    add_to_group(create_group(alice.user.domain, "elsewhere"), erin)
    page = domains.at_dora.get(f"/users/{erin.id}/")
    assert [row.project for row in page.context["standings"]] == [domains.realm.project]
    assert page.context["groups"] == []
    assert page.context["credentials"] is None
    assert "wonderland" not in page.content.decode()


def test_a_reader_of_the_domain_looks_and_changes_nothing(domains: Domains) -> None:
    user = make_user("rita", domain=domains.realm.domain)
    grant(role("reader"), user=user, domain=domains.realm.domain)
    client = enter(user)
    assert links(client, "/") == {"/domain/", "/projects/", "/users/", "/groups/"}
    for path in (
        *("/domain/", "/projects/", "/users/", "/groups/", f"/projects/{domains.realm.project.id}/"),
        *(f"/users/{domains.realm.erin.id}/", f"/groups/{domains.staff.id}/"),
    ):
        page = client.get(path)
        assert page.status_code == 200
        for word in ("New user", "New project", "New group", "Add member", "Add user", "Edit", "Delete", "Give a role"):
            assert f">{word}<" not in page.content.decode(), (path, word)
    for path in (
        *("/users/create/", "/groups/create/", "/projects/create/", "/roles/", "/domains/other/members/add/"),
        *(f"/users/{domains.realm.erin.id}/{tail}" for tail in ("edit/", "delete/", "password/", "roles/add/")),
        f"/projects/{domains.realm.project.id}/members/add/",
    ):
        assert client.get(path).status_code == client.post(path, {"name": "x"}).status_code == 403, path


# --- the system -------------------------------------------------------------------------------------------------------


def test_a_reader_of_the_system_sees_all_of_identity_and_changes_nothing(at_auditor: Client, people: People) -> None:
    alice, project = people.alice.user.id, people.alice.project.id
    for path in (*LISTS, "/domains/", "/domains/default/", f"/users/{alice}/", f"/projects/{project}/", "/settings/"):
        assert at_auditor.get(path).status_code == 200, path
    page = at_auditor.get(f"/projects/{project}/")
    assert [row.member.actor.name for row in page.context["members"]] == ["alice", "bob"]
    assert page.context["groups"] is None  # quotas are seen in projects
    for path in (
        *("/users/create/", "/projects/create/", "/roles/create/", "/domains/create/", f"/users/{alice}/edit/"),
        *(f"/projects/{project}/members/add/", "/system/members/add/", "/domains/default/members/add/", "/quotas/"),
    ):
        assert at_auditor.get(path).status_code == at_auditor.post(path, {"name": "x"}).status_code == 403, path
    assert at_auditor.get("/admin/").status_code == 302


def test_an_administrator_of_the_system_gives_roles_everywhere(at_chief: Client, people: People) -> None:
    alice, reader = people.alice.user, role("reader")
    page = at_chief.get("/system/")
    assert [row.member.actor.name for row in page.context["members"]] == ["chief"]
    typed = {"who": f"user:{alice.id.hex}", "roles": str(reader.id)}
    assert at_chief.post("/system/members/add/", typed).headers["Location"] == "/system/"
    path = f"/system/members/user/{alice.id}/"
    assert ticked(at_chief.get(path), "roles") == [str(reader.id)]
    assert at_chief.post(path, {"roles": str(role("admin").id)}).status_code == 303
    assert list(RoleAssignment.objects.filter(user=alice, system=True).values_list("role__name", flat=True)) == [
        "admin"
    ]
    assert at_chief.post(f"{path}remove/").status_code == 303
    assert not RoleAssignment.objects.filter(user=alice, system=True).exists()
    make_project("far", Domain.objects.create(id="far", name="Far"))
    assert {each.domain_id for each in at_chief.get("/projects/").context["records"]} == {"default", "far"}
    assert at_chief.post("/users/create/", {"name": "u", "domain": "far", "how": "make"}).status_code == 201
    assert User.objects.get(name="u").domain_id == "far"


def test_the_system_s_page_leads_to_the_operators_pages(at_chief: Client, people: People, signed_in: SignedIn) -> None:
    assert "You do not have it in any project." in at_chief.get("/system/").content.decode()
    chief = User.objects.get(name="chief")
    assign_role(chief, people.operator.project, "admin")
    assert f"/auth/project/{people.operator.project.id}/" in at_chief.get("/system/").content.decode()
    assert 'href="/admin/"' in signed_in(people.operator).get("/system/").content.decode()


def test_the_switch_asks_no_more_of_who_has_projects_alone(
    signed_in: SignedIn, people: People, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = signed_in(people.bob)
    client.get("/flavors/")
    with django_assert_max_num_queries(7):
        client.get("/flavors/")
