"""Every extension that is listed works: a probe for each of them, and none is listed without one."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import pytest
from django.db import transaction

from portal.api.network.versions import EXTENSIONS
from provisioning.network import services
from provisioning.network.models import Network
from tests.network.test_security_groups_api import V2
from tests.support.cast import Api, People
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db


class World:
    """Alice, charlie outside her project and an operator with the API, and what probes need, made at its first use.

    A probe has a copy: what it makes is there no more for the next one.
    """

    def __init__(self, people: People, net: Network) -> None:
        self.people, self.net_id, self.subnet_id = people, str(net.id), str(net.subnets.get().id)
        self.project = people.alice.project_id.hex
        self.api, self.other, self.operator = Api(people.alice), Api(people.charlie), Api(people.operator)

    def make(self, kind: str, api: Api | None = None, **values: Any) -> Any:
        plural = {"rbac_policy": "rbac_policies"}.get(kind, f"{kind}s").replace("_", "-")
        answer = (api or self.api).post(f"{V2}/{plural}", {kind: values})
        assert answer.status_code == 201, answer.content
        return answer.json()[kind]

    def get(self, path: str, api: Api | None = None) -> Any:
        """Return what stands below the one word of an answer."""
        answer = (api or self.api).get(f"{V2}/{path}")
        assert answer.status_code == 200, answer.content
        return next(iter(answer.json().values()))

    def put(self, path: str, body: Any, api: Api | None = None) -> Any:
        answer = (api or self.api).put(f"{V2}/{path}", body)
        assert answer.status_code == 200, answer.content
        return next(iter(answer.json().values()))

    def status(self, method: str, path: str, *body: Any, api: Api | None = None) -> int:
        return int(getattr(api or self.api, method)(f"{V2}/{path}", *body).status_code)

    @cached_property
    def external_id(self) -> str:
        network = services.create_network(
            self.people.operator.project_id, "public", external=True, is_default=True, shared=True
        )
        services.create_subnet(network, "203.0.113.0/24", enable_dhcp=False)
        return str(network.id)

    @cached_property
    def router(self) -> Any:
        """A router that leads out, on alice's network."""
        router = self.make("router", external_gateway_info={"network_id": self.external_id})
        assert self.status("put", f"routers/{router['id']}/add_router_interface", {"subnet_id": self.subnet_id}) == 200
        return router

    @cached_property
    def leg(self) -> Any:
        [leg] = self.get(f"ports?device_id={self.router['id']}&device_owner=network:router_interface")
        return leg

    @cached_property
    def port(self) -> Any:
        return self.make("port", network_id=self.net_id)

    @cached_property
    def bound(self) -> Any:
        return self.make("port", self.operator, **{"network_id": self.net_id, "binding:host_id": "host-1"})

    @cached_property
    def floating(self) -> Any:
        assert self.router
        return self.make("floatingip", floating_network_id=self.external_id)

    @cached_property
    def group(self) -> Any:
        return self.make("security_group", name="web")

    def rule(self, **values: Any) -> Any:
        body = {"security_group_id": self.group["id"], "direction": "ingress"} | values
        return self.make("security_group_rule", **body)

    @cached_property
    def pool(self) -> Any:
        return self.make("subnetpool", name="p", prefixes=["10.90.0.0/16"], default_prefixlen=24)

    @cached_property
    def address_group(self) -> Any:
        return self.make("address_group", name="a", addresses=["192.0.2.0/24"])

    @cached_property
    def scope(self) -> Any:
        return self.make("address_scope", name="s", ip_version=4)

    @cached_property
    def forwarding(self) -> Any:
        where = f"floatingips/{self.floating['id']}/port_forwardings"
        ports = {"external_port_range": "8000:8010", "internal_port_range": "80:90"}
        body = {"protocol": "tcp", "internal_port_id": self.port["id"], "description": "web", **ports}
        answer = self.api.post(f"{V2}/{where}", {"port_forwarding": body})
        assert answer.status_code == 201, answer.content
        return answer.json()["port_forwarding"]

    def shown_forwarding(self) -> Any:
        assert self.forwarding
        [shown] = self.get(f"floatingips/{self.floating['id']}")["port_forwardings"]
        return shown

    def one_of_each(self) -> list[tuple[str, str, Any]]:
        """Return path, word and object of records of each kind with tags."""
        return [
            ("networks", "network", self.get(f"networks/{self.net_id}")),
            ("subnets", "subnet", self.get(f"subnets/{self.subnet_id}")),
            ("subnetpools", "subnetpool", self.pool),
            ("ports", "port", self.port),
            ("routers", "router", self.router),
            ("floatingips", "floatingip", self.floating),
            ("security-groups", "security_group", self.group),
        ]

    def shared(self, kind: str, plural: str, identity: str) -> bool:
        """Share a record with charlie's project, who then sees it."""
        before = self.status("get", f"{plural}/{identity}", api=self.other)
        target = self.people.charlie.project_id.hex
        body: dict[str, Any] = {
            "object_type": kind,
            "object_id": identity,
            "action": "access_as_shared",
            "target_tenant": target,
        }
        self.make("rbac_policy", **body)
        return (before, self.status("get", f"{plural}/{identity}", api=self.other)) == (404, 200)

    def quota(self, **values: Any) -> int:
        return self.status("put", f"quotas/{self.project}", {"quota": values}, api=self.operator)


Probe = Callable[[World], object]


def address_scope(w: World) -> object:
    pool = w.make("subnetpool", name="of", prefixes=["10.91.0.0/16"], address_scope_id=w.scope["id"])
    network = w.make("network")["id"]
    w.make("subnet", network_id=network, ip_version=4, subnetpool_id=pool["id"], prefixlen=24)
    return w.get(f"networks/{network}")["ipv4_address_scope"] == w.scope["id"]


def agent(w: World) -> object:
    Cloud.make().add_host("kelvin")
    shown = w.get("agents?host=kelvin", w.operator)
    return {each["agent_type"] for each in shown} >= {"DHCP agent", "L3 agent"} and shown[0]["alive"]


def zones(w: World) -> object:
    Cloud.make().add_host("kelvin")
    return {each["resource"] for each in w.get("availability_zones")} == {"network", "router"}


def zone_filter(w: World) -> object:
    Cloud.make().add_host("kelvin")
    [zone] = w.get("availability_zones?name=nova&state=available&resource=router")
    return zone["resource"] == "router" and w.get("availability_zones?name=mars") == []


def dns(w: World) -> object:
    network = w.put(f"networks/{w.net_id}", {"network": {"dns_domain": "corp.example."}})
    port = w.make("port", network_id=w.net_id, dns_name="www")
    return network["dns_domain"] == "corp.example." and port["dns_assignment"][0]["fqdn"] == "www.corp.example."


def default_pools(w: World) -> object:
    values: dict[str, Any] = {
        "name": "usual",
        "prefixes": ["10.92.0.0/16"],
        "default_prefixlen": 24,
        "is_default": True,
    }
    w.make("subnetpool", w.operator, project_id=w.project, **values)
    made = w.make("subnet", network_id=w.make("network")["id"], ip_version=4, use_default_subnetpool=True)
    return str(made["cidr"]).startswith("10.92.")


def mtu_writable(w: World) -> object:
    network = w.make("network", mtu=1400)
    changed = w.put(f"networks/{network['id']}", {"network": {"mtu": 1300}})
    largest = w.put(f"networks/{network['id']}", {"network": {"mtu": 0}})
    return (network["mtu"], changed["mtu"], largest["mtu"]) == (1400, 1300, w.make("network", mtu=0)["mtu"])


def new_mac(w: World) -> object:
    changed = w.put(f"ports/{w.port['id']}", {"port": {"mac_address": None}}, w.operator)
    return changed["mac_address"] and changed["mac_address"] != w.port["mac_address"]


def prefixes(w: World) -> object:
    changed = w.put(f"subnetpools/{w.pool['id']}/add_prefixes", {"prefixes": ["10.95.0.0/16"]})
    assert changed == ["10.90.0.0/16", "10.95.0.0/16"]
    return w.put(f"subnetpools/{w.pool['id']}/remove_prefixes", {"prefixes": ["10.95.0.0/16"]}) == ["10.90.0.0/16"]


def snat(w: World) -> object:
    info = {"network_id": w.external_id, "enable_snat": False}
    changed = w.put(f"routers/{w.router['id']}", {"router": {"external_gateway_info": info}}, w.operator)
    return changed["external_gateway_info"]["enable_snat"] is False


ROUTE = {"destination": "10.9.0.0/16", "nexthop": "10.20.0.99"}


def routes(w: World) -> object:
    return w.put(f"routers/{w.router['id']}", {"router": {"routes": [ROUTE]}})["routes"] == [ROUTE]


def single_routes(w: World) -> object:
    where, body = f"routers/{w.router['id']}", {"router": {"routes": [ROUTE]}}
    added = w.put(f"{where}/add_extraroutes", body)["routes"]
    return (added, w.put(f"{where}/remove_extraroutes", body)["routes"]) == ([ROUTE], [])


def router(w: World) -> object:
    floating = w.put(f"floatingips/{w.floating['id']}", {"floatingip": {"port_id": w.port["id"]}})
    return floating["router_id"] == w.router["id"]


def details(w: World) -> object:
    floating = w.put(f"floatingips/{w.floating['id']}", {"floatingip": {"port_id": w.port["id"]}})
    return floating["port_details"]["mac_address"] == w.port["mac_address"]


def pages(w: World) -> object:
    for name in "ab":
        w.make("network", name=name)
    answer = w.api.get(f"{V2}/networks?limit=1&sort_key=name").json()
    after = w.get(f"networks?limit=1&sort_key=name&marker={answer['networks'][0]['id']}")
    return [link["rel"] for link in answer["networks_links"]][:1] == ["next"] and after[0]["name"] == "b"


def service_types(w: World) -> object:
    body = {"subnet": {"service_types": ["network:floatingip"]}}
    w.put(f"subnets/{w.subnet_id}", body, w.operator)
    return w.status("post", "ports", {"port": {"network_id": w.net_id}}) == 409


def revision(w: World) -> object:
    sent: dict[str, Any] = {
        "content_type": "application/json",
        "headers": w.api.headers | {"If-Match": "revision_number=77"},
    }
    return w.api.client.put(f"{V2}/ports/{w.port['id']}", {"port": {}}, **sent).status_code == 412


def tags(w: World) -> object:
    for path, _, row in w.one_of_each():
        where = f"{path}/{row['id']}/tags"
        assert w.put(where, {"tags": ["red"]}) == ["red"], path
        assert row["id"] in [each["id"] for each in w.get(f"{path}?tags=red")], path
    return True


def default_rules(w: World) -> object:
    ports = {"port_range_min": 22, "port_range_max": 22}
    w.make("default_security_group_rule", w.operator, direction="ingress", protocol="tcp", **ports)
    return any(each["port_range_min"] == 22 for each in w.group["security_group_rules"])


def everywhere(name: str) -> Probe:
    return lambda w: all(name in row for _, _, row in w.one_of_each())


def described(w: World) -> object:
    return all(
        w.put(f"{path}/{row['id']}", {word: {"description": "d"}})["description"] == "d"
        for path, word, row in w.one_of_each()
    )


def hinted(kind: str) -> Probe:
    def probe(w: World) -> object:
        Cloud.make().add_host("kelvin")
        row = w.make(kind, availability_zone_hints=["nova"])
        return (row["availability_zone_hints"], row["availability_zones"]) == (["nova"], [])

    return probe


PROBES: dict[str, Probe] = {
    "address-scope": address_scope,
    "agent": agent,
    "allowed-address-pairs": lambda w: w.make(
        "port", network_id=w.net_id, allowed_address_pairs=[{"ip_address": "10.20.0.77"}]
    )["allowed_address_pairs"][0]["mac_address"],
    "auto-allocated-topology": lambda w: w.external_id and w.get("auto-allocated-topology/None")["id"],
    "availability_zone": zones,
    "availability_zone_filter": zone_filter,
    "network_availability_zone": hinted("network"),
    "router_availability_zone": hinted("router"),
    "binding": lambda w: "binding:host_id" in w.get(f"ports/{w.port['id']}", w.operator),
    "binding-extended": lambda w: w.get(f"ports/{w.bound['id']}/bindings", w.operator)[0]["status"] == "ACTIVE",
    "default-subnetpools": default_pools,
    "dns-integration": dns,
    "empty-string-filtering": lambda w: (
        w.make("network", name="") and [each["name"] for each in w.get("networks?name=")] == [""]
    ),
    "external-net": lambda w: w.external_id in [each["id"] for each in w.get("networks?router:external=True")],
    "extra_dhcp_opt": lambda w: w.make(
        "port", network_id=w.net_id, extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": "1400"}]
    )["extra_dhcp_opts"],
    "filter-validation": lambda w: w.status("get", "networks?colour=red") == 400,
    "ip-substring-filtering": lambda w: (
        w.port in w.get("ports?fixed_ips=ip_address_substr=20.0.")
        and w.get("ports?fixed_ips=ip_address_substr=99.") == []
    ),
    "net-mtu": lambda w: w.get(f"networks/{w.net_id}")["mtu"] == 1450,
    "net-mtu-writable": mtu_writable,
    "network-ip-availability": lambda w: w.get(f"network-ip-availabilities/{w.net_id}", w.operator)["total_ips"] == 253,
    "pagination": pages,
    "port-security": lambda w: (
        w.make("port", network_id=w.net_id, port_security_enabled=False)["security_groups"] == []
    ),
    "port-mac-address-regenerate": new_mac,
    "port-security-groups-filtering": lambda w: (
        w.port in w.get(f"ports?security_groups={w.port['security_groups'][0]}")
        and w.get(f"ports?security_groups={w.group['id']}") == []
    ),
    "project-id": lambda w: w.get(f"networks?project_id={w.project}")[0]["project_id"] == w.project,
    "provider": lambda w: w.get(f"networks/{w.net_id}", w.operator)["provider:segmentation_id"],
    "quota-check-limit": lambda w: (w.quota(network=0, check_limit=True), w.quota(network=7)) == (400, 200),
    "quota-check-limit-default": lambda w: (w.quota(network=0), w.quota(network=0, force=True)) == (400, 200),
    "quota_details": lambda w: w.get(f"quotas/{w.project}/details")["network"]["used"] == 1,
    "quotas": lambda w: w.quota(network=1) == 200 and w.status("post", "networks", {"network": {}}) == 409,
    "rbac-policies": lambda w: w.shared("network", "networks", w.net_id),
    "security-groups-shared-filtering": lambda w: (
        w.group["id"] in [each["id"] for each in w.get("security-groups?shared=False")]
        and w.get("security-groups?shared=True") == []
    ),
    "rbac-security-groups": lambda w: w.shared("security_group", "security-groups", w.group["id"]),
    "rbac-address-group": lambda w: w.shared("address_group", "address-groups", w.address_group["id"]),
    "rbac-address-scope": lambda w: w.shared("address_scope", "address-scopes", w.scope["id"]),
    "port-trusted-vif": lambda w: "trusted" in w.get(f"ports/{w.port['id']}", w.operator),
    "subnetpool-prefix-ops": prefixes,
    "rbac-subnetpool": lambda w: w.shared("subnetpool", "subnetpools", w.pool["id"]),
    "router": router,
    "ext-gw-mode": snat,
    "extraroute": routes,
    "extraroute-atomic": single_routes,
    "dvr": lambda w: w.get(f"routers/{w.router['id']}", w.operator)["distributed"] is True,
    "fip-port-details": details,
    "expose-port-forwarding-in-fip": lambda w: w.shown_forwarding()["protocol"] == "tcp",
    "floating-ip-port-forwarding": lambda w: w.forwarding["protocol"] == "tcp",
    "floating-ip-port-forwarding-description": lambda w: w.forwarding["description"] == "web",
    "floating-ip-port-forwarding-detail": lambda w: (
        w.shown_forwarding()["id"] == w.forwarding["id"] and w.shown_forwarding()["internal_port_id"] == w.port["id"]
    ),
    "floating-ip-port-forwarding-port-ranges": lambda w: w.forwarding["internal_port_range"] == "80:90",
    "security-group": lambda w: w.rule(protocol="tcp", port_range_min=22, port_range_max=22)["port_range_max"] == 22,
    "address-group": lambda w: w.put(
        f"address-groups/{w.address_group['id']}/add_addresses", {"addresses": ["198.51.100.0/24"]}
    ),
    "security-groups-remote-address-group": lambda w: (
        w.rule(remote_address_group_id=w.address_group["id"])["remote_address_group_id"] == w.address_group["id"]
    ),
    "security-groups-default-rules": default_rules,
    "stateful-security-group": lambda w: w.make("security_group", name="s", stateful=False)["stateful"] is False,
    "security-groups-normalized-cidr": lambda w: (
        w.rule(remote_ip_prefix="10.1.2.3/16")["normalized_cidr"] == "10.1.0.0/16"
    ),
    "floatingip-pools": lambda w: w.external_id in [each["network_id"] for each in w.get("floatingip_pools")],
    "service-type": lambda w: w.get("service-providers")[0]["service_type"] == "L3_ROUTER_NAT",
    "sorting": lambda w: (
        w.make("network", name="z")
        and [each["name"] for each in w.get(f"networks?project_id={w.project}&sort_key=name&sort_dir=desc")]
        == ["z", "net"]
    ),
    "sort-key-validation": lambda w: w.status("get", "networks?sort_key=colour") == 400,
    "standard-attr-description": described,
    "standard-attr-revisions": everywhere("revision_number"),
    "revision-if-match": revision,
    "standard-attr-tag": tags,
    "subnet-service-types": service_types,
    "subnet_allocation": lambda w: w.make(
        "subnet", network_id=w.make("network")["id"], ip_version=4, subnetpool_id=w.pool["id"], prefixlen=25
    )["cidr"].endswith("/25"),
    "tag-creation": lambda w: w.status("post", f"ports/{w.port['id']}/tags", {"tags": ["a", "b"]}) == 201,
    "standard-attr-timestamp": everywhere("updated_at"),
}
"""Alias → what shows that it works; an error, or a false answer, says that it does not."""


@pytest.mark.slow
def test_what_is_listed_works(people: People, net: Network) -> None:
    listed = {each["alias"] for each in World(people, net).get("extensions")}
    assert listed == EXTENSIONS.keys() == PROBES.keys(), listed ^ PROBES.keys()
    failed, world = {}, World(people, net)
    for name in ("router", "leg", "port", "floating", "pool", "address_group", "scope"):
        getattr(world, name)
    for alias, probe in PROBES.items():
        with transaction.atomic():
            try:
                worked = probe(copy(world))
            except AssertionError as error:
                worked, failed[alias] = False, str(error)[:500]
            if not worked:
                failed.setdefault(alias, "does not work")
            transaction.set_rollback(True)
    assert failed == {}
