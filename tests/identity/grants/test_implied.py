"""Which roles bring other roles: ``/v3/roles/{prior}/implies`` and ``/v3/role_inferences``."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.common.errors import ConflictError
from provisioning.events.models import Event
from provisioning.identity.models import ImpliedRole, Role
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.roles import create_role, imply, unimply
from tests.identity.grants.conftest import V3, Acme, role_named
from tests.support.cast import Api, People

HOST = "http://127.0.0.1:8000"


def path(prior: Role, implied: Role | None = None) -> str:
    return f"{V3}/roles/{prior.id.hex}/implies" + (f"/{implied.id.hex}" if implied else "")


def linked(role: Role) -> dict[str, Any]:
    return {"id": role.id.hex, "name": role.name, "links": {"self": f"{HOST}{V3}/roles/{role.id.hex}"}}


def test_an_implication_is_made_seen_and_ended(people: People) -> None:
    api, lead, auditor = Api(people.operator), create_role("lead"), create_role("auditor")
    assert api.get(path(lead, auditor)).status_code == 404
    assert api.client.head(path(lead, auditor), headers=api.headers).status_code == 404
    made = api.put(path(lead, auditor))
    assert made.status_code == 201
    assert made.json() == {
        "role_inference": {"prior_role": linked(lead), "implies": linked(auditor)},
        "links": {"self": HOST + path(lead, auditor)},
    }
    shown = api.get(path(lead, auditor))
    assert (shown.status_code, shown.json()) == (200, made.json())
    assert api.client.head(path(lead, auditor), headers=api.headers).status_code == 204
    assert api.put(path(lead, auditor)).status_code == 409
    assert api.delete(path(lead, auditor)).status_code == 204
    assert api.delete(path(lead, auditor)).status_code == 404
    assert api.get(path(lead, auditor)).status_code == 404


def test_lists_have_what_a_role_implies_itself(people: People) -> None:
    api, lead = Api(people.operator), create_role("lead")
    admin, manager, member, reader = (role_named(name) for name in ("admin", "manager", "member", "reader"))
    imply(lead, reader)
    imply(lead, member)
    assert api.get(path(lead)).json() == {
        "role_inference": {"prior_role": linked(lead), "implies": [linked(member), linked(reader)]},
        "links": {"self": HOST + path(lead)},
    }
    assert api.get(path(reader)).json()["role_inference"]["implies"] == []
    assert api.get(f"{V3}/role_inferences").json()["role_inferences"] == [
        {"prior_role": linked(admin), "implies": [linked(manager)]},
        {"prior_role": linked(lead), "implies": [linked(member), linked(reader)]},
        {"prior_role": linked(manager), "implies": [linked(member)]},
        {"prior_role": linked(member), "implies": [linked(reader)]},
    ]


def test_circles_are_refused(people: People) -> None:
    api = Api(people.operator)
    one, two, three = (create_role(name) for name in ("one", "two", "three"))
    imply(one, two)
    imply(two, three)
    for prior, implied in ((three, one), (two, one), (one, one)):
        assert api.put(path(prior, implied)).status_code == 403
    assert not ImpliedRole.objects.filter(prior=three).exists()
    imply(one, three)  # two ways are no circle


def test_nothing_implies_admin(people: People) -> None:
    lead = create_role("lead")
    for prior in (lead, role_named("member")):
        answer = Api(people.operator).put(path(prior, role_named("admin")))
        assert answer.status_code == 403
        assert answer.json()["error"]["message"] == "The role admin cannot be an implied role."


def test_roles_of_a_domain_imply_any_and_are_implied_by_such_only(people: People, acme: Acme) -> None:
    smith, caster = (create_role(name, domain=acme.domain) for name in ("smith", "caster"))
    elsewhere = create_role("smith", domain=people.alice.user.domain)
    imply(smith, caster)
    imply(smith, role_named("member"))
    imply(elsewhere, smith)
    grant(elsewhere, user=people.bob.user, project=people.bob.project)
    assert people.bob.context.roles >= {"member"}
    assert Api(people.operator).put(path(role_named("member"), smith)).status_code == 403
    with pytest.raises(ConflictError):
        imply(smith, caster)


def test_what_was_implied_is_gone_at_once(people: People) -> None:
    lead, auditor = create_role("lead"), create_role("auditor")
    imply(lead, auditor)
    grant(lead, user=people.bob.user, project=people.bob.project)
    assert people.bob.context.roles >= {"lead", "auditor"}
    before = Event.objects.filter(topic="auth").count()
    unimply(lead, auditor)
    assert "auditor" not in people.bob.context.roles
    assert Event.objects.filter(topic="auth").count() == before + 1


def test_a_role_that_is_not_there_is_named(people: People) -> None:
    api, member = Api(people.operator), role_named("member")
    for method in (api.get, api.put, api.delete):
        for where in (f"{V3}/roles/x/implies/{member.id.hex}", f"{V3}/roles/{member.id.hex}/implies/x"):
            answer = method(where)
            assert answer.status_code == 404
            assert answer.json()["error"]["message"] == "Could not find role: x."
    assert api.get(f"{V3}/roles/x/implies").status_code == 404


def test_others_see_and_change_nothing(people: People) -> None:
    member, reader = role_named("member"), role_named("reader")
    for person in (people.alice, people.charlie):
        api = Api(person)
        for where in (path(member, reader), path(member), f"{V3}/role_inferences"):
            assert api.get(where).status_code == 403
        assert api.put(path(member, reader)).status_code == 403
        assert api.delete(path(member, reader)).status_code == 403
    assert ImpliedRole.objects.filter(prior=member, implied=reader).exists()
