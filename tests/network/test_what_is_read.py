"""Addresses and ranges that are none are refused wherever somebody writes them: they end in files of hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provisioning.network import services
from provisioning.network.models import Network
from provisioning.network.services import Gateway
from tests.support.cast import Api, Person
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
V2 = "/network/v2.0"
ADDRESSES = (
    "fe80::1%eth0", "fe80::1%1", "fe80::1%\nadd rule x", "fd00::9%" + "x" * 40, "10.20.0.9%eth0", "10.20.0.9\n",
    " 10.20.0.9", "10.20.0.9 ", "010.20.0.9", "10.20.9", "\u0661\u0660.20.0.9", "0x0a140009", "::g", "10.20.0.9;",
    "x" * 300, 9, [], {}, True,
)  # fmt: skip
PREFIXES = (
    *(f"{each}/128" for each in ADDRESSES), "10.20.0.0/24\n", "10.20.0.0/\u0662\u0664", "10.20.0.0/ 24", "10.20.0.0/-1",
    "10.20.0.0/33", "fd00::/129", "fd00::/64%1", "10.20.0.0/24/24", "/24", "10.20.0.0/", "10.20.0.0/2_4", 9, [], {},
)  # fmt: skip


class Place:
    """A network behind a router, and everything that has addresses in it."""

    def __init__(self, alice: Person, operator: Person, net: Network) -> None:
        self.api = Api(operator)
        external = services.create_network(operator.project_id, "public")
        services.create_subnet(external, "203.0.113.0/24", enable_dhcp=False)
        services.update_network(external, {"external": True})
        external.refresh_from_db()
        router = services.create_router(alice.project_id, gateway=Gateway(external))
        services.add_interface_by_subnet(router, net.subnets.get())
        port = services.create_port(alice.project_id, net)
        floating = services.create_floating_ip(alice.project_id, external)
        self.net, self.external, self.port = str(net.id), str(external.id), str(port.id)
        self.subnet, self.router = f"/subnets/{net.subnets.get().id}", f"/routers/{router.id}"
        self.floating = str(floating.id)
        self.group = str(services.create_security_group(alice.project_id, "g").id)
        self.addresses = f"/address-groups/{services.create_address_group(alice.project_id, 'a', []).id}"

    def post(self, kind: str, **values: Any) -> Any:
        return self.api.post(f"{V2}/{kind.replace('_', '-')}s", {kind: values})

    def put(self, path: str, body: Any) -> Any:
        return self.api.put(f"{V2}{path}", body)

    def new_subnet(self, **values: Any) -> Any:
        body = {"network_id": self.net, "ip_version": 4, "cidr": "10.99.0.0/24"}
        return self.post("subnet", **body | values)

    def forward(self, address: object) -> Any:
        values = {"protocol": "tcp", "external_port": 22, "internal_port": 22, "internal_port_id": self.port}
        body = {"port_forwarding": values | {"internal_ip_address": address}}
        return self.api.post(f"{V2}/floatingips/{self.floating}/port_forwardings", body)


@pytest.fixture
def place(alice: Person, operator: Person, net: Network) -> Place:
    return Place(alice, operator, net)


Send = Callable[[Place, Any], Any]
HOP, TO = "10.20.0.9", "10.9.0.0/24"
OF_ADDRESSES: dict[str, Send] = {
    "port: fixed_ips": lambda at, it: at.post("port", network_id=at.net, fixed_ips=[{"ip_address": it}]),
    "port: fixed_ips, changed": lambda at, it: at.put(
        f"/ports/{at.port}", {"port": {"fixed_ips": [{"ip_address": it}]}}
    ),
    "port: pairs": lambda at, it: at.post("port", network_id=at.net, allowed_address_pairs=[{"ip_address": it}]),
    "subnet: gateway": lambda at, it: at.new_subnet(gateway_ip=it),
    "subnet: gateway, changed": lambda at, it: at.put(at.subnet, {"subnet": {"gateway_ip": it}}),
    "subnet: pool": lambda at, it: at.new_subnet(allocation_pools=[{"start": it, "end": "10.99.0.9"}]),
    "subnet: pool's end": lambda at, it: at.new_subnet(allocation_pools=[{"start": "10.99.0.5", "end": it}]),
    "subnet: name server": lambda at, it: at.put(at.subnet, {"subnet": {"dns_nameservers": [it]}}),
    "subnet: route": lambda at, it: at.put(
        at.subnet, {"subnet": {"host_routes": [{"destination": TO, "nexthop": it}]}}
    ),
    "router: gateway": lambda at, it: at.post(
        "router", external_gateway_info={"network_id": at.external, "external_fixed_ips": [{"ip_address": it}]}
    ),
    "router: route": lambda at, it: at.put(at.router, {"router": {"routes": [{"destination": TO, "nexthop": it}]}}),
    "floating IP: its own": lambda at, it: at.post(
        "floatingip", floating_network_id=at.external, floating_ip_address=it
    ),
    "floating IP: a port's": lambda at, it: at.post(
        "floatingip", floating_network_id=at.external, port_id=at.port, fixed_ip_address=it
    ),
    "forwarding": lambda at, it: at.forward(it),
}
OF_PREFIXES: dict[str, Send] = {
    "port: pairs": OF_ADDRESSES["port: pairs"],
    "subnet: cidr": lambda at, it: at.new_subnet(cidr=it),
    "subnet: route": lambda at, it: at.put(
        at.subnet, {"subnet": {"host_routes": [{"destination": it, "nexthop": HOP}]}}
    ),
    "router: route": lambda at, it: at.put(at.router, {"router": {"routes": [{"destination": it, "nexthop": HOP}]}}),
    "router: one more": lambda at, it: at.put(
        f"{at.router}/add_extraroutes", {"router": {"routes": [{"destination": it, "nexthop": HOP}]}}
    ),
    "router: one less": lambda at, it: at.put(
        f"{at.router}/remove_extraroutes", {"router": {"routes": [{"destination": it, "nexthop": HOP}]}}
    ),
    "pool": lambda at, it: at.post("subnetpool", name="p", prefixes=[it]),
    "rule": lambda at, it: at.post(
        "security_group_rule", security_group_id=at.group, direction="ingress", ethertype="IPv6", remote_ip_prefix=it
    ),
    "default rule": lambda at, it: at.post(
        "default_security_group_rule", direction="ingress", ethertype="IPv6", remote_ip_prefix=it
    ),
    "address group": lambda at, it: at.post("address_group", name="a", addresses=[it]),
    "address group: one more": lambda at, it: at.put(f"{at.addresses}/add_addresses", {"addresses": [it]}),
    "address group: one less": lambda at, it: at.put(f"{at.addresses}/remove_addresses", {"addresses": [it]}),
}


@pytest.mark.slow
@each_row("field", OF_ADDRESSES)
def test_what_is_no_address_is_refused(place: Place, field: str) -> None:
    taken = [it for it in ADDRESSES if OF_ADDRESSES[field](place, it).status_code != 400]
    assert taken == []


@pytest.mark.slow
@each_row("field", OF_PREFIXES)
def test_what_is_no_range_is_refused(place: Place, field: str) -> None:
    taken = [it for it in PREFIXES if OF_PREFIXES[field](place, it).status_code != 400]
    assert taken == []


def test_a_filter_by_what_is_no_address_finds_nothing(place: Place) -> None:
    for it in ADDRESSES[:6]:
        answer = place.api.get(f"{V2}/ports?fixed_ips=ip_address={it.replace('%', '%25')}")  # type: ignore[attr-defined]
        assert (answer.status_code, answer.json()) == (200, {"ports": []})


def test_a_rule_s_prefix_may_be_one_address_or_have_a_netmask(place: Place) -> None:
    for prefix, kept in (
        ("10.1.2.3", "10.1.2.3/32"),
        ("10.1.2.3/8", "10.1.2.3/8"),
        ("10.1.2.0/255.255.255.0", "10.1.2.0/24"),
    ):
        rule = {"security_group_id": place.group, "direction": "ingress", "remote_ip_prefix": prefix}
        answer = place.post("security_group_rule", **rule)
        assert answer.json()["security_group_rule"]["remote_ip_prefix"] == kept
