"""Every change of networking sends one notification with Neutron's name, only to its project."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from provisioning.events.models import Event
from provisioning.events.selectors import EVERYBODY
from provisioning.network import services
from provisioning.network.models import Network, Subnet
from provisioning.network.records.announcements import KIND, TYPES
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from provisioning.notifications.messages import TOPIC
from tests.support.cast import Person


def notified() -> list[tuple[str, dict[str, Any]]]:
    """Every notification so far with its data, in order."""
    rows = Event.objects.filter(topic=TOPIC).order_by("id")
    return [(row.kind, row.payload["payload"]["nova_object.data"]) for row in rows]


def names() -> list[str]:
    result = [name for name, _ in notified()]
    Event.objects.all().delete()
    return result


@pytest.fixture
def net(alice: Person) -> Network:
    network = services.create_network(alice.project_id, "net")
    services.create_subnet(network, "10.20.0.0/24", name="subnet")
    return network


def test_a_network_is_reported_as_it_is(alice: Person, net: Network) -> None:
    (event, data), (of_subnet, _) = notified()
    assert (event, of_subnet) == ("network.create.end", "subnet.create.end")
    assert (data["tenant_id"], data["resource_type"]) == (alice.project_id.hex, "network")
    assert (data["id"], data["name"], data["mtu"]) == (str(net.id), "net", net.mtu)
    assert not {"bridge", "host", "project_id"} & set(data)
    names()
    services.update_network(net, {"name": "other"})
    ((event, data),) = notified()
    assert (event, data["name"], data["revision_number"]) == ("network.update.end", "other", net.revision_number + 1)
    names()
    services.delete_subnet(Subnet.objects.get(network=net))
    services.delete_network(net)
    assert names() == ["subnet.delete.end", "network.delete.end"]


@pytest.mark.slow
def test_every_kind_of_record_is_reported(alice: Person, operator: Person, net: Network) -> None:
    public = services.create_network(
        operator.project_id, "public", external=True, network_type="flat", physical_network="external"
    )
    services.create_subnet(public, "203.0.113.0/24", enable_dhcp=False)
    names()
    router = services.create_router(alice.project_id, name="r", gateway=services.Gateway(public))
    services.add_interface_by_subnet(router, Subnet.objects.get(network=net))
    assert names() == ["router.create.end", "router.update.end"]
    port = services.create_port(alice.project_id, net)
    services.update_port(port, {"name": "p"})
    floating = services.create_floating_ip(alice.project_id, public)
    services.create_port_forwarding(
        floating, ForwardingRequest("tcp", (22, 22), port, port.fixed_ips.get().address, (22, 22))
    )
    services.delete_floating_ip(floating, with_forwardings=True)
    services.delete_port(port)
    assert [name for name in names() if not name.startswith("security_group")] == [
        "port.create.end", "port.update.end", "floatingip.create.end", "floatingip.update.end", "floatingip.delete.end",
        "port.delete.end",
    ]  # fmt: skip
    group = services.create_security_group(alice.project_id, "g")
    services.allow_ingress(group, "tcp", 22)
    services.delete_security_group(group)
    assert names() == ["security_group.create.end", "security_group.update.end", "security_group.delete.end"]
    scope = services.create_address_scope(alice.project_id, "s", 4)
    pool = services.create_subnet_pool(alice.project_id, "p", ["10.64.0.0/16"], address_scope=scope)
    services.update_subnet_pool(pool, {"name": "q"})
    services.delete_subnet_pool(pool)
    services.update_address_scope(scope, {"name": "t"})
    services.delete_address_scope(scope)
    assert names() == [
        "address_scope.create.end", "subnetpool.create.end", "subnetpool.update.end", "subnetpool.delete.end",
        "address_scope.update.end", "address_scope.delete.end",
    ]  # fmt: skip
    addresses = services.create_address_group(alice.project_id, "a", ["192.0.2.0/24"])
    services.add_addresses(addresses, ["198.51.100.0/24"])
    services.delete_address_group(addresses)
    policy = services.create_rbac_policy(alice.project_id, "network", net, "access_as_shared", uuid.uuid4().hex)
    services.update_rbac_policy(policy, uuid.uuid4().hex)
    services.delete_rbac_policy(policy)
    assert names() == [
        "address_group.create.end", "address_group.update.end", "address_group.delete.end",
        "rbac_policy.create.end", "rbac_policy.update.end", "rbac_policy.delete.end",
    ]  # fmt: skip


def test_what_the_operator_does_not_want_is_not_reported(alice: Person, settings: Any) -> None:
    settings.NOTIFICATIONS = ["all", "-network.*"]
    services.create_subnet(services.create_network(alice.project_id, "net"), "10.20.0.0/24")
    assert names() == ["subnet.create.end"]


def test_the_page_lists_every_type() -> None:
    page = Path(__file__).resolve().parents[2].joinpath("docs/notifications.md").read_text()
    section = page.split("## Networking\n", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"`([a-z_]+\.[a-z]+\.end)`", section)) == set(TYPES)


def test_the_pages_of_all_who_see_a_record_are_woken(alice: Person, charlie: Person, net: Network) -> None:
    mine, theirs = (f"project:{person.project_id}" for person in (alice, charlie))

    def woken() -> set[str]:
        result = set(Event.objects.filter(kind=KIND).values_list("topic", flat=True))
        Event.objects.all().delete()
        return result

    assert woken() == {mine}
    policy = services.create_rbac_policy(alice.project_id, "network", net, "access_as_shared", charlie.project_id.hex)
    assert woken() == {mine, theirs}
    services.update_subnet(Subnet.objects.get(network=net), {"name": "other"})
    assert woken() == {mine, theirs}
    services.delete_rbac_policy(policy)
    assert woken() == {mine, theirs}
    for shared in (True, False):
        services.update_network(net, {"shared": shared})
        assert woken() == {mine, EVERYBODY}
    services.update_network(net, {"name": "other"})
    assert woken() == {mine}
