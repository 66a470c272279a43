"""The operations of clients on networks, routers, floating IPs and security groups, and the deletion of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tools.chaos.clients.client import Answer, Client
from tools.chaos.clients.world import World
from tools.chaos.plan import Operation

NETWORK = "/network/v2.0"
COMPUTE = "/compute/v2.1"
RANGES = 250
"""The number of subnet ranges that the operations choose from. The ranges from this number on are for networks that are
created before packets are sent.
"""
PREFIX = "chaos-net-"
"""The prefix of the names of the projects' networks."""
ROUTER = "chaos"
"""The name of each project's router."""
MOST_NETWORKS, MOST_FLOATING, MOST_RULES = 3, 4, 6
"""Maximum numbers of networks, floating IPs and rules of a project: at the limit, an operation changes or deletes one
instead of creating one.
"""
FIRST_PORT = 20_000
"""The lowest port that a rule of the run opens."""
OURS = "chaos"
"""The description of the run's rules, and the name of the additional security group of each project."""
ACCEPTED_WITHIN = 60.0
"""Seconds for which a call that is required before packets are sent is repeated: a busy cloud may refuse it at first.
"""
SOME = "10.20.0.0/24"
"""The remote range of rules that do not allow all sources: the shared network of a new cloud."""


def _floating_ip(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Associate a new floating IP, or a floating IP of another server, with the server; or disassociate or release a
    floating IP.
    """
    ports = _listed(client, f"ports?device_id={server}")
    found = _listed(client, "floatingips")
    port = _pick(ports, operation)
    if len(found) < MOST_FLOATING:
        leading = {"port_id": port["id"]} if port else {}
        body = {"floatingip": {"floating_network_id": world.external, **leading}}
        return client.call("POST", f"{NETWORK}/floatingips", body)
    path = f"{NETWORK}/floatingips/{_pick(found, operation)['id']}"
    if operation.number % 5 == 0:
        return client.call("DELETE", path)
    wanted = port["id"] if port and operation.number % 5 != 1 else None
    return client.call("PUT", path, {"floatingip": {"port_id": wanted}})


def _port_forwarding(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Forward a port of a floating IP to the server, or delete a port forwarding."""
    free = [each for each in _listed(client, "floatingips") if each["port_id"] is None]
    ports = _listed(client, f"ports?device_id={server}")
    if not free or not ports or not ports[0]["fixed_ips"]:
        return client.call("GET", f"{NETWORK}/floatingips")
    path = f"{NETWORK}/floatingips/{_pick(free, operation)['id']}/port_forwardings"
    there = client.call("GET", path)
    if there.accepted and len(there.body["port_forwardings"]) > 2:
        return client.call("DELETE", f"{path}/{_pick(there.body['port_forwardings'], operation)['id']}")
    port, opened = ports[0], [each["port_range_min"] for each in _own_rules(client) if each["protocol"] == "tcp"]
    forwarding = {
        "protocol": "tcp", "external_port": FIRST_PORT + operation.number, "internal_port": [*opened, 22][0],
        "internal_port_id": port["id"], "internal_ip_address": port["fixed_ips"][0]["ip_address"],
    }  # fmt: skip
    return client.call("POST", path, {"port_forwarding": forwarding})


def _rule(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Add a rule to one of the project's groups, for pings or for a port, with all sources, a range or a group; or
    delete a rule.
    """
    groups = _listed(client, "security-groups")
    rules = _own_rules(client)
    if len(rules) >= MOST_RULES:
        return client.call("DELETE", f"{NETWORK}/security-group-rules/{_pick(rules, operation)['id']}")
    if not groups:
        return client.call("GET", f"{NETWORK}/security-groups")
    group, port = _pick(groups, operation)["id"], FIRST_PORT + operation.number
    rule = {"security_group_id": group, "direction": "ingress", "description": OURS}
    if operation.number % 5 == 0:
        rule |= {"protocol": "icmp"}
    else:
        rule |= {"protocol": "tcp", "port_range_min": port, "port_range_max": port + operation.number % 3}
        rule |= ({}, {}, {"remote_ip_prefix": SOME}, {"remote_group_id": group}, {})[operation.number % 5]
    return client.call("POST", f"{NETWORK}/security-group-rules", {"security_group_rule": rule})


def _regroup(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Change the security groups of one of the server's interfaces, also to none; in every seventh operation disable
    its port security.
    """
    port = _pick(_listed(client, f"ports?device_id={server}"), operation)
    groups = {each["name"]: each["id"] for each in _listed(client, "security-groups")}
    if OURS not in groups:
        return client.call("POST", f"{NETWORK}/security-groups", {"security_group": {"name": OURS}})
    if port is None or "default" not in groups:
        return client.call("GET", f"{NETWORK}/security-groups")
    default, ours = groups["default"], groups[OURS]
    into = ([default], [ours], [default, ours], [default], [])[operation.number % 5]
    changes = {"port_security_enabled": operation.number % 7 != 0, "security_groups": into}
    if not changes["port_security_enabled"]:
        changes["security_groups"] = []
    return client.call("PUT", f"{NETWORK}/ports/{port['id']}", {"port": changes})


def _own_network(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Attach an interface on one of the project's networks to the server; create the network if the project has too
    few.
    """
    found = _own_networks(client)
    if len(found) >= MOST_NETWORKS:
        return _plug(client, server, _pick(found, operation)["id"])
    answer = _new_network(client, world.routers[operation.project], operation.number % RANGES)
    return _plug(client, server, answer.body["subnet"]["network_id"]) if answer.accepted else answer


def _new_network(client: Client, router: str, number: int) -> Answer:
    """Create a network with subnet 10.77.``number``.0/24, and connect it to a router. Returns the answer to the
    creation of the subnet, or the first refusal.
    """
    made = client.call("POST", f"{NETWORK}/networks", {"network": {"name": f"{PREFIX}{number}"}})
    if not made.accepted:
        return made
    network = made.body["network"]["id"]
    subnet = {"network_id": network, "ip_version": 4, "cidr": f"10.77.{number}.0/24"}
    answer = client.call("POST", f"{NETWORK}/subnets", {"subnet": subnet})
    if not answer.accepted:
        return answer
    leg = {"subnet_id": answer.body["subnet"]["id"]}
    joined = client.call("PUT", f"{NETWORK}/routers/{router}/add_router_interface", leg)
    return answer if joined.accepted else joined


def _plug(client: Client, server: str, network: str) -> Answer:
    body = {"interfaceAttachment": {"net_id": network}}
    return client.call("POST", f"{COMPUTE}/servers/{server}/os-interface", body)


def _drop_network(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Delete a network of the project. The cloud refuses the request if the network is in use."""
    network = _pick(_own_networks(client), operation)
    if network is None:
        return client.call("GET", f"{NETWORK}/networks")
    _leave(client, world.routers[operation.project], network["id"])
    return client.call("DELETE", f"{NETWORK}/networks/{network['id']}")


def _router(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Enable or disable the project's router, or set or remove its external network."""
    path = f"{NETWORK}/routers/{world.routers[operation.project]}"
    changes: dict[str, Any] = {"admin_state_up": operation.number % 4 != 0}
    if operation.number % 3 == 0:
        changes = {"external_gateway_info": {} if operation.number % 2 else {"network_id": world.external}}
    return client.call("PUT", path, {"router": changes})


SEND: Mapping[str, Callable[[World, Client, Operation, str], Answer]] = {
    "floating_ip": _floating_ip,
    "port_forwarding": _port_forwarding,
    "rule": _rule,
    "regroup": _regroup,
    "own_network": _own_network,
    "drop_network": _drop_network,
    "router": _router,
}


def associate_floating_ips(world: World) -> World:
    """Associate the unassociated floating IPs of each project with its running servers; a project without a floating IP
    gets one.
    """
    for client in world.clients:
        active = _listed(client, f"{COMPUTE}/servers?status=ACTIVE")
        ports = [port for server in active for port in _listed(client, f"ports?device_id={server['id']}")]
        found = _listed(client, "floatingips")
        if not found:
            body = {"floatingip": {"floating_network_id": world.external}}
            made = _repeat(partial(client.call, "POST", f"{NETWORK}/floatingips", body))
            found = [made.body["floatingip"]] if made.accepted else []
        taken = {each["port_id"] for each in found}
        free = [port for port in ports if port["id"] not in taken]
        nowhere = [each for each in found if each["port_id"] is None and not each.get("port_forwardings")]
        for floating, port in zip(nowhere, free, strict=False):
            path = f"{NETWORK}/floatingips/{floating['id']}"
            _repeat(partial(client.call, "PUT", path, {"floatingip": {"port_id": port["id"]}}))
    return world


def attach_to_routed_networks(world: World) -> World:
    """Attach running servers of each project to two networks that the project's router connects."""
    for client, router in zip(world.clients, world.routers, strict=True):
        servers = _listed(client, f"{COMPUTE}/servers/detail?status=ACTIVE")
        active = [each["id"] for each in servers]
        free = [each["id"] for each in servers if not each["locked"]]
        if not free:
            continue
        _repeat(partial(client.call, "PUT", f"{NETWORK}/routers/{router}", {"router": {"admin_state_up": True}}))
        legs = {each["network_id"] for each in _listed(client, f"ports?device_id={router}")}
        joined = [each["id"] for each in _own_networks(client) if each["id"] in legs]
        for number in range(RANGES, RANGES + 2 - len(joined)):
            created = _repeat(partial(_new_network, client, router, number))
            joined += [created.body["subnet"]["network_id"]] if created.accepted else []
        for at, network in enumerate(joined[:2]):
            if not any(each["device_id"] in active for each in _listed(client, f"ports?network_id={network}")):
                turn = free[at % len(free) :] + free[: at % len(free)]
                _repeat(*(partial(_plug, client, server, network) for server in turn))
    return world


def _repeat(*calls: Callable[[], Answer]) -> Answer:
    """Call the functions in turn until an answer is accepted or ``ACCEPTED_WITHIN`` has passed. Returns the last
    answer.
    """
    deadline = time.monotonic() + ACCEPTED_WITHIN
    while True:
        for call in calls:
            answer = call()
            if answer.accepted or time.monotonic() > deadline:
                return answer
        time.sleep(1)


def delete_all(world: World) -> World:
    """Delete all network resources that the projects have created; their servers are deleted before."""
    for client, router in zip(world.clients, world.routers, strict=True):
        for floating in _listed(client, "floatingips"):
            client.call("DELETE", f"{NETWORK}/floatingips/{floating['id']}")
        for rule in _own_rules(client):
            client.call("DELETE", f"{NETWORK}/security-group-rules/{rule['id']}")
        for network in _own_networks(client):
            _leave(client, router, network["id"])
            client.call("DELETE", f"{NETWORK}/networks/{network['id']}")
        client.call("DELETE", f"{NETWORK}/routers/{router}")
        for group in _listed(client, f"security-groups?name={OURS}"):
            client.call("DELETE", f"{NETWORK}/security-groups/{group['id']}")
    return world


def _leave(client: Client, router: str, network: str) -> None:
    """Detach a router from a network."""
    for subnet in _listed(client, f"subnets?network_id={network}"):
        client.call("PUT", f"{NETWORK}/routers/{router}/remove_router_interface", {"subnet_id": subnet["id"]})


def _own_networks(client: Client) -> list[Any]:
    return [each for each in _listed(client, "networks") if each["name"].startswith(PREFIX)]


def _own_rules(client: Client) -> list[Any]:
    return [each for each in _listed(client, "security-group-rules") if each["description"] == OURS]


def _listed(client: Client, what: str) -> list[Any]:
    """Return the rows of a list, or nothing if the request fails. ``what`` is a path, or a name below the
    Network API.
    """
    answer = client.call("GET", what if what.startswith("/") else f"{NETWORK}/{what}")
    return list(next(iter(answer.body.values()))) if answer.accepted else []


def _pick(rows: list[Any], operation: Operation) -> Any:
    return rows[operation.number % len(rows)] if rows else None
