"""Who looks after a domain gets no power over the cloud by it."""

from __future__ import annotations

import pytest

from provisioning.identity.models import RoleAssignment, Trust, TrustRole, User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.groups import create_group
from provisioning.identity.services.roles import create_role, imply
from tests.identity.grants.conftest import V3, Acme, acme, api_of, role_named
from tests.support.cast import Api, People, make_user

__all__ = ["acme"]


@pytest.fixture(params=["admin", "manager"])
def keeper(request: pytest.FixtureRequest, acme: Acme) -> User:
    """Who looks after acme, by the one role or by the other."""
    user = make_user("keeper", domain=acme.domain)
    grant(role_named(request.param), user=user, domain=acme.domain)
    return user


def test_the_role_service_is_given_and_implied_by_operators_only(people: People, acme: Acme) -> None:
    """It tells servers of all projects what happened to them: one event stops each of them."""
    service, helper, own = role_named("service"), create_role("helper"), create_role("own", domain=acme.domain)
    imply(helper, service)
    for role in (service, helper):
        for where in (f"projects/{acme.foundry.id.hex}", "domains/acme"):
            for way in ("", "OS-INHERIT/"):
                end = "/inherited_to_projects" if way else ""
                path = f"{V3}/{way}{where}/users/{acme.ed.id.hex}/roles/{role.id.hex}{end}"
                assert acme.api.put(path).status_code == 403, path
        assert acme.api.put(f"{V3}/roles/{own.id.hex}/implies/{role.id.hex}").status_code == 403
    imply(own, helper)  # by an operator
    assert acme.api.put(f"{V3}/domains/acme/users/{acme.ed.id.hex}/roles/{own.id.hex}").status_code == 403
    assert not RoleAssignment.objects.filter(user=acme.ed).exists()
    path = f"{V3}/projects/{acme.foundry.id.hex}/users/{acme.ed.id.hex}/roles/{service.id.hex}"
    assert Api(people.operator).put(path).status_code == 204


@pytest.mark.parametrize("power", ["service", "reader of the system", "another domain", "by a group", "by a trust"])
def test_nobody_of_power_gets_a_new_password(people: People, acme: Acme, keeper: User, power: str) -> None:
    api, ed = api_of(keeper, acme.domain), f"{V3}/users/{acme.ed.id.hex}"
    assert api.patch(ed, {"user": {"password": "a new password"}}).status_code == 200
    if power == "service":
        grant(role_named("service"), user=acme.ed, project=people.operator.project)
    elif power == "reader of the system":
        grant(role_named("reader"), user=acme.ed, system=True)
    elif power == "another domain":
        grant(role_named("reader"), user=acme.ed, project=acme.foundry)
        grant(role_named("manager"), user=acme.ed, domain=acme.domain, inherited=True)
        assert api.patch(ed, {"user": {"description": "x"}}).status_code == 200
        grant(role_named("manager"), user=acme.ed, domain=people.alice.user.domain)
    elif power == "by a group":
        grant(role_named("reader"), group=acme.staff, system=True)
    else:
        trust = Trust.objects.create(
            trustor=people.operator.user, trustee=acme.ed, project=people.operator.project, impersonation=True
        )
        TrustRole.objects.create(trust=trust, role=role_named("admin"))
    assert api.patch(ed, {"user": {"password": "another password"}}).status_code == 403
    assert api.delete(ed).status_code == 403


@pytest.mark.parametrize("power", ["service", "reader of the system"])
def test_nobody_comes_into_a_group_of_power(people: People, acme: Acme, keeper: User, power: str) -> None:
    group = create_group(acme.domain, "watch")
    path = f"{V3}/groups/{group.id.hex}/users/{keeper.id.hex}"
    api = api_of(keeper, acme.domain)
    assert [api.put(path).status_code, api.delete(path).status_code] == [204, 204]
    if power == "service":
        grant(role_named("service"), group=group, project=people.operator.project)
    else:
        grant(role_named("reader"), group=group, system=True)
    assert api.put(path).status_code == 403
    assert api.delete(f"{V3}/groups/{group.id.hex}").status_code == 403
