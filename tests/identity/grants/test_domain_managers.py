"""What the manager of a domain may do: look after what is in it, and give no role beyond the own one."""

from __future__ import annotations

import pytest

from provisioning.identity.models import Project, RoleAssignment, User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.roles import create_role
from tests.identity.grants.conftest import V3, Acme, api_of, role_named
from tests.support.cast import Api, People, make_user
from tests.support.standing import derived, standing


@pytest.fixture
@standing
def mona(acme: Acme) -> User:
    """The manager of acme."""
    user = make_user("mona", domain=acme.domain)
    grant(role_named("manager"), user=user, domain=acme.domain)
    return user


@pytest.fixture
@derived
def api(acme: Acme, mona: User) -> Api:
    return api_of(mona, acme.domain)


@pytest.mark.slow
def test_people_and_projects_of_the_domain(acme: Acme, api: Api) -> None:
    user = api.post(f"{V3}/users", {"user": {"name": "neo", "password": "a long password"}}).json()["user"]
    group = api.post(f"{V3}/groups", {"group": {"name": "crew"}}).json()["group"]
    project = api.post(f"{V3}/projects", {"project": {"name": "ship"}}).json()["project"]
    assert {each["domain_id"] for each in (user, group, project)} == {"acme"}
    for path, body in (
        (f"users/{user['id']}", {"user": {"password": "another password"}}),
        (f"groups/{group['id']}", {"group": {"description": "x"}}),
        (f"projects/{project['id']}", {"project": {"enabled": False}}),
    ):
        assert api.patch(f"{V3}/{path}", body).status_code == 200, path
    for path in (f"groups/{group['id']}/users/{user['id']}", f"projects/{project['id']}/tags/new"):
        assert api.put(f"{V3}/{path}").status_code in {201, 204}, path
        assert api.delete(f"{V3}/{path}").status_code == 204, path
    for path in (f"users/{user['id']}", f"groups/{group['id']}", f"projects/{project['id']}"):
        assert api.delete(f"{V3}/{path}").status_code == 204, path
    assert {each["name"] for each in api.get(f"{V3}/users").json()["users"]} == {"dora", "ed", "mona"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["manager", "member", "reader"])
def test_gives_and_takes_what_is_not_beyond_the_own_role(acme: Acme, api: Api, name: str) -> None:
    role = role_named(name).id.hex
    for target in (f"projects/{acme.foundry.id.hex}", "domains/acme"):
        for actor in (f"users/{acme.ed.id.hex}", f"groups/{acme.staff.id.hex}"):
            where = f"{V3}/{target}/{actor}/roles/{role}"
            assert [getattr(api, method)(where).status_code for method in ("put", "get", "delete")] == [204] * 3
    assert api.get(f"{V3}/roles/{role}").status_code == 200
    assert len(api.get(f"{V3}/roles").json()["roles"]) == 5


@pytest.mark.slow
def test_gives_no_other_role(acme: Acme, api: Api) -> None:
    helper, own = create_role("helper"), create_role("member", domain=acme.domain)
    for role in (role_named("admin"), role_named("service"), helper, own):
        for target in (f"projects/{acme.foundry.id.hex}", "domains/acme", "system"):
            where = f"{V3}/{target}/users/{acme.ed.id.hex}/roles/{role.id.hex}"
            assert (api.put(where).status_code, api.delete(where).status_code) == (403, 403), (target, role.name)
        assert api.get(f"{V3}/roles/{role.id.hex}").status_code == 403
    assert not RoleAssignment.objects.filter(user=acme.ed).exists()
    for path, body in (
        ("roles", {"role": {"name": "x", "domain_id": "acme"}}),
        ("domains", {"domain": {"name": "x"}}),
        ("services", {"service": {"type": "x"}}),
    ):
        assert api.post(f"{V3}/{path}", body).status_code == 403, path
    assert api.patch(f"{V3}/domains/acme", {"domain": {"description": "x"}}).status_code == 403
    assert api.put(f"{V3}/roles/{own.id.hex}/implies/{role_named('reader').id.hex}").status_code == 403


def test_gets_no_power_over_administrators(acme: Acme, mona: User, api: Api) -> None:
    chiefs = create_group(acme.domain, "chiefs")
    grant(role_named("admin"), group=chiefs, domain=acme.domain)
    ed = acme.ed.id.hex
    assert api.patch(f"{V3}/users/{acme.dora.id.hex}", {"user": {"password": "a new password"}}).status_code == 403
    assert api.delete(f"{V3}/users/{acme.dora.id.hex}").status_code == 403
    assert api.put(f"{V3}/groups/{chiefs.id.hex}/users/{mona.id.hex}").status_code == 403
    add_to_group(chiefs, acme.ed)
    assert api.patch(f"{V3}/users/{ed}", {"user": {"enabled": False}}).status_code == 403
    assert acme.api.patch(f"{V3}/users/{ed}", {"user": {"enabled": False}}).status_code == 200


def test_what_is_outside_does_not_exist(people: People, acme: Acme, api: Api) -> None:
    member, ed, alice = role_named("member").id.hex, acme.ed.id.hex, people.alice
    for path in (f"users/{alice.user_id.hex}", f"projects/{alice.project_id.hex}"):
        assert api.get(f"{V3}/{path}").status_code == api.delete(f"{V3}/{path}").status_code == 404
    for path in (
        f"projects/{alice.project_id.hex}/users/{ed}/roles/{member}",
        f"projects/{acme.foundry.id.hex}/users/{alice.user_id.hex}/roles/{member}",
        f"domains/default/users/{ed}/roles/{member}",
    ):
        assert api.put(f"{V3}/{path}").status_code == 404, path
    assert api.post(f"{V3}/users", {"user": {"name": "x", "domain_id": "default"}}).status_code in {403, 404}


@pytest.mark.parametrize("scope", ["project", "system", "nothing"])
def test_only_with_a_token_for_the_domain(acme: Acme, mona: User, scope: str) -> None:
    grant(role_named("manager"), user=mona, project=acme.foundry)
    grant(role_named("manager"), user=mona, system=True)
    where: dict[str, Project | str | None] = {"project": acme.foundry, "system": "system", "nothing": None}
    api = api_of(mona, where[scope])
    assert api.post(f"{V3}/users", {"user": {"name": "x", "domain_id": "acme"}}).status_code == 403
    member = role_named("member").id.hex
    assert api.put(f"{V3}/domains/acme/users/{acme.ed.id.hex}/roles/{member}").status_code == 403
