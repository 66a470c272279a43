"""Ways up that were open once, and stay closed."""

from __future__ import annotations

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.identity import policy
from provisioning.identity.models import Domain, Role
from provisioning.identity.selectors.lookups import counts_beyond_domains
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.roles import create_role, imply, update_role
from provisioning.identity.services.tokens import issue_token
from tests.identity.directory.people_of_domains import V3, Realm, make_realm, role, status
from tests.support.cast import Api, People
from tests.support.standing import standing


@pytest.fixture
@standing
def realm(people: People) -> Realm:
    return make_realm()


def test_who_has_no_project_is_not_at_home_where_there_is_none(people: People, realm: Realm) -> None:
    """A domain is shown as a project that is in none; a token for nothing is for none either."""
    grant(create_role("guest"), user=people.alice.user, system=True)  # a reader of the system sees every domain
    alice = people.alice.user
    for scope in (None, "system"):
        api = Api(None, **{"X-Auth-Token": issue_token(alice, scope, ("password",)).value})  # type: ignore[arg-type]
        assert status(api.get(f"{V3}/projects/other")) == 403
    assert status(realm.api.get(f"{V3}/projects/default")) == 404
    assert status(realm.api.get(f"{V3}/projects/other")) == 200
    nobody = RequestContext(alice.id, "alice", None)
    assert not policy.allows(nobody, "identity:get_project", {"project_id": None, "domain_id": None})


@pytest.mark.parametrize("name", ["Admin", "ADMIN", "aDmin", "Member", "READER"])
def test_no_role_differs_from_a_built_in_one_in_its_case_only(people: People, name: str) -> None:
    with pytest.raises(ConflictError):
        create_role(name)
    other = create_role("other")
    with pytest.raises(ConflictError):
        update_role(other, name=name)
    api = Api(people.operator)
    assert status(api.post(f"{V3}/roles", {"role": {"name": name}})) == 409


def test_a_role_that_rules_take_for_admin_is_given_by_operators_only(realm: Realm) -> None:
    """Rules pay no heed to case: an old cloud may have such a role."""
    old = Role.objects.create(name="ADMIN")
    path = f"{V3}/projects/{realm.project.id.hex}/users/{realm.erin.id.hex}/roles/{old.id.hex}"
    assert status(realm.api.put(path)) == 403
    assert counts_beyond_domains(old)
    with pytest.raises(ForbiddenError):
        imply(create_role("harmless"), old)


def test_no_token_outlives_a_domain_whose_id_is_given_again(people: People) -> None:
    operator, alice, domain_id = Api(people.operator), people.alice.user, "a" * 32
    where = f"{V3}/domains/{domain_id}"

    def make() -> None:
        body = {"domain": {"name": "again", "explicit_domain_id": domain_id}}
        assert status(operator.post(f"{V3}/domains", body)) == 201
        grant(role("admin"), user=alice, domain=Domain.objects.get(id=domain_id))

    make()
    token = issue_token(alice, Domain.objects.get(id=domain_id), ("password",)).value
    api = Api(None, **{"X-Auth-Token": token})
    assert status(api.get(f"{V3}/users")) == 200
    operator.patch(where, {"domain": {"enabled": False}})
    assert status(operator.delete(where)) == 204
    make()
    assert status(api.get(f"{V3}/users")) == 401
