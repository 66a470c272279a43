"""Networks, subnets, subnet pools, address scopes and ports."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.network.models import Port
from tests.samples.recorder import Scene

V = (2, 96)
"""The Networking API has no microversions: what is kept is kept at the one that there is."""


def made(scene: Scene, path: str, name: str, body: dict[str, Any], who: str = "alice") -> dict[str, Any]:
    """Make one over HTTP without keeping the pair, and give its id the name ``<name>_id``."""
    answer = scene.api(who).post(f"/network/v2.0/{path}", {name: body})
    assert answer.status_code == 201, answer.content
    result: dict[str, Any] = answer.json()[name]
    scene.let(f"{name}_id", result["id"])
    return result


def network(scene: Scene, cidr: str = "10.30.0.0/24") -> tuple[str, str]:
    """Give alice a network with a subnet; returns their ids."""
    scene.let("shared_network_id", scene.cloud.network.id)
    net = made(scene, "networks", "network", {"name": "inner"})
    subnet = made(scene, "subnets", "subnet", {"network_id": net["id"], "ip_version": 4, "cidr": cidr})
    return str(net["id"]), str(subnet["id"])


def networks(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/networks", "/v2.0/networks/{network_id}"
    scene.let("shared_network_id", scene.cloud.network.id)
    body = {"name": "inner", "description": "Mine", "dns_domain": "inner.example.", "mtu": 1400}
    new = play("create", "POST", path, {"network": body}, keep=V)
    play("create what only operators may", "POST", path, {"network": {"shared": True}})
    scene.let("network_id", new["network"]["id"])
    play("create several", "POST", path, {"networks": [{"name": "one"}, {"name": "two", "admin_state_up": False}]})
    play("create several, one of them wrong", "POST", path, {"networks": [{"name": "one"}, {"name": 2}]})
    play("create nothing", "POST", path, {})
    wire = {"name": "wire", "provider:network_type": "flat", "provider:physical_network": "wire", "shared": True}
    play("create a provider network", "POST", path, {"network": wire}, who="operator")
    play("create an external one", "POST", path, {"network": {"router:external": True}}, who="operator")
    play("list", "GET", f"{path}?sort_key=name")
    play("list for an operator", "GET", f"{path}?name=inner", who="operator")
    play("a page", "GET", f"{path}?limit=1&sort_key=name&sort_dir=desc&fields=id&fields=name")
    play("list by name", "GET", f"{path}?name=inner&name=other")
    play("list by what is no attribute", "GET", f"{path}?nonsense=1")
    play("show", "GET", one)
    play("show to an operator", "GET", one, who="operator")
    play("show some fields", "GET", f"{one}?fields=name&fields=mtu")
    play("show another's", "GET", one, who="charlie")
    play("update", "PUT", one, {"network": {"name": "other", "admin_state_up": False}})
    play("update another's", "PUT", one, {"network": {"name": "other"}}, who="charlie")
    play("update what a reader may not", "PUT", one, {"network": {"name": "other"}}, who="bob")
    stale = {"If-Match": "revision_number=7"}
    play("update at another revision", "PUT", one, {"network": {"name": "other"}}, headers=stale)
    made(scene, "ports", "port", {"network_id": new["network"]["id"], "name": "wired"})
    play("delete what is in use", "DELETE", one)
    scene.api("alice").delete(f"/network/v2.0/ports/{scene.ids['port_id']}")
    play("delete", "DELETE", one, keep=V)
    play("show what is gone", "GET", one)


def tags(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/v2.0/{resource_type}/{resource_id}/tags"
    scene.ids["resource_type"] = "networks"
    scene.let("resource_id", made(scene, "networks", "network", {"name": "inner"})["id"])
    scene.ids["tag"] = "blue"
    play("replace all", "PUT", path, {"tags": ["red", "green"]}, keep=V)
    play("replace by nothing", "PUT", path, {})
    play("add several", "POST", path, {"tags": ["old", "red"]}, keep=V)
    play("add one", "PUT", f"{path}/{{tag}}", keep=V)
    play("list", "GET", path)
    play("look for one", "GET", f"{path}/{{tag}}")
    play("remove one", "DELETE", f"{path}/{{tag}}", keep=V)
    play("look for one that is not there", "GET", f"{path}/{{tag}}")
    play("remove one that is not there", "DELETE", f"{path}/{{tag}}")
    play("remove all", "DELETE", path)


def subnets(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/subnets", "/v2.0/subnets/{subnet_id}"
    own = {"network_id": made(scene, "networks", "network", {"name": "inner"})["id"]}
    body = own | {
        "name": "four",
        "ip_version": 4,
        "cidr": "10.30.0.0/24",
        "gateway_ip": "10.30.0.9",
        "allocation_pools": [{"start": "10.30.0.20", "end": "10.30.0.99"}],
        "dns_nameservers": ["9.9.9.9"],
        "host_routes": [{"destination": "10.1.0.0/16", "nexthop": "10.30.0.8"}],
    }
    new = play("create", "POST", path, {"subnet": body}, keep=V)
    scene.let("subnet_id", new["subnet"]["id"])
    six = own | {"ip_version": 6, "cidr": "fd30::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    play("create an IPv6 one", "POST", path, {"subnet": six})
    several = [own | {"ip_version": 4, "cidr": f"10.3{number}.0.0/24", "gateway_ip": None} for number in (1, 2)]
    play("create several", "POST", path, {"subnets": several})
    play("create one that overlaps", "POST", path, {"subnet": own | {"ip_version": 4, "cidr": "10.30.0.0/25"}})
    outside = body | {"cidr": "10.33.0.0/24", "gateway_ip": None}
    play("create one with a pool outside", "POST", path, {"subnet": outside})
    play("create one of no network", "POST", path, {"subnet": {"ip_version": 4, "cidr": "10.30.0.0/24"}})
    play("list", "GET", f"{path}?ip_version=4&sort_key=cidr&sort_dir=desc")
    play("show", "GET", one)
    changes = {"name": "other", "gateway_ip": None, "enable_dhcp": False, "dns_nameservers": [], "host_routes": []}
    play("update", "PUT", one, {"subnet": changes})
    play("update what stays", "PUT", one, {"subnet": {"cidr": "10.34.0.0/24"}})
    made(scene, "ports", "port", own)
    play("delete what is in use", "DELETE", one)
    scene.api("alice").delete(f"/network/v2.0/ports/{scene.ids['port_id']}")
    play("delete", "DELETE", one)


def address_scopes(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/address-scopes", "/v2.0/address-scopes/{address_scope_id}"
    new = play("create", "POST", path, {"address_scope": {"name": "scope", "ip_version": 4}}, keep=V)
    scene.let("address_scope_id", new["address_scope"]["id"])
    play("create without a name", "POST", path, {"address_scope": {"ip_version": 4}})
    play("list", "GET", path)
    play("show", "GET", one)
    play("update", "PUT", one, {"address_scope": {"name": "other"}})
    pool = {"name": "pool", "prefixes": ["10.64.0.0/16"], "address_scope_id": new["address_scope"]["id"]}
    made(scene, "subnetpools", "subnetpool", pool)
    play("delete what is in use", "DELETE", one)
    scene.api("alice").delete(f"/network/v2.0/subnetpools/{scene.ids['subnetpool_id']}")
    play("delete", "DELETE", one)


def subnetpools(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/subnetpools", "/v2.0/subnetpools/{subnetpool_id}"
    body = {
        "name": "pool",
        "prefixes": ["10.64.0.0/17", "10.64.128.0/17"],
        "default_prefixlen": 26,
        "min_prefixlen": 20,
        "max_prefixlen": 28,
        "default_quota": 4096,
    }
    new = play("create", "POST", path, {"subnetpool": body}, keep=V)
    scene.let("subnetpool_id", new["subnetpool"]["id"])
    play("create with wrong lengths", "POST", path, {"subnetpool": body | {"min_prefixlen": 29}})
    play("list", "GET", path)
    play("show", "GET", one)
    play("update", "PUT", one, {"subnetpool": {"name": "other", "prefixes": ["10.64.0.0/16", "10.66.0.0/16"]}})
    play("update to fewer prefixes", "PUT", one, {"subnetpool": {"prefixes": ["10.64.0.0/17"]}})
    net = made(scene, "networks", "network", {"name": "inner"})["id"]
    taken = {"network_id": net, "ip_version": 4, "subnetpool_id": new["subnetpool"]["id"]}
    made(scene, "subnets", "subnet", taken)
    play("delete what is in use", "DELETE", one)
    play("add prefixes", "PUT", f"{one}/add_prefixes", {"prefixes": ["10.68.0.0/16"]})
    play("remove prefixes", "PUT", f"{one}/remove_prefixes", {"prefixes": ["10.68.0.0/16"]})
    play("remove what is in use", "PUT", f"{one}/remove_prefixes", {"prefixes": ["10.64.0.0/16"]})
    scene.api("alice").delete(f"/network/v2.0/subnets/{scene.ids['subnet_id']}")
    play("delete", "DELETE", one)


def ports(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/ports", "/v2.0/ports/{port_id}"
    net, subnet = network(scene)
    body = {
        "network_id": net,
        "name": "wired",
        "description": "Mine",
        "fixed_ips": [{"subnet_id": subnet, "ip_address": "10.30.0.50"}],
        "mac_address": "02:00:00:00:30:01",
        "allowed_address_pairs": [{"ip_address": "10.30.0.200"}],
        "extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400"}],
        "dns_name": "web",
        "device_id": "box",
        "device_owner": "mine",
    }
    new = play("create", "POST", path, {"port": body}, keep=V)
    scene.let("port_id", new["port"]["id"])
    play("create several", "POST", path, {"ports": [{"network_id": net}, {"network_id": net, "name": "two"}]})
    play("create as an operator", "POST", path, {"port": {"network_id": net, "binding:host_id": "h1"}}, who="operator")
    play("create with an address in use", "POST", path, {"port": {"network_id": net, "fixed_ips": body["fixed_ips"]}})
    elsewhere = {"network_id": net, "fixed_ips": [{"ip_address": "10.31.0.5"}]}
    play("create with an address from elsewhere", "POST", path, {"port": elsewhere})
    play("create on no network", "POST", path, {"port": {"name": "wired"}})
    play("list", "GET", f"{path}?fixed_ips=ip_address%3D10.30.0.50&network_id={{network_id}}")
    play("list for an operator", "GET", f"{path}?name=wired", who="operator")
    play("show", "GET", one)
    play("show to an operator", "GET", one, who="operator")
    changes = {"name": "other", "admin_state_up": False, "fixed_ips": [{"ip_address": "10.30.0.60"}], "dns_name": ""}
    open_to_all = {"security_groups": [], "allowed_address_pairs": [], "port_security_enabled": False}
    play("update", "PUT", one, {"port": changes})
    play("update its security", "PUT", one, {"port": open_to_all})
    play("update what only operators may", "PUT", one, {"port": {"binding:host_id": "h1"}})
    play("update as an operator", "PUT", one, {"port": {"binding:host_id": "h1"}}, who="operator")
    port_bindings(scene)
    play("delete", "DELETE", one)


def port_bindings(scene: Scene) -> None:
    play, path, one = scene.play, "/v2.0/ports/{port_id}/bindings", "/v2.0/ports/{port_id}/bindings/{host}"
    Port.objects.filter(id=scene.ids["port_id"]).update(host="h1", second_host="h2")
    play("list bindings", "GET", path, who="operator")
    play("list bindings to a member", "GET", path)
    scene.let("host", "h2")
    play("activate a binding", "PUT", f"{one}/activate", who="operator")
    scene.let("host", "h1")
    play("activate the active binding", "PUT", f"{one}/activate", who="operator")
    Port.objects.filter(id=scene.ids["port_id"]).update(host="", second_host="")


SCENES = {
    "networks": networks,
    "tags": tags,
    "subnets": subnets,
    "address_scopes": address_scopes,
    "subnetpools": subnetpools,
    "ports": ports,
}
