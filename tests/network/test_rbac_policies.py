"""Policies that share records with other projects, over the Networking API."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.network import services
from provisioning.network.models import Network, RbacPolicy
from provisioning.quotas.models import QuotaUsage
from tests.network.test_subnets import send
from tests.support.cast import Person
from tests.support.landing import one_in

pytestmark = pytest.mark.django_db
PATH = "/rbac-policies"


def share(person: Person, kind: str, row: Any, target: str, action: str = "access_as_shared") -> tuple[int, Any]:
    body = {"object_type": kind, "object_id": str(row.pk), "action": action, "target_tenant": target}
    status, answer = send(person, "POST", PATH, {"rbac_policy": body})
    return status, answer["rbac_policy"] if status == 201 else answer["NeutronError"]["type"]


@pytest.mark.slow
def test_a_network_is_shared_with_one_project_and_only_while_it_is_not_in_use(alice: Person, charlie: Person) -> None:
    network = services.create_network(alice.project_id, "n")
    services.create_subnet(network, "10.70.0.0/24")
    status, made = share(alice, "network", network, charlie.project_id.hex)
    assert (status, made["target_tenant"], made["project_id"]) == (201, charlie.project_id.hex, alice.project_id.hex)
    assert share(alice, "network", network, charlie.project_id.hex) == (409, "DuplicateRbacPolicy")
    assert send(charlie, "GET", f"/networks/{network.id}")[0] == 200
    assert send(charlie, "GET", f"{PATH}/{made['id']}")[0] == 404
    assert share(charlie, "network", network, charlie.project_id.hex) == (400, "InvalidInput")
    port = services.create_port(charlie.project_id, network)
    [taken] = QuotaUsage.objects.filter(resource="fixed_ips", in_use=1)
    assert taken.project_id == charlie.project_id
    status, answer = send(alice, "DELETE", f"{PATH}/{made['id']}")
    assert (status, answer["NeutronError"]["type"]) == (409, "RbacPolicyInUse")
    port.delete()
    assert send(alice, "DELETE", f"{PATH}/{made['id']}")[0] == 204
    assert send(charlie, "GET", f"/networks/{network.id}")[0] == 404


def test_only_operators_share_with_everybody_and_the_column_says_it(
    alice: Person, charlie: Person, operator: Person
) -> None:
    network = services.create_network(alice.project_id, "n")
    assert share(alice, "network", network, "*") == (403, "PolicyNotAuthorized")
    for action, column in (("access_as_shared", "shared"), ("access_as_external", "external")):
        status, made = share(operator, "network", network, "*", action)
        assert (status, getattr(Network.objects.get(), column)) == (201, True)
        assert send(charlie, "GET", f"/networks/{network.id}")[0] == 200
        assert send(operator, "DELETE", f"{PATH}/{made['id']}")[0] == 204
        assert not getattr(Network.objects.get(), column)
    assert send(charlie, "GET", f"/networks/{network.id}")[0] == 404


def shown_as_shared(person: Person, kind: str, row: Any) -> bool:
    """Return what ``shared`` is for the caller; the list with its filter says the same."""
    plural = f"{kind.replace('_', '-')}s"
    _, answer = send(person, "GET", f"/{plural}/{row.pk}")
    shared: bool = answer[kind]["shared"]
    for filtered in (True, False):
        _, answer = send(person, "GET", f"/{plural}?id={row.pk}&shared={filtered}")
        assert len(answer[f"{kind}s"]) == (shared is filtered)
    return shared


@pytest.mark.slow
@pytest.mark.both_databases
@one_in(2, "kind", ["network", "security_group", "address_scope", "address_group", "subnetpool"])
def test_every_kind_is_seen_by_whom_it_is_shared_with(
    alice: Person, charlie: Person, operator: Person, kind: str
) -> None:
    mine = alice.project_id
    made: dict[str, Any] = {
        "network": lambda: services.create_network(mine, "g"),
        "security_group": lambda: services.create_security_group(mine, "g"),
        "address_group": lambda: services.create_address_group(mine, "g", ["192.0.2.1"]),
        "address_scope": lambda: services.create_address_scope(mine, "g", 4),
        "subnetpool": lambda: services.create_subnet_pool(mine, "g", ["10.0.0.0/16"]),
    }
    row = made[kind]()
    path = f"/{kind.replace('_', '-')}s/{row.pk}"
    assert (send(charlie, "GET", path)[0], share(charlie, kind, row, charlie.project_id.hex)[0]) == (404, 404)
    for person, target in ((alice, charlie.project_id.hex), (operator, "*")):
        status, policy = share(person, kind, row, target)
        assert (status, send(charlie, "GET", path)[0]) == (201, 200), policy
        assert shown_as_shared(charlie, kind, row)
        assert shown_as_shared(alice, kind, row) == shown_as_shared(operator, kind, row) == (target == "*")
        assert send(person, "DELETE", f"{PATH}/{policy['id']}")[0] == 204
        assert send(charlie, "GET", path)[0] == 404
        assert not shown_as_shared(alice, kind, row)
    share(alice, kind, row, alice.project_id.hex)
    assert shown_as_shared(alice, kind, row)  # as in Neutron, which looks at the caller's project and not at the owner
    assert not shown_as_shared(operator, kind, row)
    if kind != "network":
        assert share(alice, kind, row, charlie.project_id.hex, "access_as_external") == (400, "InvalidInput")


@pytest.mark.both_databases("sql")
def test_subnets_are_found_and_networks_sorted_by_what_is_shared_with_the_caller(
    alice: Person, charlie: Person, operator: Person
) -> None:
    rows = [services.create_network(charlie.project_id, name) for name in "abcd"]
    given = services.create_network(alice.project_id, "given")
    subnet = services.create_subnet(given, "10.70.0.0/24")
    share(alice, "network", given, charlie.project_id.hex)
    share(operator, "network", rows[1], "*")

    def names(query: str) -> list[str]:
        return [each["name"] for each in send(charlie, "GET", f"/networks?{query}")[1]["networks"]]

    assert names("sort_key=shared&sort_key=name") == ["a", "c", "d", "b", "given"]
    behind = f"sort_key=shared&sort_key=name&limit=2&marker={rows[3].id}"
    assert names(behind) == ["b", "given"]
    for person, result in ((charlie, [str(subnet.id)]), (alice, [])):
        answer = send(person, "GET", f"/subnets?shared=True&network_id={given.id}")[1]
        assert [each["id"] for each in answer["subnets"]] == result


def test_a_policy_is_led_to_another_project(alice: Person, charlie: Person) -> None:
    network = services.create_network(alice.project_id, "n")
    _, made = share(alice, "network", network, alice.project_id.hex)
    path = f"{PATH}/{made['id']}"
    status, answer = send(alice, "PUT", path, {"rbac_policy": {"target_tenant": charlie.project_id.hex}})
    assert (status, answer["rbac_policy"]["target_tenant"]) == (200, charlie.project_id.hex)
    assert send(charlie, "GET", f"/networks/{network.id}")[0] == 200
    assert send(alice, "PUT", path, {"rbac_policy": {"target_tenant": "*"}})[0] == 403
    assert send(alice, "PUT", path, {"rbac_policy": {"target_tenant": "nobody"}})[0] == 400
    assert RbacPolicy.objects.get().target_project == charlie.project_id.hex
