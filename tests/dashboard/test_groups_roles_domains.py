"""Groups, roles and domains in the dashboard."""

from __future__ import annotations

import pytest
from django.test import Client

from provisioning.identity.models import Domain, Group, Role, User
from provisioning.identity.selectors.entries import roles_of
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.domains import create_domain, set_domain_enabled
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.roles import BUILT_IN, create_role, imply
from tests.dashboard.conftest import SignedIn, offered, ticked
from tests.support.cast import Person, make_project, make_user, sign_in_browser
from tests.support.roles import remove_role
from tests.support.standing import standing
from tests.support.tables import each_row


@pytest.fixture
def at_operator(signed_in: SignedIn, operator: Person) -> Client:
    return signed_in(operator)


@pytest.fixture
@standing
def staff(operator: Person) -> Group:
    return create_group(operator.user.domain, "staff", description="On call")


def role(name: str) -> Role:
    return Role.objects.get(name=name, domain=None)


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_is_made_found_and_changed(at_operator: Client, staff: Group) -> None:
    answer = at_operator.post("/groups/create/", {"name": "night", "description": "Late"}, follow=True)
    assert "night was created." in answer.content.decode()
    assert [group.name for group in at_operator.get("/groups/?q=NIGH").context["records"]] == ["night"]
    at_operator.post(f"/groups/{staff.id}/edit/", {"name": "crew", "description": "x"})
    staff.refresh_from_db()
    assert (staff.name, staff.description) == ("crew", "x")


@each_row(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "staff"}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"description": "a\0b"}, "description"),
        ({"domain": "nowhere"}, "domain"),
    ],
)
def test_what_is_wrong_with_a_group_is_reported_at_its_field(
    at_operator: Client, staff: Group, changes: dict[str, str], field: str
) -> None:
    answer = at_operator.post("/groups/create/", {"name": "night"} | changes)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert Group.objects.count() == 1
    if field != "domain":
        refused = at_operator.post(f"/groups/{staff.id}/edit/", {"name": "night"} | changes)
        assert refused.status_code == (303 if changes == {"name": "staff"} else 422)


@pytest.mark.slow
def test_who_leaves_a_group_loses_its_roles_at_once(
    at_operator: Client, signed_in: SignedIn, staff: Group, alice: Person
) -> None:
    project = make_project("lab")
    grant(role("member"), group=staff, project=project)
    dora = make_user("dora")
    result = offered(at_operator.get(f"/groups/{staff.id}/users/add/?q=dor"), "who")
    assert result == ["dora"]
    answer = at_operator.post(f"/groups/{staff.id}/users/add/", {"who": str(dora.id)}, follow=True)
    assert "dora is in staff now." in answer.content.decode()
    assert offered(at_operator.get(f"/groups/{staff.id}/users/add/?q=dor"), "who") == []
    at_dora = Client()
    sign_in_browser(at_dora, Person(dora, project))
    assert at_dora.get("/").status_code == 200
    assert "Remove dora from staff?" in at_operator.get(f"/groups/{staff.id}/users/{dora.id}/remove/").content.decode()
    at_operator.post(f"/groups/{staff.id}/users/{dora.id}/remove/")
    assert at_dora.get("/").status_code == 302


def test_nobody_is_not_put_into_a_group(at_operator: Client, staff: Group) -> None:
    for who in ("", "x", "1" * 32, "a\0b"):
        answer = at_operator.post(f"/groups/{staff.id}/users/add/", {"who": who})
        assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["who"])


@pytest.mark.slow
def test_the_users_of_a_group_are_paged_and_searched(
    at_operator: Client, staff: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portal.dashboard.lists.list_query.SIZE", 2)
    for user in User.objects.bulk_create(User(domain=staff.domain, name=f"u{n}", password="!") for n in range(4)):
        add_to_group(staff, user)

    def shown(query: str) -> list[str]:
        answer = at_operator.get(f"/groups/{staff.id}/{query}")
        return [user.name for user in answer.context["records"]]

    assert [shown(query) for query in ("", "?page=2", "?q=u3")] == [["u0", "u1"], ["u2", "u3"], ["u3"]]
    assert shown("?sort=-name") == ["u3", "u2"]
    assert 'href="?q=u&amp;page=2"' in at_operator.get(f"/groups/{staff.id}/?q=u").content.decode()
    csv = at_operator.get(f"/groups/{staff.id}/?format=csv&q=u3")
    assert b"".join(csv.streaming_content).decode().splitlines()[1:][0].split(",")[1] == "u3"  # type: ignore[attr-defined]
    for show in ("filters", "columns"):
        assert f'action="/groups/{staff.id}/"' in at_operator.get(f"/groups/{staff.id}/?show={show}").content.decode()


def test_the_users_of_a_group_have_a_heading_with_their_button(at_operator: Client, staff: Group) -> None:
    listed = at_operator.get(f"/groups/{staff.id}/").content.decode().partition('id="list"')[2]
    heading, _, rest = listed.partition("</div>")
    assert "<h2>Users</h2>" in heading
    assert f'href="/groups/{staff.id}/users/add/"' in heading
    assert f'href="/groups/{staff.id}/users/add/"' not in rest


def test_a_role_is_given_to_a_group(at_operator: Client, staff: Group, alice: Person, operator: Person) -> None:
    add_to_group(staff, operator.user)
    typed = {"project": str(alice.project_id), "roles": str(role("reader").id)}
    at_operator.post(f"/groups/{staff.id}/roles/add/", typed)
    assert roles_of(operator.user_id, alice.project_id) == {"reader"}
    assert "wonderland" in at_operator.get(f"/groups/{staff.id}/").content.decode()
    member = f"/projects/{alice.project_id}/members/group/{staff.id}/"
    assert at_operator.post(f"{member}remove/?from=actor").headers["Location"] == f"/groups/{staff.id}/"
    assert roles_of(operator.user_id, alice.project_id) == set()


@pytest.mark.slow
def test_a_group_is_deleted_unless_the_last_administrator_is_one_by_it(
    at_operator: Client, staff: Group, operator: Person
) -> None:
    grant(role("admin"), group=staff, project=operator.project)
    add_to_group(staff, operator.user)
    remove_role(operator.user, operator.project, "admin")
    for path in (f"/groups/{staff.id}/delete/", f"/groups/{staff.id}/users/{operator.user_id}/remove/"):
        assert "without an administrator" in at_operator.post(path, follow=True).content.decode()
    assign_role(operator.user, operator.project, "admin")
    assert "staff was deleted." in at_operator.post(f"/groups/{staff.id}/delete/", follow=True).content.decode()
    assert not Group.objects.exists()


# --- roles -----------------------------------------------------------------------------------------------------------


def test_roles_are_listed_with_what_they_bring(at_operator: Client) -> None:
    rows = {row["role"].name: (row["implied"], row["immutable"]) for row in at_operator.get("/roles/").context["rows"]}
    implied = {"admin": ["manager"], "manager": ["member"], "member": ["reader"], "reader": [], "service": []}
    assert rows == {name: (names, True) for name, names in implied.items()}


def test_a_role_is_made_renamed_and_deleted(at_operator: Client) -> None:
    at_operator.post("/roles/create/", {"name": "auditor", "description": "Reads"})
    made = role("auditor")
    assert (made.description, made.domain) == ("Reads", None)
    at_operator.post(f"/roles/{made.id}/edit/", {"name": "inspector", "description": "x"})
    made.refresh_from_db()
    assert (made.name, made.description) == ("inspector", "x")
    assert "Delete the role inspector?" in at_operator.get(f"/roles/{made.id}/delete/").content.decode()
    at_operator.post(f"/roles/{made.id}/delete/")
    assert not Role.objects.filter(id=made.id).exists()


def test_a_role_of_a_domain_is_made(at_operator: Client) -> None:
    create_domain("Other", domain_id="other")
    at_operator.post("/roles/create/", {"name": "theirs", "domain": "other"})
    assert Role.objects.get(name="theirs").domain_id == "other"
    assert "Domain <bdi>Other</bdi>" in at_operator.get("/roles/").content.decode()


@each_row(
    ("typed", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "member"}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "x", "domain": "nowhere"}, "domain"),
        ({"name": "x", "domain": "a\0b"}, "domain"),
        ({"name": "x", "description": "a\0b"}, "description"),
    ],
)
def test_what_is_wrong_with_a_role_is_reported_at_its_field(
    at_operator: Client, typed: dict[str, str], field: str
) -> None:
    answer = at_operator.post("/roles/create/", typed)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert Role.objects.count() == len(BUILT_IN)


def test_immutable_roles_stay_and_say_so(at_operator: Client) -> None:
    admin = role("admin")
    page = at_operator.get("/roles/").content.decode()
    assert page.count(">immutable</span>") == len(BUILT_IN)
    assert f"/roles/{admin.id}/delete/" not in page
    answer = at_operator.post(f"/roles/{admin.id}/edit/", {"name": "boss"})
    assert answer.status_code == 422
    assert "immutable" in answer.content.decode()
    assert "immutable" in at_operator.post(f"/roles/{admin.id}/delete/", follow=True).content.decode()
    assert role("admin")


@pytest.mark.slow
def test_what_a_role_brings_is_changed_at_once(at_operator: Client, alice: Person) -> None:
    auditor = create_role("auditor")
    dora = make_user("dora")
    grant(auditor, user=dora, project=alice.project)
    address = f"/roles/{auditor.id}/implications/"
    at_operator.post(address, {"roles": [str(role("reader").id)]})
    assert roles_of(dora.id, alice.project_id) == {"auditor", "reader"}
    assert ticked(at_operator.get(address), "roles") == [str(role("reader").id)]
    at_operator.post(address, {})
    assert roles_of(dora.id, alice.project_id) == {"auditor"}


def test_what_is_implied_in_another_domain_stays(at_operator: Client) -> None:
    here, there = (create_role(name, domain=create_domain(name)) for name in ("here", "there"))
    imply(here, there)
    address = f"/roles/{here.id}/implications/"
    at_operator.post(address, {"roles": [*ticked(at_operator.get(address), "roles"), str(role("reader").id)]})
    assert {each.implied.name for each in here.implies.all()} == {"there", "reader"}


@pytest.mark.slow
def test_no_role_brings_admin_or_itself(at_operator: Client) -> None:
    auditor = create_role("auditor")
    assert "auditor" not in offered(at_operator.get(f"/roles/{auditor.id}/implications/"), "roles")
    answer = at_operator.post(f"/roles/{auditor.id}/implications/", {"roles": str(role("admin").id)})
    assert answer.status_code == 422
    assert "cannot be an implied role" in answer.content.decode()
    circle = at_operator.post(f"/roles/{role('reader').id}/implications/", {"roles": str(role("member").id)})
    assert circle.status_code == 422
    assert at_operator.get("/roles/").status_code == 200


# --- domains ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_domain_is_made_changed_closed_and_deleted(at_operator: Client, signed_in: SignedIn) -> None:
    assert "Far was created." in at_operator.post("/domains/create/", {"name": "Far"}, follow=True).content.decode()
    far = Domain.objects.get(name="Far")
    at_operator.post(f"/domains/{far.id}/edit/", {"name": "Farther", "description": "x"})
    far.refresh_from_db()
    assert (far.name, far.description) == ("Farther", "x")
    project = make_project("lab", far)
    client = signed_in(Person(make_user("dora", {project: "member"}, domain=far), project))
    assert client.get("/").status_code == 200
    refused = at_operator.post(f"/domains/{far.id}/delete/", follow=True).content.decode()
    assert "Disable it first" in refused
    assert "Disable Farther?" in at_operator.get(f"/domains/{far.id}/disable/").content.decode()
    at_operator.post(f"/domains/{far.id}/disable/")
    assert client.get("/").status_code == 302
    assert ">Domain disabled<" in at_operator.get("/users/?q=dora").content.decode()
    at_operator.post(f"/domains/{far.id}/enable/")
    far.refresh_from_db()
    assert far.enabled
    set_domain_enabled(far, enabled=False)
    at_operator.post(f"/domains/{far.id}/delete/")
    assert not Domain.objects.filter(id=far.id).exists()


@each_row("name", ["", "Default", "x" * 65, "a\0b"])
def test_what_is_wrong_with_a_domain_is_reported_at_its_field(at_operator: Client, name: str) -> None:
    answer = at_operator.post("/domains/create/", {"name": name})
    assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["name"])
    assert Domain.objects.count() == 1


def test_the_domain_of_the_last_administrator_stays(at_operator: Client) -> None:
    for action in ("disable", "delete"):
        at_operator.post(f"/domains/default/{action}/")
    assert Domain.objects.get().enabled
    answer = at_operator.post("/domains/default/disable/", follow=True)
    assert answer.redirect_chain == [("/domains/default/", 303)]
    assert "without an administrator" in answer.content.decode()
