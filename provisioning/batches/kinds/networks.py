"""Batches of networks, routers, floating IPs and security groups."""

from collections.abc import Callable, Sequence
from typing import Any

from provisioning.batches.kinds.base import among, deletion, kind_of_project, owners_of, read_ids
from provisioning.batches.kinds.declaration import Kind, Task
from provisioning.common.context import RequestContext
from provisioning.network import selectors as network
from provisioning.network import services as network_services
from provisioning.network.selectors import routing, uses
from provisioning.network.services.security.security_groups import DEFAULT_NAME


def _of_network(service: Callable[[Any], object]) -> Callable[[Task], object]:
    return lambda task: service(task.record)


def _groups_to_keep(_: RequestContext, records: Sequence[Any]) -> dict[Any, str]:
    default = {record.pk: "a default group" for record in records if record.name == DEFAULT_NAME}
    return dict.fromkeys(uses.security_groups_in_use([record.pk for record in records]), "in use") | default


FLOATING_IPS = Kind(
    "floating_ips",
    "floating IP",
    "floating IPs",
    lambda context, ids: routing.floating_ips_for(context).filter(pk__in=read_ids(ids)),
    (
        deletion(
            "delete_floatingip",
            "The addresses may be given to other projects. Instances can no longer be reached at them.",
            lambda task: network_services.delete_floating_ip(task.record, with_forwardings=True),
            "Release",
        ),
    ),
    name_of=lambda record: str(record.address),
    owners=owners_of,
)
NETWORKS = kind_of_project(
    "networks",
    "network",
    "networks",
    network.networks_for,
    deletion(
        "delete_network",
        "Their subnets are deleted with them. Networks in use are not deleted.",
        _of_network(network_services.delete_network),
        refusals=among("in use", uses.networks_in_use),
    ),
)
ROUTERS = kind_of_project(
    "routers",
    "router",
    "routers",
    routing.routers_for,
    deletion(
        "delete_router",
        "Routers with interfaces are not deleted.",
        _of_network(network_services.delete_router),
        refusals=among("connected to networks", uses.connected_routers),
    ),
)
SECURITY_GROUPS = kind_of_project(
    "security_groups",
    "security group",
    "security groups",
    network.security_groups_for,
    deletion(
        "delete_security_group",
        "Rules of other groups that refer to them are deleted, too. Groups in use are not deleted.",
        _of_network(network_services.delete_security_group),
        refusals=_groups_to_keep,
    ),
)
