"""Routers, floating IPs and their port forwardings, and what makes a network and a router in one go."""

from __future__ import annotations

import pytest

from provisioning.network import services
from tests.samples.recorder import Scene
from tests.samples.scenes.networks import V, made, network


def outside(scene: Scene) -> str:
    """Give the cloud its external network; returns its id."""
    public = services.create_network(scene.people.operator.project_id, "public", external=True, is_default=True)
    subnet = services.create_subnet(public, "203.0.113.0/24", enable_dhcp=False)
    scene.let("public_subnet_id", subnet.id)
    return str(scene.let("public_id", public.id))


def routers(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/routers", "/v2.0/routers/{router_id}"
    net, subnet = network(scene)
    public = outside(scene)
    body = {"name": "way", "description": "Mine", "external_gateway_info": {"network_id": public}}
    new = play("create", "POST", path, {"router": body}, keep=V)
    scene.let("router_id", new["router"]["id"])
    play("create several", "POST", path, {"routers": [{"name": "one"}, {"name": "two", "admin_state_up": False}]})
    inner = {"router": {"external_gateway_info": {"network_id": net}}}
    play("create with a gateway on an inner network", "POST", path, inner)
    play("list", "GET", path)
    play("show", "GET", one)
    play("add an interface", "PUT", f"{one}/add_router_interface", {"subnet_id": subnet}, keep=V)
    play("add it again", "PUT", f"{one}/add_router_interface", {"subnet_id": subnet})
    port = made(scene, "ports", "port", {"network_id": net, "fixed_ips": [{"ip_address": "10.30.0.70"}]})
    play("add an interface by a port", "PUT", f"{one}/add_router_interface", {"port_id": port["id"]})
    play("add no interface", "PUT", f"{one}/add_router_interface", {})
    routes = {"router": {"routes": [{"destination": "10.5.0.0/24", "nexthop": "10.30.0.9"}]}}
    play("add routes", "PUT", f"{one}/add_extraroutes", routes, keep=V)
    beyond = {"router": {"routes": [{"destination": "10.6.0.0/24", "nexthop": "10.99.0.9"}]}}
    play("add routes that lead nowhere", "PUT", f"{one}/add_extraroutes", beyond)
    play("remove what routes need", "PUT", f"{one}/remove_router_interface", {"subnet_id": subnet})
    play("remove routes", "PUT", f"{one}/remove_extraroutes", routes, keep=V)
    play("update", "PUT", one, {"router": {"name": "other", **routes["router"]}})
    play("update to no gateway", "PUT", one, {"router": {"external_gateway_info": {}}})
    snat = {"router": {"external_gateway_info": {"network_id": public, "enable_snat": False}}}
    play("update what only operators may", "PUT", one, snat)
    play("update as an operator", "PUT", one, snat, who="operator")
    play("delete what is in use", "DELETE", one)
    play("remove an interface", "PUT", f"{one}/remove_router_interface", {"subnet_id": subnet}, keep=V)
    play("remove it again", "PUT", f"{one}/remove_router_interface", {"subnet_id": subnet})
    play("delete", "DELETE", one)


def floating_ips(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path, one = scene.play, "/v2.0/floatingips", "/v2.0/floatingips/{floatingip_id}"
    port, public = _routed(scene)
    play("pools", "GET", "/v2.0/floatingip_pools")
    body = {"floating_network_id": public, "port_id": port, "description": "Mine"}
    new = play("create", "POST", path, {"floatingip": body}, keep=V)
    scene.let("floatingip_id", new["floatingip"]["id"])
    play("create without a port", "POST", path, {"floatingip": {"floating_network_id": public}})
    play("create for a port that has one", "POST", path, {"floatingip": body})
    play("create on an inner network", "POST", path, {"floatingip": {"floating_network_id": scene.ids["network_id"]}})
    chosen = {"floating_network_id": public, "floating_ip_address": "203.0.113.77"}
    play("create what only operators may", "POST", path, {"floatingip": chosen})
    play("create as an operator", "POST", path, {"floatingip": chosen}, who="operator")
    play("list", "GET", f"{path}?port_id={{port_id}}")
    play("show", "GET", one)
    play("update", "PUT", one, {"floatingip": {"port_id": None, "description": "Free"}})
    play("delete", "DELETE", one)


def port_forwardings(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/v2.0/floatingips/{floatingip_id}/port_forwardings"
    one = f"{path}/{{port_forwarding_id}}"
    port, public = _routed(scene)
    made(scene, "floatingips", "floatingip", {"floating_network_id": public})
    body = {
        "internal_port_id": port,
        "internal_ip_address": "10.30.0.50",
        "internal_port": 80,
        "external_port": 8080,
        "protocol": "tcp",
        "description": "Web",
    }
    new = play("create", "POST", path, {"port_forwarding": body}, keep=V)
    scene.let("port_forwarding_id", new["port_forwarding"]["id"])
    play("create it again", "POST", path, {"port_forwarding": body})
    several = {name: value for name, value in body.items() if name not in {"internal_port", "external_port"}}
    ranges = several | {"internal_port_range": "90:99", "external_port_range": "9090:9099"}
    play("create for several ports", "POST", path, {"port_forwarding": ranges})
    play("list", "GET", path)
    play("show", "GET", one)
    play("update", "PUT", one, {"port_forwarding": {"internal_port": 81, "description": "Other"}})
    play("show a floating IP with forwardings", "GET", "/v2.0/floatingips/{floatingip_id}")
    play("delete", "DELETE", one, keep=V)
    play("show what is gone", "GET", one)


def _routed(scene: Scene) -> tuple[str, str]:
    """Give alice a port that a router joins with the external network; returns the ids of port and network."""
    net, subnet = network(scene)
    public = outside(scene)
    router = made(scene, "routers", "router", {"external_gateway_info": {"network_id": public}})
    url = f"/network/v2.0/routers/{router['id']}/add_router_interface"
    assert scene.api("alice").put(url, {"subnet_id": subnet}).status_code == 200
    port = made(scene, "ports", "port", {"network_id": net, "fixed_ips": [{"ip_address": "10.30.0.50"}]})
    return str(port["id"]), public


def topology(scene: Scene, patch: pytest.MonkeyPatch) -> None:
    play, path = scene.play, "/v2.0/auto-allocated-topology/{project_id}"
    scene.ids["project_id"] = scene.people.alice.project_id.hex
    play("where there is no external network", "GET", path)
    outside(scene)
    play("look whether it could be made", "GET", f"{path}?fields=dry-run")
    play("make", "GET", path, keep=V)
    play("delete", "DELETE", path)
    scene.ids["project_id"] = scene.people.charlie.project_id.hex
    play("make another's", "GET", path)


SCENES = {
    "routers": routers,
    "floating_ips": floating_ips,
    "port_forwardings": port_forwardings,
    "topology": topology,
}
