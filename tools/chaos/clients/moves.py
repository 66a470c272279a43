"""The operations of operators that move servers to other hosts, and the maintenance of hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tools.chaos.clients.client import Answer, Client
from tools.chaos.clients.world import World
from tools.chaos.plan import Operation

COMPUTE = "/compute/v2.1"
DRAINS = f"{COMPUTE}/novella-drains"
UNDER_WAY = ("queued", "accepted", "preparing", "pre-migrating", "migrating", "running", "post-migrating")
NOWHERE = "chaos-nowhere"
"""The name of no host."""
MOST_IN_MAINTENANCE = 1
LOOK_EVERY = 0.1
APPEARS_WITHIN = 2.0
"""Seconds in which a client looks for a live migration that it can abort or complete."""


def _migrate(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Migrate a stopped or running server, in every third operation to a named host."""
    body = {"host": _another_host(world, operation, server)} if operation.number % 3 == 0 else None
    return world.operator.call("POST", f"{COMPUTE}/servers/{server}/action", {"migrate": body})


def _migrate_live(world: World, client: Client, operation: Operation, server: str) -> Answer:
    host = _another_host(world, operation, server) if operation.number % 3 == 0 else None
    body = {"host": host, "block_migration": "auto"}
    return world.operator.call("POST", f"{COMPUTE}/servers/{server}/action", {"os-migrateLive": body})


def _evacuate(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Evacuate a server from a host that is powered off. Others are only evacuated to a host that does not exist: the
    guest of a host that does not answer may still run.
    """
    body = {} if _host_of(world, server) in world.off else {"host": NOWHERE}
    return world.operator.call("POST", f"{COMPUTE}/servers/{server}/action", {"evacuate": body})


def _control(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Abort a live migration, or complete it immediately."""
    found = _live_migrations(world)
    until = time.monotonic() + APPEARS_WITHIN
    while not found and time.monotonic() < until:
        time.sleep(LOOK_EVERY)
        found = _live_migrations(world)
    if not found:
        return world.operator.call("GET", f"{COMPUTE}/servers/{server}/migrations")
    one = found[operation.number % len(found)]
    path = f"{COMPUTE}/servers/{one['instance_uuid']}/migrations/{one['id']}"
    if operation.kind == "abort_migration":
        return world.operator.call("DELETE", path)
    return world.operator.call("POST", f"{path}/action", {"force_complete": None})


def _live_migrations(world: World) -> list[Any]:
    answer = world.operator.call("GET", f"{COMPUTE}/os-migrations?migration_type=live-migration")
    return [row for row in answer.body["migrations"] if row["status"] in UNDER_WAY] if answer.accepted else []


def _drain(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Begin the drain of a host, or, while one is in maintenance, end a maintenance."""
    services = _services(world)
    closed = [each for each in services if each["status"] == "disabled"]
    if len(closed) >= MOST_IN_MAINTENANCE:
        return _bring_back(world, operation, closed)
    hosts = sorted(each["host"] for each in services if each["state"] == "up")
    if not hosts:
        return world.operator.call("GET", f"{COMPUTE}/os-services")
    host = hosts[operation.number % len(hosts)]
    if operation.number % 5 == 0:
        return world.operator.call("GET", f"{DRAINS}/plan?host={host}")
    body: dict[str, Any] = {"host": host, "reason": "chaos"}
    if operation.number % 3 == 0:
        body["ways"] = ["cold", "stop"]
    return world.operator.call("POST", DRAINS, {"drain": body})


def _bring_back(world: World, operation: Operation, closed: list[Any]) -> Answer:
    """End the maintenance of a host whose drain has ended, and move its servers back."""
    service = closed[operation.number % len(closed)]
    drains = [each for each in _drains(world) if each["host"] == service["host"]]
    if any(each["finished_at"] is None for each in drains):
        return world.operator.call("GET", f"{DRAINS}/{drains[0]['id']}")
    answer = _change(world, service, status="enabled")
    if answer.accepted and drains:
        return world.operator.call("POST", f"{DRAINS}/{drains[0]['id']}/action", {"return": None})
    return answer


def _change_drain(world: World, client: Client, operation: Operation, server: str) -> Answer:
    """Pause, resume or cancel the drain in progress."""
    found = [each for each in _drains(world) if each["finished_at"] is None]
    if not found:
        return world.operator.call("GET", DRAINS)
    drain = found[operation.number % len(found)]
    action = "resume" if drain["state"] == "paused" else ("pause", "pause", "cancel")[operation.number % 3]
    return world.operator.call("POST", f"{DRAINS}/{drain['id']}/action", {action: None})


SEND: Mapping[str, Callable[[World, Client, Operation, str], Answer]] = {
    "migrate": _migrate,
    "os-migrateLive": _migrate_live,
    "evacuate": _evacuate,
    "abort_migration": _control,
    "complete_migration": _control,
    "drain": _drain,
    "change_drain": _change_drain,
}


# ----- a host dies ----------------------------------------------------------------------------------------------------


def fence(world: World, hosts: list[str]) -> None:
    """Force hosts that are powered off down, so that their servers can be evacuated."""
    world.off |= set(hosts)
    _force(world, hosts, down=True)


def unfence(world: World, hosts: list[str]) -> None:
    """Let the cloud use hosts again."""
    world.off -= set(hosts)
    _force(world, hosts, down=False)


def evacuate_all(world: World, hosts: list[str]) -> str:
    """Evacuate the servers of hosts that are powered off; return a phrase with the number of accepted requests and the
    reason of a refusal.
    """
    asked, accepted, why = 0, 0, ""
    for host in hosts:
        answer = world.operator.call("GET", f"{COMPUTE}/servers/detail?all_tenants=1&host={host}")
        for server in answer.body["servers"] if answer.accepted else []:
            path = f"{COMPUTE}/servers/{server['id']}/action"
            asked += 1
            answer = world.operator.call("POST", path, {"evacuate": {}})
            accepted += answer.accepted
            why = why if answer.accepted else f" ({answer.words})"
    return f"{accepted} of {asked} servers evacuated{why}"


# ----- the end of a run -----------------------------------------------------------------------------------------------


def end_maintenance(world: World) -> None:
    """Continue paused drains, and let all hosts be used again."""
    for drain in _drains(world):
        if drain["state"] == "paused" and drain["finished_at"] is None:
            world.operator.call("POST", f"{DRAINS}/{drain['id']}/action", {"resume": None})
    for service in _services(world):
        _change(world, service, status="enabled", forced_down=False)


def end_resizes(world: World) -> None:
    """Confirm every second server that waits for a confirmation, and revert the others."""
    answer = world.operator.call("GET", f"{COMPUTE}/servers?all_tenants=1&status=VERIFY_RESIZE")
    for number, server in enumerate(answer.body["servers"] if answer.accepted else []):
        action = "revertResize" if number % 2 else "confirmResize"
        world.operator.call("POST", f"{COMPUTE}/servers/{server['id']}/action", {action: None})


# ----- hosts and drains -----------------------------------------------------------------------------------------------


def _force(world: World, hosts: list[str], *, down: bool) -> None:
    for service in _services(world):
        if service["host"] in hosts:
            _change(world, service, forced_down=down)


def _change(world: World, service: Mapping[str, Any], **values: object) -> Answer:
    return world.operator.call("PUT", f"{COMPUTE}/os-services/{service['id']}", dict(values))


def _services(world: World) -> list[Any]:
    answer = world.operator.call("GET", f"{COMPUTE}/os-services?binary=nova-compute")
    return list(answer.body["services"]) if answer.accepted else []


def _drains(world: World) -> list[Any]:
    """Return all drains, newest first."""
    answer = world.operator.call("GET", DRAINS)
    return list(answer.body["drains"]) if answer.accepted else []


def _host_of(world: World, server: str) -> str:
    answer = world.operator.call("GET", f"{COMPUTE}/servers/{server}")
    return str(answer.body["server"].get("OS-EXT-SRV-ATTR:host") or "") if answer.accepted else ""


def _another_host(world: World, operation: Operation, server: str) -> str:
    """Return a host other than the server's, up or not."""
    own = _host_of(world, server)
    hosts = sorted(each["host"] for each in _services(world) if each["host"] != own)
    return hosts[operation.number // 3 % len(hosts)] if hosts else NOWHERE
