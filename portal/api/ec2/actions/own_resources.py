"""The resources that can be tagged: for each kind, the rows that the caller's project owns."""

import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

from portal.api.ec2 import names
from portal.api.ec2.actions.images.shapes import own_images
from portal.api.ec2.actions.instances.related import visible_rows
from portal.api.ec2.names import Kind, Rows, with_keys
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.selectors.server_groups import own_server_groups
from provisioning.ec2.ids import resource_of
from provisioning.network import selectors as network
from provisioning.network.records.owners import OF_THE_CLOUD
from provisioning.network.selectors.routing import floating_ips_for, routers_for
from provisioning.network.selectors.visibility import own
from provisioning.network.selectors.vpcs import gateway_rows_for, vpc_networks_for, vpc_subnets_for
from provisioning.volumes.selectors.access import visible_snapshots, visible_volumes

OwnRows = Callable[[RequestContext], "Rows[Any]"]

_OWN: Mapping[Kind, OwnRows] = {
    names.ADDRESS: floating_ips_for,
    names.IMAGE: own_images,
    names.INSTANCE: visible_rows,
    names.INTERFACE: lambda context: network.ports_for(context).exclude(OF_THE_CLOUD),
    names.KEY_PAIR: compute.own_key_pairs,
    names.PLACEMENT_GROUP: own_server_groups,
    names.GROUP: lambda context: network.security_groups_for(context).filter(own(context)),
    names.RULE: network.security_group_rules_for,
    names.VOLUME: visible_volumes,
    names.SNAPSHOT: visible_snapshots,
    names.GATEWAY: gateway_rows_for,
    names.ACL: lambda context: vpc_networks_for(context).filter(own(context)),
    names.ROUTE_TABLE: lambda context: routers_for(context).filter(own(context)),
    names.SUBNET: lambda context: vpc_subnets_for(context).filter(own(context)),
    names.VPC: lambda context: vpc_networks_for(context).filter(own(context)),
}
OWN_ROWS: Mapping[str, OwnRows] = {kind.prefix: rows for kind, rows in _OWN.items()}
"""Prefix of the ids → the rows that the caller's project owns. Resources of other kinds cannot be tagged."""


def among(context: RequestContext, prefix: str, resources: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return those of the resources that the caller's project owns."""
    rows = with_keys(OWN_ROWS[prefix](context), resources)
    return {resource_of(key) for source in rows for key in source.values_list("pk", flat=True)}
