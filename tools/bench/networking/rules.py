"""Measures the complete path of a rule: from the request over HTTP to the packets that it allows to a guest.

It uses one real host of bin/up, with a guest behind a floating IP and a client in the external network.
"""

from __future__ import annotations

import errno
import socket
import time
from pathlib import Path

from compute_agent.network.kernel import namespace
from tools.bench.cloud import ACTIVE_WITHIN, BenchError, Client, Cloud
from up.data_folder import DataFolder
from up.programs import CHECKOUT
from up.switch import Switch

PAUSE = 0.002
"""Seconds between two attempts."""
TRY = 0.05
"""Seconds within which the guest must answer."""
FIRST_PORT = 2000


def measure(folder: Path, changes: int) -> list[float]:
    """Return the seconds of each change.  Raises BenchError."""
    cloud = Cloud(folder, 0)
    cloud.hosts = 1
    try:
        cloud.up()
        client = Client(cloud)
        address = guest_outside(client)
        world = Switch(DataFolder(cloud.data, CHECKOUT / "var").netns).world
        (group,) = client.call("GET", "/network/v2.0/security-groups?name=default")["security_groups"]
        effect(client, group["id"], world, (address, FIRST_PORT - 1))  # the guest has booted, and all is warm
        found = []
        for number in range(changes):
            time.sleep(1)
            found.append(effect(client, group["id"], world, (address, FIRST_PORT + number)))
        return found
    finally:
        cloud.clean()


def guest_outside(client: Client) -> str:
    """Launch a guest; return its floating IP."""
    server = client.launch("reached")
    deadline = time.monotonic() + ACTIVE_WITHIN
    while client.call("GET", f"/compute/v2.1/servers/{server}")["server"]["status"] != "ACTIVE":
        if time.monotonic() > deadline:
            raise BenchError(client.fault(server))
        time.sleep(0.1)
    (port,) = client.call("GET", f"/network/v2.0/ports?device_id={server}")["ports"]
    (public,) = client.call("GET", "/network/v2.0/networks?router:external=true")["networks"]
    wanted = {"floating_network_id": public["id"], "port_id": port["id"]}
    made = client.call("POST", "/network/v2.0/floatingips", {"floatingip": wanted})
    return str(made["floatingip"]["floating_ip_address"])


def effect(client: Client, group: str, world: str, target: tuple[str, int]) -> float:
    """Open a TCP port for all clients; return the seconds until a packet passes. Raises BenchError."""
    rule = {"security_group_id": group, "direction": "ingress", "protocol": "tcp"}
    rule |= {"port_range_min": target[1], "port_range_max": target[1]}  # type: ignore[dict-item]
    if passes(world, target):
        raise BenchError(f"{target} was open before")
    began = time.perf_counter()
    client.call("POST", "/network/v2.0/security-group-rules", {"security_group_rule": rule})
    while not passes(world, target):
        if time.perf_counter() - began > ACTIVE_WITHIN:
            raise BenchError("a rule has no effect")
        time.sleep(PAUSE)
    return time.perf_counter() - began


def passes(world: str, target: tuple[str, int]) -> bool:
    """Whether the guest answers a new connection from outside; a refused connection is an answer."""
    with namespace.inside(world):
        client = socket.socket()
    with client:
        client.settimeout(TRY)
        try:
            client.connect(target)
        except OSError as error:
            return error.errno == errno.ECONNREFUSED
        return True
