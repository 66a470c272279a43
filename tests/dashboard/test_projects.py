"""Projects in the dashboard: found, made, changed, closed, deleted; their members and the roles they have."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from provisioning.identity.models import Domain, Project, Role, RoleAssignment, User
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.domains import create_domain
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.projects import create_project, set_project_enabled
from provisioning.identity.services.roles import create_role
from provisioning.network import services as network
from provisioning.network.models import Network, Router
from tests.dashboard.conftest import SignedIn, offered, ticked
from tests.support.cast import People, Person, make_domain, make_project, make_user
from tests.support.clouds import Cloud
from tests.support.tables import each_row


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


def role(name: str) -> Role:
    return Role.objects.get(name=name, domain=None)


def names(client: Client, address: str) -> list[str]:
    return [project.name for project in client.get(address).context["records"]]


def own(user: User, project: Project) -> set[str]:
    return set(
        RoleAssignment.objects.filter(user=user, project=project, inherited=False).values_list("role__name", flat=True)
    )


@pytest.mark.slow
def test_projects_are_found_by_a_part_of_the_name_by_id_domain_and_state(at_operator: Client, people: People) -> None:
    other = create_domain("Other", domain_id="other")
    far = make_project("wonder-far", other)
    set_project_enabled(far, enabled=False)
    assert names(at_operator, "/projects/") == ["admin", "factory", "wonder-far", "wonderland"]
    assert names(at_operator, "/projects/?q=WONDER") == ["wonder-far", "wonderland"]
    assert names(at_operator, f"/projects/?q={people.charlie.project_id}") == ["factory"]
    assert names(at_operator, f"/projects/?q={people.charlie.project_id.hex}") == ["factory"]
    assert names(at_operator, "/projects/?q=wonder&domain=other") == ["wonder-far"]
    assert names(at_operator, "/projects/?state=disabled") == ["wonder-far"]
    assert names(at_operator, "/projects/?state=enabled&q=wonder") == ["wonderland"]
    assert len(names(at_operator, "/projects/?state=odd")) == 4
    for odd in ("%00", "%25", "_", "'", "domain=%00", "\\"):
        assert at_operator.get(f"/projects/?q={odd}").status_code == 200
    assert "Nothing matches" in at_operator.get("/projects/?q=nowhere").content.decode()


def test_the_list_counts_members_and_draws_usage(at_operator: Client, alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    cloud.run()
    row = at_operator.get("/projects/?q=wonderland").context["rows"][0]
    assert row["project"].members == 2
    assert [bar.text for bar in row["bars"]] == [
        "Instances: 1 of 10",
        "vCPUs: 1 of 20",
        "Memory: 1\N{NO-BREAK SPACE}GiB of 50\N{NO-BREAK SPACE}GiB",
    ]


def test_a_project_is_made_and_its_page_shown(at_operator: Client, alice: Person) -> None:
    typed = {"name": "lab", "description": "For trying", "tags": "a, b,,a", "parent": "wonderland"}
    answer = at_operator.post("/projects/create/", typed)
    made = Project.objects.get(name="lab")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/projects/{made.id}/")
    assert (made.description, made.parent, made.domain_id) == ("For trying", alice.project, "default")
    page = at_operator.get(answer.headers["Location"]).content.decode()
    for words in (
        "<h1><bdi>lab</bdi></h1>",
        "For trying",
        '<span class="tag">a</span>',
        "lab was created",
        "No members yet",
    ):
        assert words in page


@pytest.mark.slow
@each_row(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "   "}, "name"),
        ({"name": "wonderland"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"description": "a\0b"}, "description"),
        ({"description": "x" * 70_000}, "description"),
        ({"domain": "nowhere"}, "domain"),
        ({"domain": "a\0b"}, "domain"),
        ({"parent": "nowhere"}, "parent"),
        ({"parent": "a\0b"}, "parent"),
        ({"parent": "1" * 32}, "parent"),
        ({"tags": "a/b"}, "tags"),
        ({"tags": "x" * 300}, "tags"),
        ({"tags": ",".join(map(str, range(100)))}, "tags"),
    ],
)
def test_what_is_wrong_with_a_project_is_reported_at_its_field(
    at_operator: Client, alice: Person, changes: dict[str, str], field: str
) -> None:
    answer = at_operator.post("/projects/create/", {"name": "lab", "description": "kept"} | changes)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert not Project.objects.filter(name="lab").exists()
    if field != "description":
        assert 'value="kept"' in answer.content.decode()


def test_the_parent_is_of_the_chosen_domain(at_operator: Client, alice: Person) -> None:
    create_domain("Other", domain_id="other")
    for parent in ("wonderland", str(alice.project_id)):
        answer = at_operator.post("/projects/create/", {"name": "lab", "domain": "other", "parent": parent})
        assert list(answer.context["form"].errors) == ["parent"]


def test_a_project_is_changed(at_operator: Client, alice: Person) -> None:
    address = f"/projects/{alice.project_id}/edit/"
    at_operator.post(address, {"name": "nowhere", "description": "new", "tags": "x"})
    alice.project.refresh_from_db()
    assert (alice.project.name, alice.project.description) == ("nowhere", "new")
    assert [tag.name for tag in alice.project.tags.all()] == ["x"]
    assert 'value="nowhere"' in at_operator.get(address).content.decode()
    answer = at_operator.post(address, {"name": "factory"})
    assert list(answer.context["form"].errors) == ["name"]


def test_a_closed_project_ends_its_pages_at_once(at_operator: Client, at_alice: Client, alice: Person) -> None:
    assert "Disable wonderland?" in at_operator.get(f"/projects/{alice.project_id}/disable/").content.decode()
    at_operator.post(f"/projects/{alice.project_id}/disable/")
    assert at_alice.get("/instances/").status_code == 302
    page = at_operator.get(f"/projects/{alice.project_id}/").content.decode()
    assert ">Disabled<" in page
    at_operator.post(f"/projects/{alice.project_id}/enable/")
    alice.project.refresh_from_db()
    assert alice.project.enabled


def test_a_project_that_owns_something_says_what(at_operator: Client, alice: Person, cloud: Cloud) -> None:
    cloud.launch(alice.context)
    answer = at_operator.post(f"/projects/{alice.project_id}/delete/", follow=True)
    page = answer.content.decode()
    assert answer.redirect_chain[-1][0] == f"/projects/{alice.project_id}/"
    assert re.search(r"wonderland .*own.* instances \(1\)", page)
    assert Project.objects.filter(id=alice.project_id).exists()


def test_an_empty_project_is_deleted(at_operator: Client, db: None) -> None:
    project = make_project("empty")
    make_user("dora", {project: "member"})
    answer = at_operator.post(f"/projects/{project.id}/delete/", follow=True)
    assert "empty was deleted." in answer.content.decode()
    assert not Project.objects.filter(name="empty").exists()


@pytest.mark.parametrize("action", ["disable", "delete"])
def test_the_project_of_the_last_administrator_stays(at_operator: Client, operator: Person, action: str) -> None:
    answer = at_operator.post(f"/projects/{operator.project_id}/{action}/", follow=True)
    assert "without an administrator" in answer.content.decode()
    operator.project.refresh_from_db()
    assert operator.project.enabled


# --- members ----------------------------------------------------------------------------------------------------------


def test_members_are_shown_with_how_they_come(at_operator: Client, alice: Person, operator: Person) -> None:
    staff = create_group(Domain.objects.get(), "staff")
    add_to_group(staff, operator.user)
    grant(role("member"), group=staff, project=alice.project)
    grant(role("reader"), user=make_user("dora"), domain=Domain.objects.get(), inherited=True)
    shown = at_operator.get(f"/projects/{alice.project_id}/").context["members"]
    members = {row.member.actor.name: row.member for row in shown}
    assert set(members) == {"alice", "bob", "dora", "operator", "staff"}
    assert [each.name for each in members["alice"].own] == ["member"]
    assert members["dora"].own == members["operator"].own == []
    (inherited,), (by_group,) = members["dora"].others, members["operator"].others
    assert (inherited.role.name, str(inherited.above), inherited.group) == ("reader", "Default", None)
    assert (by_group.role.name, by_group.above, by_group.group) == ("member", None, staff)
    page = at_operator.get(f"/projects/{alice.project_id}/").content.decode()
    assert "inherited from <bdi>Default</bdi>" in page
    assert "by group <bdi>staff</bdi>" in page


def test_roles_of_a_project_above_are_inherited(at_operator: Client, alice: Person) -> None:
    below = create_project(alice.project.domain, "below", parent=alice.project)
    grant(role("reader"), user=make_user("dora"), project=alice.project, inherited=True)
    (row,) = at_operator.get(f"/projects/{below.id}/").context["members"]
    assert (row.member.actor.name, str(row.member.others[0].above)) == ("dora", "wonderland")
    assert "dora" not in [
        each.member.actor.name for each in at_operator.get(f"/projects/{alice.project_id}/").context["members"]
    ]


def test_a_member_is_found_and_added(at_operator: Client, alice: Person, charlie: Person) -> None:
    address = f"/projects/{alice.project_id}/members/add/"
    page = at_operator.get(f"{address}?q=CHAR")
    assert offered(page, "who") == ["charlie"]
    typed = {"who": f"user:{charlie.user_id.hex}", "roles": [str(role("reader").id), str(role("member").id)]}
    answer = at_operator.post(address, typed, follow=True)
    assert "charlie has a role on wonderland now." in answer.content.decode()
    assert own(charlie.user, alice.project) == {"reader", "member"}
    at_operator.post(address, typed | {"roles": str(role("admin").id)})
    assert own(charlie.user, alice.project) == {"reader", "member", "admin"}


def test_a_group_is_added(at_operator: Client, alice: Person, charlie: Person) -> None:
    staff = create_group(Domain.objects.get(), "staff")
    add_to_group(staff, charlie.user)
    typed = {"who": f"group:{staff.id.hex}", "roles": str(role("member").id)}
    at_operator.post(f"/projects/{alice.project_id}/members/add/", typed)
    assert "member" in roles_of(charlie.user_id, alice.project_id)


@each_row(
    ("typed", "field"),
    [
        ({"roles": "member"}, "who"),
        ({"who": "user:x", "roles": "member"}, "who"),
        ({"who": "robot:" + "1" * 32, "roles": "member"}, "who"),
        ({"who": "charlie"}, "roles"),
        ({"who": "charlie", "roles": "1" * 32}, "roles"),
        ({"who": "charlie", "roles": "a\0b"}, "roles"),
    ],
)
def test_what_is_wrong_with_a_new_member_is_reported(
    at_operator: Client, alice: Person, charlie: Person, typed: dict[str, str], field: str
) -> None:
    if typed.get("who") == "charlie":
        typed = typed | {"who": f"user:{charlie.user_id.hex}"}
    if typed.get("roles") == "member":
        typed = typed | {"roles": str(role("member").id)}
    answer = at_operator.post(f"/projects/{alice.project_id}/members/add/", typed)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert own(charlie.user, alice.project) == set()


def test_a_role_of_a_domain_is_not_offered_and_not_given(at_operator: Client, alice: Person, charlie: Person) -> None:
    theirs = create_role("theirs", domain=create_domain("Other", domain_id="other"))
    typed = {"who": f"user:{charlie.user_id.hex}", "roles": str(theirs.id)}
    answer = at_operator.post(f"/projects/{alice.project_id}/members/add/", typed)
    assert list(answer.context["form"].errors) == ["roles"]
    assert "theirs" not in answer.content.decode()


@pytest.mark.slow
def test_the_roles_of_a_member_change_at_once(at_operator: Client, at_alice: Client, alice: Person) -> None:
    address = f"/projects/{alice.project_id}/members/user/{alice.user_id}/"
    assert ticked(at_operator.get(address), "roles") == [str(role("member").id)]
    dialog = at_operator.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in dialog
    assert "Roles of <bdi>alice</bdi> on <bdi>wonderland</bdi>" in dialog
    assert at_alice.get("/instances/launch/").status_code == 200
    at_operator.post(address, {"roles": str(role("reader").id)})
    assert own(alice.user, alice.project) == {"reader"}
    assert at_alice.get("/instances/launch/").status_code == 403
    answer = at_operator.post(address, {})
    assert answer.status_code == 422
    assert "Choose at least one role." in answer.content.decode()


def test_a_removed_member_is_out_at_once(at_operator: Client, at_alice: Client, alice: Person) -> None:
    address = f"/projects/{alice.project_id}/members/user/{alice.user_id}/remove/"
    assert "Remove alice from wonderland?" in at_operator.get(address).content.decode()
    answer = at_operator.post(address, follow=True)
    assert "The roles of alice on wonderland were revoked." in answer.content.decode()
    assert at_alice.get("/instances/").status_code == 302


@pytest.mark.slow
def test_one_returns_to_where_one_came_from(at_operator: Client, alice: Person, bob: Person) -> None:
    address = f"/projects/{alice.project_id}/members/user/{bob.user_id}/"
    assert f'action="{address}?from=actor"' in at_operator.get(f"{address}?from=actor").content.decode()
    answer = at_operator.post(f"{address}?from=actor", {"roles": str(role("member").id)})
    assert answer.headers["Location"] == f"/users/{bob.user_id}/"
    assert at_operator.post(f"{address}remove/").headers["Location"] == f"/projects/{alice.project_id}/"


@pytest.mark.parametrize("action", ["remove", "change"])
def test_the_last_administrator_keeps_the_role(at_operator: Client, operator: Person, action: str) -> None:
    address = f"/projects/{operator.project_id}/members/user/{operator.user_id}/"
    if action == "remove":
        answer = at_operator.post(f"{address}remove/", follow=True)
    else:
        answer = at_operator.post(address, {"roles": str(role("member").id)})
    assert "without an administrator" in answer.content.decode()
    assert own(operator.user, operator.project) == {"admin"}


def test_names_of_other_domains_are_distinguished(at_operator: Client, alice: Person) -> None:
    other = make_domain("other", "Other")
    make_user("alice", {alice.project: "reader"}, domain=other)
    page = at_operator.get(f"/projects/{alice.project_id}/").content.decode()
    assert "of <bdi>Other</bdi>" in page
    assert "Other" in at_operator.get(f"/projects/{alice.project_id}/members/add/?q=alice").content.decode()


def test_a_list_of_members_that_is_cut_says_so(
    at_operator: Client, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"/projects/{alice.project_id}/"
    assert "Only the first" not in at_operator.get(address).content.decode()
    monkeypatch.setattr("provisioning.identity.selectors.members.MOST_MEMBERS", 1)
    answer = at_operator.get(address)
    assert len(answer.context["members"]) == 1
    assert "Only the first 1 are shown" in answer.content.decode()


@pytest.mark.slow
def test_a_project_gets_a_network_and_a_router_with_one_click(
    at_operator: Client, alice: Person, people: People
) -> None:
    page, click = f"/projects/{alice.project_id}/", f"/projects/{alice.project_id}/network/"
    assert "Give it a network" not in at_operator.get(page).content.decode()
    refused = at_operator.post(click, follow=True)
    assert "No default router:external network" in refused.content.decode()
    outside = network.create_network(people.operator.project_id, "public", external=True, is_default=True)
    network.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    assert click in at_operator.get(page).content.decode()
    done = at_operator.post(click, follow=True)
    assert "has a network and a router" in done.content.decode()
    assert click not in done.content.decode()
    assert Network.objects.filter(project_id=alice.project_id).count() == 1
    assert Router.objects.filter(project_id=alice.project_id).count() == 1
