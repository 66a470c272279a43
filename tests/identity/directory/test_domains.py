"""Domains: made, changed, closed and removed with what is in them."""

from __future__ import annotations

import uuid

from provisioning.identity.models import Domain, Group, Project, Role, User
from provisioning.identity.services.assignments import grant
from provisioning.identity.services.domains import set_domain_enabled
from provisioning.identity.services.groups import add_to_group, create_group
from provisioning.identity.services.projects import create_project
from provisioning.identity.services.roles import create_role
from provisioning.identity.services.tokens import issue_token
from provisioning.network.models import Network
from tests.identity.directory.people_of_domains import V3, fault, made, make_realm, role, status
from tests.support.cast import Api, People, make_user
from tests.support.tables import each_row


def test_a_domain_is_made_shown_changed_and_removed(people: People) -> None:
    api = Api(people.operator)
    domain = made(api, "domain", name="Acme", description="d", tags=["a"], cost_centre=42)
    assert len(domain["id"]) == 32
    assert (domain["enabled"], domain["tags"], domain["options"], domain["cost_centre"]) == (True, ["a"], {}, 42)
    path = f"{V3}/domains/{domain['id']}"
    assert api.get(path).json()["domain"] == domain
    changed = api.patch(path, {"domain": {"name": "Acme 2", "description": None, "cost_centre": None}}).json()["domain"]
    assert (changed["name"], changed["description"], "cost_centre" in changed) == ("Acme 2", "", False)
    assert fault(api.delete(path))[0] == 403
    assert status(api.patch(path, {"domain": {"enabled": False}})) == 200
    assert status(api.delete(path)) == 204
    assert status(api.get(path)) == 404


def test_a_domain_may_be_given_its_id(people: People) -> None:
    api, key = Api(people.operator), uuid.uuid4().hex
    assert made(api, "domain", name="Acme", explicit_domain_id=key)["id"] == key
    again = api.post(f"{V3}/domains", {"domain": {"name": "Other", "explicit_domain_id": key}})
    assert status(again) == 409
    assert status(api.post(f"{V3}/domains", {"domain": {"name": "X", "explicit_domain_id": key.upper()}})) == 400


def test_the_name_of_a_domain_is_taken_once(people: People) -> None:
    api = Api(people.operator)
    acme = made(api, "domain", name="Acme")
    assert status(api.post(f"{V3}/domains", {"domain": {"name": "Acme"}})) == 409
    assert status(api.patch(f"{V3}/domains/{acme['id']}", {"domain": {"name": "Default"}})) == 409
    assert status(api.patch(f"{V3}/domains/{acme['id']}", {"domain": {"name": "Acme"}})) == 200


def test_a_domain_goes_with_all_that_is_in_it_and_its_token_with_it(people: People) -> None:
    realm, api = make_realm(), Api(people.operator)
    child = create_project(realm.domain, "child", parent=realm.project)
    create_project(realm.domain, "grandchild", parent=child)
    add_to_group(create_group(realm.domain, "g"), realm.erin)
    create_role("local", domain=realm.domain)
    dora = realm.api
    set_domain_enabled(realm.domain, enabled=False)
    assert status(api.delete(f"{V3}/domains/other")) == 204
    assert not any(model.objects.filter(domain="other").exists() for model in (Project, User, Group, Role))
    assert status(dora.get(f"{V3}/users")) == 401


def test_a_domain_stays_while_a_project_in_it_owns_something(people: People) -> None:
    realm = make_realm()
    Network.objects.create(project_id=realm.project.id, name="n", bridge="b")
    set_domain_enabled(realm.domain, enabled=False)
    code, message = fault(Api(people.operator).delete(f"{V3}/domains/other"))
    assert (code, "networks (1)" in message) == (409, True)
    assert Domain.objects.filter(id="other").exists()
    assert User.objects.filter(domain="other").count() == 2


def test_the_default_domain_and_the_last_administrators_domain_stay(people: People) -> None:
    api = Api(people.operator)
    code, message = fault(api.patch(f"{V3}/domains/default", {"domain": {"enabled": False}}))
    assert (code, "administrator" in message) == (403, True)
    second = make_realm()
    grant(role("admin"), user=second.dora, system=True)
    set_domain_enabled(Domain.objects.get(id="default"), enabled=False)
    rescuer = Api(None, **{"X-Auth-Token": issue_token(second.dora, "system", ("password",)).value})
    assert fault(rescuer.delete(f"{V3}/domains/default")) == (403, "The default domain cannot be deleted.")


def test_tokens_of_a_closed_domain_end_and_do_not_come_back(people: People) -> None:
    realm, api = make_realm(), Api(people.operator)
    guest = make_user("guest")
    grant(role("member"), user=guest, domain=realm.domain)
    tokens = [
        issue_token(realm.dora, realm.domain, ("password",)).value,
        issue_token(realm.erin, realm.project, ("password",)).value,
        issue_token(realm.erin, None, ("password",)).value,
        issue_token(guest, realm.domain, ("password",)).value,
    ]
    clients = [Api(None, **{"X-Auth-Token": token}) for token in tokens]
    assert {status(client.get(f"{V3}/auth/projects")) for client in clients} == {200}
    for enabled in (False, True):
        assert status(api.patch(f"{V3}/domains/other", {"domain": {"enabled": enabled}})) == 200
        assert {status(client.get(f"{V3}/auth/projects")) for client in clients} == {401}
    assert status(realm.api.get(f"{V3}/users")) == 200


def test_an_immutable_domain_is_left_alone_until_that_is_lifted(people: People) -> None:
    api = Api(people.operator)
    domain = made(api, "domain", name="Acme", enabled=False, options={"immutable": True})
    path = f"{V3}/domains/{domain['id']}"
    assert status(api.delete(path)) == 403
    assert status(api.patch(path, {"domain": {"name": "x"}})) == 403
    assert status(api.patch(path, {"domain": {"options": {"immutable": None}}})) == 200
    assert status(api.delete(path)) == 204


@each_row(
    "fields",
    [
        {},
        {"name": ""},
        {"name": "  "},
        {"name": "x" * 65},
        {"name": ["x"]},
        {"name": "x", "enabled": "yes"},
        {"name": "x", "description": 7},
        {"name": "x", "tags": ["a,b"]},
        {"name": "x", "options": {"unknown": True}},
        {"name": "x", "id": "y"},
        {"name": "x", "extra\n": "y" * 20_000},
        {"name": "x", **{f"field{number}": number for number in range(65)}},
        {"name": "x", "y" * 256: 1},
        {"name": "x", "": 1},
    ],
)
def test_a_wrong_domain_is_refused(people: People, fields: dict[str, object]) -> None:
    assert status(Api(people.operator).post(f"{V3}/domains", {"domain": fields})) == 400
    assert Domain.objects.count() == 1


def test_domains_are_for_operators_only(people: People) -> None:
    realm = make_realm()
    for api, expected in ((Api(people.alice), 403), (realm.api, 403), (Api(None), 401)):
        assert status(api.post(f"{V3}/domains", {"domain": {"name": "x"}})) == expected
        assert status(api.patch(f"{V3}/domains/default", {"domain": {"name": "x"}})) == expected
        assert status(api.delete(f"{V3}/domains/default")) == expected
    assert [each["id"] for each in realm.api.get(f"{V3}/domains").json()["domains"]] == ["other"]
    assert status(realm.api.get(f"{V3}/domains/other")) == 200
    assert status(realm.api.get(f"{V3}/domains/default")) == status(realm.api.get(f"{V3}/domains/none")) == 404
