"""Who sees the panels of people, projects and quotas: whom policy lets, whatever the name of the role."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from provisioning.identity import policy
from provisioning.identity.models import Domain, Group, Project, Role, RoleAssignment, User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.domains import update_domain
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.projects import update_project
from provisioning.identity.services.roles import create_role
from provisioning.identity.services.users import update_user
from provisioning.quotas.services.limits import set_limit
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person, make_project

pytestmark = pytest.mark.slow

LISTS = ("/projects/", "/users/", "/groups/", "/roles/", "/domains/")
ENTRIES = ("Projects", "Users", "Groups", "Roles", "Domains")
FORMS = ("/projects/create/", "/users/create/", "/groups/create/", "/roles/create/", "/domains/create/", "/quotas/")


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


def pages_of(person: Person, group: Group, role: Role) -> list[str]:
    """Every page about one thing that opens by GET."""
    project, user = f"/projects/{person.project_id}", f"/users/{person.user_id}"
    member = f"{project}/members/user/{person.user_id}"
    return [
        *(f"{project}/{tail}" for tail in ("", "edit/", "disable/", "delete/", "quotas/", "quotas/reset/")),
        *(f"{project}/members/add/", f"{member}/", f"{member}/remove/"),
        *(f"{user}/{tail}" for tail in ("", "edit/", "password/", "roles/add/", "disable/", "sign-out/", "delete/")),
        *(f"/groups/{group.id}/{tail}" for tail in ("", "edit/", "delete/", "users/add/", "roles/add/")),
        f"/groups/{group.id}/users/{person.user_id}/remove/",
        *(f"/roles/{role.id}/{tail}" for tail in ("edit/", "implications/", "delete/")),
        *(f"/domains/default/{tail}" for tail in ("edit/", "disable/", "delete/", "members/add/")),
        *(f"/domains/default/members/user/{person.user_id}/{tail}" for tail in ("", "remove/")),
        *("/system/", "/system/members/add/"),
        *(f"/system/members/user/{person.user_id}/{tail}" for tail in ("", "remove/")),
    ]


def test_an_operator_opens_every_page(at_operator: Client, alice: Person) -> None:
    group, role = create_group(Domain.objects.get(), "staff"), create_role("auditor")
    add_to_group(group, alice.user)
    for path in (*LISTS, *FORMS, "/project/", *pages_of(alice, group, role)):
        answer = at_operator.get(path)
        assert answer.status_code == 200, path
        if path not in LISTS:
            assert answer.content.decode().count("<h1") == 1, path
    page = at_operator.get("/").content.decode()
    assert all(f'href="{path}"' in page for path in LISTS)


@pytest.mark.deep
def test_members_and_readers_find_none_of_it(
    signed_in: SignedIn, alice: Person, bob: Person, charlie: Person, db: None
) -> None:
    group, role = create_group(Domain.objects.get(), "staff"), create_role("auditor")
    others = [path for path in pages_of(alice, group, role) if path != f"/projects/{alice.project_id}/"]
    for person, paths in ((bob, (*LISTS, *FORMS, *others)), (charlie, LISTS)):
        client = signed_in(person)
        page = client.get("/").content.decode()
        assert not any(f'href="{path}"' in page for path in LISTS)
        for path in paths:
            assert client.get(path).status_code == 403, path


@pytest.mark.deep
def test_nothing_is_done_for_who_may_not(signed_in: SignedIn, alice: Person, operator: Person) -> None:
    group, role = create_group(Domain.objects.get(), "staff"), create_role("auditor")
    client = signed_in(alice)

    def kept() -> list[object]:
        return [
            *User.objects.order_by("id").values_list("id", "name", "enabled", "password"),
            *Project.objects.order_by("id").values_list("id", "name", "enabled"),
            *RoleAssignment.objects.order_by("id").values_list("id", "role", "user", "project"),
            *Group.objects.values_list("id", "name"),
            *Role.objects.order_by("id").values_list("id", "name"),
        ]

    before = kept()
    admin = Role.objects.get(name="admin").id
    mine = [path for path in pages_of(alice, group, role) if path != f"/projects/{alice.project_id}/"]
    for path in (*FORMS, *mine, f"/projects/{operator.project_id}/members/add/"):
        typed = {"name": "x", "who": f"user:{alice.user_id.hex}", "roles": str(admin), "project": str(alice.project_id)}
        assert client.post(path, typed).status_code in {403, 405}, path
    assert kept() == before


def test_what_is_not_there_and_what_is_forbidden_look_the_same_to_a_member(at_alice: Client, operator: Person) -> None:
    for kind, there in (("projects", operator.project_id), ("users", operator.user_id)):
        result = [at_alice.get(f"/{kind}/{key}/") for key in (there, uuid.uuid4())]
        assert [answer.status_code for answer in result] == [403, 403]


def test_what_is_not_there_is_reported_to_an_operator(at_operator: Client, alice: Person) -> None:
    nobody = uuid.uuid4()
    for path in (
        *(f"/{kind}/{nobody}/" for kind in ("projects", "users", "groups")),
        *(
            f"/users/{nobody}/delete/",
            f"/roles/{nobody}/edit/",
            "/domains/nowhere/edit/",
            "/domains/%00/edit/",
            "/users/x/",
        ),
        *(f"/projects/{alice.project_id}/members/{kind}/{nobody}/" for kind in ("user", "group", "robot")),
        *(f"/users/{alice.user_id}/eat/", f"/users/{alice.user_id}/credentials/{nobody}/delete/"),
        f"/projects/{nobody}/quotas/",
    ):
        assert at_operator.get(path).status_code == 404, path
        assert at_operator.post(path).status_code in {404, 405}, path


def test_a_member_s_own_project_page_has_quotas_and_no_members(at_alice: Client, alice: Person) -> None:
    set_limit(alice.project_id, "cores", 7)
    for path in ("/project/", f"/projects/{alice.project_id}/"):
        page = at_alice.get(path).content.decode()
        assert "vCPUs: 0 of 7" in page
        assert "Your roles" in page
        for word in ("Members", "bob", "Change quotas", "Edit", "Delete"):
            assert f">{word}<" not in page


def test_people_see_their_own_page_without_buttons(at_alice: Client, alice: Person) -> None:
    page = at_alice.get(f"/users/{alice.user_id}/").content.decode()
    assert "<h1><bdi>alice</bdi></h1>" in page
    assert "/delete/" not in page
    assert "/password/" not in page.replace("/settings/password/", "")


def test_the_policy_file_opens_a_panel_and_its_entry(
    signed_in: SignedIn, bob: Person, settings: Settings, tmp_path: Path
) -> None:
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text('"identity:list_projects": "role:reader"\n')
    client = signed_in(bob)
    page = client.get("/projects/").content.decode()
    assert 'href="/projects/"' in page
    assert 'href="/users/"' not in page
    assert "New project" not in page
    assert not policy.allows(bob.context, "identity:create_project")


def test_roles_of_a_domain_have_rules_of_their_own(at_operator: Client, settings: Settings, tmp_path: Path) -> None:
    settings.POLICY_FILE = tmp_path / "policy.yaml"
    settings.POLICY_FILE.write_text('"identity:update_domain_role": "!"\n"identity:delete_domain_role": "!"\n')
    for domain, status in ((None, 200), (Domain.objects.get(), 403)):
        role = create_role("builder", domain=domain)
        for page in ("edit", "delete"):
            assert at_operator.get(f"/roles/{role.id}/{page}/").status_code == status


def test_names_are_text(at_operator: Client, alice: Person) -> None:
    evil = "<img src=x onerror=alert(1)>"
    update_user(alice.user, name=evil, description=evil)
    update_project(alice.project, name=evil, description=evil, tags=[evil.replace("/", "")])
    group = create_group(Domain.objects.get(), evil, description=evil)
    role = create_role(evil, description=evil)
    grant(role, group=group, project=alice.project)
    update_domain(Domain.objects.get(), name=evil)
    for path in (*LISTS, *FORMS, *pages_of(alice, group, role), f"/users/?q={evil}"):
        assert "<img src=x" not in at_operator.get(path).content.decode(), path


@pytest.mark.parametrize(("path", "most"), [("/projects/", 14), ("/users/", 12), ("/groups/", 12), ("/roles/", 13)])
def test_a_long_list_asks_no_more_often(
    at_operator: Client, operator: Person, django_assert_max_num_queries: DjangoAssertNumQueries, path: str, most: int
) -> None:
    domain = Domain.objects.get()
    Project.objects.bulk_create(Project(domain=domain, name=f"p{number:03}") for number in range(201))
    User.objects.bulk_create(User(domain=domain, name=f"u{number:03}", password="!") for number in range(201))
    Group.objects.bulk_create(Group(domain=domain, name=f"g{number:03}") for number in range(201))
    Role.objects.bulk_create(Role(name=f"r{number:03}") for number in range(201))
    with django_assert_max_num_queries(most):
        page = at_operator.get(path).content.decode()
    assert "1\N{EN DASH}50 of 20" in page
    last = at_operator.get(f"{path}?page=5").content.decode()
    assert "201\N{EN DASH}20" in last
    assert 'rel="next"' not in last
    for odd in ("0", "-1", "x", "9" * 30, "99", ""):
        assert at_operator.get(f"{path}?page={odd}").status_code == 200


def test_a_project_of_many_members_asks_no_more_often(
    at_operator: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    project, domain, role = make_project("busy"), Domain.objects.get(), Role.objects.get(name="member")
    users = User.objects.bulk_create(User(domain=domain, name=f"u{number:03}", password="!") for number in range(200))
    group = create_group(domain, "staff")
    for user in users[:50]:
        add_to_group(group, user)
    grant(role, group=group, project=project)
    RoleAssignment.objects.bulk_create(RoleAssignment(user=user, project=project, role=role) for user in users)
    with django_assert_max_num_queries(16):
        page = at_operator.get(f"/projects/{project.id}/").content.decode()
    assert page.count("by group <bdi>staff</bdi>") == 50
