"""Networks, subnets, subnet pools, ports and RBAC policies, read-only."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from portal.ops.admin.columns import StatusFilter, ValuesFilter, column, link_to, rows_link
from portal.ops.admin.owned import NAMED_FIRST, Owned, ReadableInline
from provisioning.common.values.ids import read_id
from provisioning.compute.models import Instance
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.network.models import (
    AddressScope,
    FixedIP,
    FloatingIP,
    Network,
    Port,
    RbacPolicy,
    Router,
    Subnet,
    SubnetPool,
)
from provisioning.network.records.owners import COMPUTE, FLOATING_IP, ROUTER_GATEWAY, ROUTER_INTERFACE

DEVICES: tuple[tuple[type[Model], str, tuple[str, ...]], ...] = (
    (Instance, "instance", (COMPUTE,)),
    (Router, "router", (ROUTER_INTERFACE, ROUTER_GATEWAY)),
    (FloatingIP, "floating IP", (FLOATING_IP,)),
)
"""Devices of ports: model, label, and the device owners of their ports."""


def ports_link(field: str, row: Any, many: int) -> SafeString:
    """Return a link to the ports with this record in a field, with their number."""
    return rows_link(Port, f"{field}__id__exact", row.pk, many)


def _devices(ports: Sequence[Port]) -> dict[Any, Model]:
    """Return port → the device that uses it."""
    result: dict[Any, Model] = {}
    for model, _, owners in DEVICES:
        used = {port.pk: port.device_id for port in ports if port.device_id and port.device_owner.startswith(owners)}
        devices = model._default_manager.in_bulk(set(used.values()))
        result |= {port: devices[device] for port, device in used.items() if device in devices}
    return result


def _device(port: Port, device: Model | None) -> str | SafeString:
    word = next((word for _, word, owners in DEVICES if port.device_owner.startswith(owners)), "")
    if device is not None:
        return link_to(device, f"{word} {device}")
    return port.device_owner or port.device_text or "-"


def _targets(policies: Sequence[RbacPolicy]) -> dict[Any, str]:
    """Return policy → the project that it shares with."""
    ids = {policy.pk: read_id(policy.target_project) for policy in policies}
    projects = projects_by_id({each for each in ids.values() if each})
    names = {policy.pk: policy.target_project for policy in policies}
    return {key: str(projects.get(each) or names[key]) if each else "every project" for key, each in ids.items()}


class OfNetworking(Owned):
    """Records of networking."""

    rules = {"view": "novella:get_networks:all_projects"}

    on_network = column("network", "network", ordering="network__name", link=True)


class SubnetInline(ReadableInline):
    """The subnets of a network."""

    model = Subnet
    fields = ("name", "cidr", "gateway_ip", "enable_dhcp", "dns_nameservers", "allocation_pools")


class AddressInline(ReadableInline):
    """The addresses of a port."""

    model = FixedIP
    fields = ("address", "subnet")

    def get_queryset(self, request: HttpRequest) -> QuerySet[FixedIP]:
        rows: QuerySet[FixedIP] = super().get_queryset(request)
        return rows.select_related("subnet")


@admin.register(Network)
class NetworkAdmin(OfNetworking):
    list_display = (
        "__str__", "state", "project", "ranges", "kind", "segmentation_id", "shared", "external", "many_ports",
    )  # fmt: skip
    ordering = NAMED_FIRST
    search_help_text = "Name, id, range, bridge, or project"
    list_filter = (("status", StatusFilter), "network_type", "shared", "external", "admin_state_up")
    search_fields = ("name", "id__startswith", "bridge", "project_id__startswith", "subnets__cidr")
    inlines = (SubnetInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Network]:
        rows: QuerySet[Network] = super().get_queryset(request)
        return rows.annotate(many=Count("ports", distinct=True)).prefetch_related("subnets")

    ranges = column("ranges", lambda network: ", ".join(subnet.cidr for subnet in network.subnets.all()) or "-")
    kind = column(
        "type", lambda network: f"{network.network_type} {network.physical_network}".strip(), ordering="network_type"
    )

    many_ports = column("ports", lambda network: ports_link("network", network, network.many), ordering="many")


@admin.register(Subnet)
class SubnetAdmin(OfNetworking):
    list_display = (
        "__str__", "cidr", "on_network", "project", "gateway_ip", "enable_dhcp", "ipv6_ra_mode", "subnet_pool",
    )  # fmt: skip
    ordering = NAMED_FIRST
    search_help_text = "Name, id, range, gateway, network, or project"
    list_filter = ("ip_version", "enable_dhcp", ("ipv6_ra_mode", ValuesFilter))
    list_select_related = ("network", "subnet_pool")
    search_fields = ("name", "cidr", "gateway_ip", "id__startswith", "network__name", "project_id__startswith")


@admin.register(SubnetPool)
class SubnetPoolAdmin(OfNetworking):
    list_display = ("__str__", "project", "prefixes", "default_prefixlen", "address_scope", "shared", "is_default")
    ordering = NAMED_FIRST
    list_filter = ("ip_version", "shared", "is_default")
    list_select_related = ("address_scope",)
    search_fields = ("name", "id__startswith", "project_id__startswith")


@admin.register(AddressScope)
class AddressScopeAdmin(OfNetworking):
    """The address scopes of subnet pools."""

    list_display = ("__str__", "project", "ip_version", "shared", "created_at")
    ordering = NAMED_FIRST
    list_filter = ("ip_version", "shared")
    search_fields = ("name", "id__startswith", "project_id__startswith")


@admin.register(Port)
class PortAdmin(OfNetworking):
    """The ports, including ports of the cloud itself."""

    list_display = (
        "mac_address", "name", "addresses", "on_network", "state", "project", "owner", "host",
    )  # fmt: skip
    narrowed_by = ("network", "security_groups")
    search_help_text = "Name, address, MAC address, id, network, id of the instance or router, or project"
    list_filter = (("status", StatusFilter), ("device_owner", ValuesFilter), "port_security_enabled")
    list_select_related = ("network",)
    ordering = ("-created_at", "id")
    search_fields = (
        "name", "mac_address", "id__startswith", "device_id__startswith", "fixed_ips__address", "network__name",
        "project_id__startswith",
    )  # fmt: skip
    inlines = (AddressInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Port]:
        rows: QuerySet[Port] = super().get_queryset(request)
        return rows.prefetch_related("fixed_ips")

    addresses = column("addresses", lambda port: ", ".join(sorted(row.address for row in port.fixed_ips.all())))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        hidden = {"device_id", "device_text", "device_owner", "device_index"}
        fields = [name for name in super().get_fields(request, obj) if name not in hidden]
        at = fields.index("network") + 1
        return [*fields[:at], "addresses", "owner", *fields[at:]]

    owner = column("used by", _device, read=_devices, ordering="device_owner")


@admin.register(RbacPolicy)
class RbacPolicyAdmin(OfNetworking):
    """The policies that share records with other projects."""

    list_display = ("__str__", "object_type", "object_id", "project", "action", "shared_with")
    ordering = ("object_type", "object_id", "target_project")
    list_filter = ("object_type", "action")
    search_fields = ("object_id__startswith", "project_id__startswith", "target_project", "id__startswith")

    shared_with = column("shared with", read=_targets, ordering="target_project")
