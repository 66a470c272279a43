"""The API calls of a launch, for *Copy as*."""

import base64
from collections.abc import Sequence
from typing import Any

from portal.dashboard.copy_as.calls import Call, Result, Secret
from portal.dashboard.copy_as.kinds import compute, network
from provisioning.common.context import RequestContext
from provisioning.compute.launch.checks import MAX_COUNT
from provisioning.compute.launch.request import DiskRequest, LaunchRequest
from provisioning.compute.records.names import disk_name, numbered
from provisioning.launches.plans.openings import existing_opening, flows_of, name_of
from provisioning.launches.plans.plan import PLACEHOLDER, LaunchPlan
from provisioning.launches.services.snippets import texts_of
from provisioning.network.records.flows import Flow
from provisioning.network.selectors import security_groups_to_choose
from provisioning.network.selectors.ways_out import reachable_external_networks

LEASE = "The lease is not part of these lines: the dashboard sets it."
NAMES = "These lines do not name the data disks, which the dashboard calls:"
MOUNTS = "The data disks are not formatted and mounted by these lines."
FLOATING_IP = "The port and the floating IP are kept when the server is deleted."


def calls_of(context: RequestContext, plan: LaunchPlan) -> Sequence[Call]:
    """Return the calls that launch the servers of a plan, with their security group, ports and floating IPs.

    Raises the errors of snippets that do not exist.
    """
    request = plan.request(idempotency_key="", configs=texts_of(context, plan.snippets))
    opened, groups = _opening(context, plan)
    names = _names_of(context, groups)
    calls = [*opened]
    values = _values(request, groups)
    for index in range(min(plan.count, MAX_COUNT)):
        name = numbered(plan.name, index, plan.count, placeholder=PLACEHOLDER)
        networks: list[dict[str, Any]] = [{"uuid": each} for each in plan.networks]
        if (
            plan.reachable
            and networks
            and (outside := reachable_external_networks(context, [{"network_id": plan.networks[0]}]))
        ):
            port = Call(network.PORT, {"name": name, "network_id": plan.networks[0], "security_groups": groups})
            address = {"network_id": str(outside[0].id), "network_name": outside[0].name, "port_id": Result(port)}
            calls += [port, Call(network.FLOATING_IP, address)]
            networks[0] = {"port": Result(port)}
        password = Secret("password") if plan.needs_password else None
        # The groups of a server are those of its ports, which Terraform reads by name.
        by_name = names if any("uuid" in each for each in networks) else []
        own = {
            "security_group_names": by_name,
            "name": name,
            "networks": networks,
            "no_network": not networks or None,
            "password": password,
        }
        calls.append(Call(compute.SERVER, {**values, **own}, _notes(plan, request, name, index)))
    return calls


def _opening(context: RequestContext, plan: LaunchPlan) -> tuple[list[Call], list[Any]]:
    """Return the calls that create the group of the openings, and the ids of all groups of the servers."""
    if not plan.openings or not plan.networks:
        return [], list(plan.security_groups)
    usual = [each for each in security_groups_to_choose(context) if each.name == "default"]
    groups: list[Any] = [*plan.security_groups] or [str(each.id) for each in usual]
    if there := existing_opening(context, plan.openings):
        return [], [*groups, str(there.id)]
    group = Call(network.SECURITY_GROUP, {"name": name_of(plan.openings)})
    rules = [Call(network.RULE, _rule(flow, group)) for flow in flows_of(plan.openings)]
    return [group, *rules], [*groups, Result(group)]


def _names_of(context: RequestContext, groups: Sequence[Any]) -> list[Any]:
    """Return the names of security groups."""
    known = {str(each.id): each.name for each in security_groups_to_choose(context)} if groups else {}
    return [Result(each.of, "name") if isinstance(each, Result) else known.get(each, each) for each in groups]


def _rule(flow: Flow, group: Call) -> dict[str, Any]:
    return network.rule_values(
        {
            "direction": flow.direction,
            "ethertype": flow.ethertype,
            "protocol": flow.protocol,
            "port_range_min": flow.port_min,
            "port_range_max": flow.port_max,
            "remote_ip_prefix": flow.prefix,
            "security_group_id": Result(group),
        }
    )


def _values(request: LaunchRequest, groups: Sequence[Any]) -> dict[str, Any]:
    """Return the values that all servers of a request share."""
    text = base64.b64decode(request.user_data).decode(errors="replace") if request.user_data else ""
    return {
        "image_id": request.image_id,
        "flavor_id": request.flavor_ref,
        "key_name": request.key_name,
        "security_groups": groups,
        "user_data": text,
        "metadata": dict(request.metadata),
        "tags": list(request.tags),
        "availability_zone": request.availability_zone,
        "server_group": request.scheduler_hints.get("group"),
        "config_drive": request.config_drive,
        "description": request.description,
        **_disks(request),
    }


def _disks(request: LaunchRequest) -> dict[str, Any]:
    root = next((disk for disk in request.disks if disk.boot_index == 0), None)
    devices = [_device(disk) for disk in request.disks]
    if root is None:
        local = {"source_type": "image", "destination_type": "local", "boot_index": 0, "uuid": request.image_id}
        devices = [{**local, "delete_on_termination": True}, *devices] if devices else []
    result: dict[str, Any] = {"devices": devices, "more_disks": len(request.disks) - bool(root)}
    if root is not None:
        result |= {f"boot_{root.source_type}": root.source_id, "terminate_volume": root.delete_on_termination}
        result |= {"boot_from_volume": True, "volume_size": root.size} if root.source_type == "image" else {}
    return result


def _device(disk: DiskRequest) -> dict[str, Any]:
    result = {
        "source_type": disk.source_type,
        "destination_type": disk.destination_type,
        "uuid": disk.source_id,
        "volume_size": disk.size,
        "boot_index": disk.boot_index if disk.boot_index is not None else -1,
        "delete_on_termination": disk.delete_on_termination,
    }
    return {name: value for name, value in result.items() if value is not None}


def _notes(plan: LaunchPlan, request: LaunchRequest, name: str, index: int) -> list[str]:
    notes = [LEASE] if plan.lease_days else []
    disks = [
        disk_name(disk.volume_name, name, index, plan.count, placeholder=PLACEHOLDER)
        for disk in request.disks
        if disk.volume_name
    ]
    notes += [f"{NAMES} {', '.join(disks)}"] if disks else []
    notes += [MOUNTS] if any(disk.mount for disk in plan.disks) else []
    return notes + ([FLOATING_IP] if plan.reachable else [])
