"""Giving roles: to users and groups; on projects, domains and the system; for what is below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.events.models import Event
from provisioning.identity.models import Region, RoleAssignment, Service, User
from provisioning.identity.selectors.members import has_grant
from provisioning.identity.services.assignments import grant, revoke_grant
from provisioning.identity.services.catalog import create_endpoint, create_region, create_service
from provisioning.identity.services.roles import create_role
from provisioning.identity.services.tokens import issue_token
from tests.identity.grants.conftest import V3, Acme, role_named
from tests.support.cast import Api, People, make_project, make_user


@dataclass(frozen=True)
class Form:
    """One form of assignment: the list's address, the assignment's, and what the services take."""

    listed: str
    one: Callable[[str], str]
    arguments: dict[str, Any]


def forms(acme: Acme) -> list[Form]:
    actors = {f"users/{acme.ed.id.hex}": {"user": acme.ed}, f"groups/{acme.staff.id.hex}": {"group": acme.staff}}
    targets: dict[str, dict[str, Any]] = {
        f"projects/{acme.foundry.id.hex}": {"project": acme.foundry},
        "domains/acme": {"domain": acme.domain},
    }
    values: list[Form] = []
    for actor, who in actors.items():
        for target, what in targets.items():
            where, below = f"{V3}/{target}/{actor}/roles", f"{V3}/OS-INHERIT/{target}/{actor}/roles"
            values.append(Form(where, (where + "/{}").format, who | what))
            values.append(
                Form(
                    f"{below}/inherited_to_projects",
                    (below + "/{}/inherited_to_projects").format,
                    who | what | {"inherited": True},
                )
            )
        where = f"{V3}/system/{actor}/roles"
        values.append(Form(where, (where + "/{}").format, who | {"system": True}))
    return values


@pytest.mark.slow
def test_every_form_is_given_seen_listed_and_taken_away(people: People, acme: Acme) -> None:
    api, member = Api(people.operator), role_named("member")
    for form in forms(acme):
        where = form.one(member.id.hex)
        missing = api.get(where)
        assert missing.status_code == 404
        assert missing.json()["error"]["message"].startswith(
            f"Could not find role assignment with role: {member.id.hex}, user or group: "
        )
        assert api.get(form.listed).json()["roles"] == []
        assert api.put(where).status_code == 204
        assert api.put(where).status_code == 204  # again
        assert api.get(where).status_code == 204
        assert api.client.head(where, headers=api.headers).status_code == 204
        listed = api.get(form.listed).json()
        assert [role["id"] for role in listed["roles"]] == [member.id.hex]
        assert listed["links"]["self"] == f"http://127.0.0.1:8000{form.listed}"
        assert has_grant(member, **form.arguments)
        assert RoleAssignment.objects.filter(role=member, **form.arguments).count() == 1
    assert RoleAssignment.objects.filter(user=acme.ed).count() == 5
    assert RoleAssignment.objects.filter(group=acme.staff).count() == 5
    for form in forms(acme):
        assert api.delete(form.one(member.id.hex)).status_code == 204
        assert api.delete(form.one(member.id.hex)).status_code == 404
        assert not has_grant(member, **form.arguments)
    assert not RoleAssignment.objects.filter(user=acme.ed).exists()


def test_what_is_not_there_is_named(people: People, acme: Acme) -> None:
    api, role = Api(people.operator), role_named("member").id.hex
    ed, staff, foundry = acme.ed.id.hex, acme.staff.id.hex, acme.foundry.id.hex
    cases = {
        f"projects/{foundry}/users/{ed}/roles/x": "role: x",
        f"projects/{foundry}/users/x/roles/{role}": "user: x",
        f"projects/{foundry}/groups/x/roles/{role}": "group: x",
        f"projects/x/users/{ed}/roles/{role}": "project: x",
        f"domains/x/groups/{staff}/roles/{role}": "domain: x",
        f"domains/x%00/groups/{staff}/roles/{role}": "domain: x",
        f"system/users/x/roles/{role}": "user: x",
        f"OS-INHERIT/domains/x/users/{ed}/roles/{role}/inherited_to_projects": "domain: x",
        f"OS-INHERIT/projects/{foundry}/groups/{'0' * 32}/roles/{role}/inherited_to_projects": f"group: {'0' * 32}",
    }
    for where, words in cases.items():
        for method in (api.get, api.put, api.delete):
            answer = method(f"{V3}/{where}")
            assert answer.status_code == 404, where
            assert answer.json()["error"]["message"].startswith(f"Could not find {words}"), where
    assert api.get(f"{V3}/projects/x/users/{ed}/roles").status_code == 404
    assert api.get(f"{V3}/system/groups/x/roles").status_code == 404


def test_a_domains_role_is_given_on_projects_of_the_domain_only(people: People, acme: Acme) -> None:
    smith = create_role("smith", domain=acme.domain)
    grant(smith, user=people.alice.user, project=acme.foundry)
    grant(smith, user=acme.ed, domain=acme.domain, inherited=True)
    with pytest.raises(ForbiddenError, match="another domain"):
        grant(smith, user=acme.ed, project=people.alice.project)
    grant(smith, group=acme.staff, domain=people.alice.user.domain)
    grant(smith, group=acme.staff, domain=people.alice.user.domain, inherited=True)
    with pytest.raises(InvalidInputError, match="cannot be assigned on the system"):
        grant(smith, user=acme.ed, system=True)
    api = Api(people.operator)
    where = f"{V3}/projects/{people.alice.project_id.hex}/users/{acme.ed.id.hex}/roles/{smith.id.hex}"
    assert api.put(where).status_code == 403
    assert api.put(f"{V3}/system/users/{acme.ed.id.hex}/roles/{smith.id.hex}").status_code == 400


@pytest.mark.parametrize("actors", [(), ("user", "group")])
def test_a_role_is_given_to_one(people: People, acme: Acme, actors: tuple[str, ...]) -> None:
    given = {"user": acme.ed, "group": acme.staff}
    with pytest.raises(ValueError, match="to a user or to a group"):
        grant(role_named("member"), project=acme.foundry, **{name: given[name] for name in actors})  # type: ignore[arg-type]


@pytest.mark.parametrize("targets", [(), ("project", "domain"), ("project", "system")])
def test_a_role_is_given_on_one(people: People, acme: Acme, targets: tuple[str, ...]) -> None:
    given: dict[str, Any] = {"project": acme.foundry, "domain": acme.domain, "system": True}
    with pytest.raises(ValueError, match="on a project, a domain or the system"):
        grant(role_named("member"), user=acme.ed, **{name: given[name] for name in targets})


def test_a_role_taken_away_is_gone_at_the_next_request_and_reported(people: People, acme: Acme) -> None:
    """Everybody whom it concerns looks again: a user, a project, or all when a group may be anybody anywhere."""
    member = role_named("member")
    ed_alone = {"user_id": str(acme.ed.id), "project_id": None}
    expected: list[tuple[dict[str, Any], dict[str, str | None]]] = [
        ({"user": acme.ed, "project": acme.foundry}, ed_alone | {"project_id": str(acme.foundry.id)}),
        ({"user": acme.ed, "project": acme.foundry, "inherited": True}, ed_alone),
        ({"user": acme.ed, "domain": acme.domain}, ed_alone),
        ({"user": acme.ed, "system": True}, ed_alone),
        ({"group": acme.staff, "project": acme.foundry}, {"user_id": None, "project_id": str(acme.foundry.id)}),
        ({"group": acme.staff, "domain": acme.domain, "inherited": True}, {"user_id": None, "project_id": None}),
    ]
    for arguments, payload in expected:
        grant(member, **arguments)
        revoke_grant(member, **arguments)
        event = Event.objects.filter(topic="auth").order_by("id").last()
        assert event is not None
        assert {name: event.payload[name] for name in payload} == payload
    grant(member, group=acme.staff, project=acme.foundry)
    token = {"X-Auth-Token": issue_token(acme.ed, acme.foundry, ("password",)).value}
    assert Api(None, **token).get(f"{V3}/auth/projects").status_code == 200
    revoke_grant(member, group=acme.staff, project=acme.foundry)
    assert Api(None, **token).get(f"{V3}/auth/projects").status_code == 401


def test_the_last_administrator_keeps_the_role(people: People) -> None:
    admin = role_named("admin")
    where = f"{V3}/projects/{people.operator.project_id.hex}/users/{people.operator.user_id.hex}/roles/{admin.id.hex}"
    refused = Api(people.operator).delete(where)
    assert refused.status_code == 403
    assert "without an administrator" in refused.json()["error"]["message"]
    grant(admin, user=people.alice.user, system=True)
    assert Api(people.operator).delete(where).status_code == 204
    with pytest.raises(ForbiddenError, match="without an administrator"):
        revoke_grant(admin, user=people.alice.user, system=True)


def test_who_was_deleted_meanwhile_is_not_there(transactional_db: None) -> None:
    """The look-up found the user, the service, the region; when the change commits they are gone."""
    project, user = make_project("p"), make_user("u")
    service, region = create_service("x"), create_region("x")
    User.objects.filter(id=user.id).delete()
    Service.objects.filter(id=service.id).delete()
    Region.objects.filter(id=region.id).delete()
    with pytest.raises(NotFoundError, match="deleted in the meantime"):
        grant(role_named("member"), user=user, project=project)
    with pytest.raises(NotFoundError, match="deleted in the meantime"):
        create_endpoint(service, "public", "http://x", region=region)
    assert not RoleAssignment.objects.exists()


def test_what_was_not_given_cannot_be_taken(people: People, acme: Acme) -> None:
    with pytest.raises(NotFoundError, match="Could not find role assignment"):
        revoke_grant(role_named("member"), user=acme.ed, project=acme.foundry)


@pytest.mark.slow
def test_others_get_403_whatever_they_name(people: People, acme: Acme) -> None:
    member = role_named("member")
    for form in forms(acme):
        for person in (people.alice, people.charlie):
            api = Api(person)
            for role in (member.id.hex, "x"):
                for method in (api.get, api.put, api.delete):
                    assert method(form.one(role)).status_code == 403
            assert api.get(form.listed).status_code == 403
    assert not RoleAssignment.objects.filter(user=acme.ed).exists()
