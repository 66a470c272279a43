"""Who may look after people by an operator's rules gets no power over administrators by it, on whatever face."""

from __future__ import annotations

from typing import Any

import pytest

from portal.dashboard.words.plain import NOT_ALLOWED
from provisioning.identity.models import Group, Role, RoleAssignment, User
from provisioning.identity.services.assignments import assign_role, grant
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.roles import ensure_role
from tests.identity.directory.people_of_domains import make_realm, role
from tests.policy.test_faces import Rule, browser_of
from tests.policy.test_faces import rule as rule_of_operator
from tests.support.cast import Api, People

__all__ = ["rule_of_operator"]
pytestmark = pytest.mark.usefixtures("plain_static")
V3 = "/identity/v3"
DELEGATED = (
    "novella:admin",
    "identity:list_users",
    "identity:list_groups",
    *(f"identity:{verb}_user" for verb in ("get", "create", "update", "delete")),
    *(f"identity:{verb}_group" for verb in ("get", "update", "delete")),
    "identity:add_user_to_group",
    "identity:remove_user_from_group",
)


@pytest.fixture
def helper(people: People, rule_of_operator: Rule) -> People:
    """Alice has a role that may do with users and groups whatever there is, and no other power."""
    ensure_role("helpdesk")
    assign_role(people.alice.user, people.alice.project, "helpdesk")
    for name in DELEGATED:
        rule_of_operator(name, "rule:admin_required or rule:domain_admin or role:helpdesk")
    return people


@pytest.fixture
def admins(helper: People) -> Group:
    """A group that is admin."""
    group = create_group(helper.operator.user.domain, "admins")
    grant(role("admin"), group=group, project=helper.operator.project)
    return group


def as_it_was(user: User) -> dict[str, Any]:
    return User.objects.filter(id=user.id).values("password", "enabled", "tokens_valid_after", "name").get()


def test_no_page_of_the_dashboard_changes_an_administrator(helper: People) -> None:
    browser, boss = browser_of(helper.alice), helper.operator.user
    before = as_it_was(boss)
    browser.post(f"/users/{boss.id}/password/", {"how": "type", "password": "taken over now"})
    browser.post(f"/users/{boss.id}/edit/", {"name": "nobody"})
    for action in ("disable", "sign-out", "delete"):
        browser.post(f"/users/{boss.id}/{action}/")
    assert as_it_was(boss) == before
    browser.post(f"/users/{helper.bob.user.id}/password/", {"how": "type", "password": "taken over now"})
    assert User.objects.get(id=helper.bob.user.id).check_password("taken over now"), "others are looked after"


def test_nobody_joins_a_group_of_administrators_by_a_page(helper: People, admins: Group) -> None:
    browser = browser_of(helper.alice)
    browser.post(f"/groups/{admins.id}/users/add/", {"who": helper.alice.user.id.hex})
    assert not admins.users.exists()
    browser.post(f"/groups/{admins.id}/delete/")
    assert Group.objects.filter(id=admins.id).exists()


def test_who_makes_a_user_gives_no_role_that_policy_does_not_let_them_give(helper: People) -> None:
    browser, project = browser_of(helper.alice), helper.operator.project
    fields = {"domain": "default", "name": "mallory", "how": "type", "password": "correct horse 2"}
    answer = browser.post("/users/create/", {**fields, "project": project.name, "role": "admin"})
    assert answer.status_code == 422
    assert NOT_ALLOWED in answer.content.decode()
    assert not User.objects.filter(name="mallory").exists()
    assert browser.post("/users/create/", fields).status_code == 303


def test_no_page_of_the_admin_changes_an_administrator(helper: People, admins: Group) -> None:
    browser, boss = browser_of(helper.alice), helper.operator.user
    before = as_it_was(boss)
    chosen = {"_selected_action": [str(boss.id)], "confirmed": "yes"}
    for action in ("disable", "sign_out"):
        browser.post("/admin/identity/user/", {"action": action, **chosen})
    assert as_it_was(boss) == before


def test_the_administrator_of_a_domain_is_above_who_only_helps(helper: People) -> None:
    realm = make_realm()
    path = f"{V3}/users/{realm.dora.id.hex}"
    answer = Api(helper.alice).patch(path, {"user": {"password": "taken over now"}})
    assert answer.status_code == 403
    assert realm.api.patch(path, {"user": {"description": "herself"}}).status_code == 200
    assert Api(helper.alice).patch(f"{V3}/users/{realm.erin.id.hex}", {"user": {"description": "x"}}).status_code == 200
    assert Api(helper.operator).patch(path, {"user": {"description": "by an operator"}}).status_code == 200


def test_a_role_that_implies_admin_counts(helper: People) -> None:
    """Such as one that was made before anything refused it."""
    chief = Role.objects.create(name="chief")
    chief.implies.create(implied=role("admin"))
    RoleAssignment.objects.create(user=helper.bob.user, project=helper.bob.project, role=chief)
    path = f"{V3}/users/{helper.bob.user.id.hex}"
    assert Api(helper.alice).patch(path, {"user": {"password": "taken over now"}}).status_code == 403
