"""Routers, floating IPs and port forwardings, read-only."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from portal.ops.admin.columns import StatusFilter, ValuesFilter, column, link_to
from portal.ops.admin.network.networks import OfNetworking
from portal.ops.admin.owned import NAMED_FIRST, ReadableInline
from provisioning.compute.models import Instance
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, PortForwarding, Router
from provisioning.network.records.owners import ROUTER_INTERFACE


class ForwardingInline(ReadableInline):
    """The port forwardings of a floating IP."""

    model = PortForwarding
    fields = (
        "protocol", "external_port_first", "external_port_last", "internal_ip_address", "internal_port_first",
        "internal_port_last", "description",
    )  # fmt: skip


def _networks(routers: Sequence[Router]) -> dict[Any, list[Network]]:
    """Return router → the networks that it connects."""
    interfaces = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__in=[row.id for row in routers])
    ports = list(interfaces.select_related("network").order_by("network__name", "id"))
    return {row.pk: list(dict.fromkeys(port.network for port in ports if port.device_id == row.id)) for row in routers}


def _outer_addresses(routers: Sequence[Router]) -> dict[Any, list[str]]:
    """Return router → the addresses of its gateway."""
    addresses = defaultdict(list)
    gateways = [row.gateway_port_id for row in routers if row.gateway_port_id]
    rows = FixedIP.objects.filter(port__in=gateways).order_by("id").values_list("port_id", "address")
    for port, address in rows:
        addresses[port].append(address)
    return {row.pk: addresses[row.gateway_port_id] for row in routers if row.gateway_port_id}


def _gateway(router: Router, addresses: Sequence[str]) -> str | SafeString:
    if router.gateway_port is None:
        return "-"
    return format_html("{} ({})", link_to(router.gateway_port.network), ", ".join(addresses))


def _servers(floating: Sequence[FloatingIP]) -> dict[Any, Instance]:
    """Return floating IP → the instance with which it is associated."""
    devices = {row.pk: row.fixed_port.device_id for row in floating if row.fixed_port}
    servers = Instance.objects.in_bulk({each for each in devices.values() if each})
    return {row: servers[device] for row, device in devices.items() if device in servers}


def _association(floating: FloatingIP, server: Instance | None) -> str | SafeString:
    if floating.fixed_port is None:
        return "-"
    shown = link_to(server) if server else link_to(floating.fixed_port, "port")
    return format_html("{} ({})", shown, floating.fixed_address)


@admin.register(Router)
class RouterAdmin(OfNetworking):
    list_display = ("__str__", "state", "project", "joins", "leads_to", "enable_snat", "host", "created_at")
    ordering = NAMED_FIRST
    list_filter = (("status", StatusFilter), "admin_state_up", "enable_snat", ("host", ValuesFilter))
    list_select_related = ("gateway_port__network",)
    search_fields = ("name", "id__startswith", "project_id__startswith", "gateway_port__fixed_ips__address")
    search_help_text = "Name, id, outer address, or project"
    fields = (
        "name", "id", "state", "error", "project", "joins", "leads_to", "enable_snat", "routes", "host",
        "admin_state_up", "description", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("state", "project", "joins", "leads_to")

    joins = column("joins", read=_networks, link=True)
    leads_to = column("gateway", _gateway, read=_outer_addresses)


@admin.register(FloatingIP)
class FloatingIPAdmin(OfNetworking):
    list_display = ("address", "on_network", "state", "project", "leads_to", "by", "created_at")
    ordering = ("address",)
    list_filter = (("status", StatusFilter),)
    list_select_related = ("network", "router", "fixed_port")
    search_help_text = "External or fixed address, id, network, DNS name, id of the instance, or project"
    fields = (
        "address", "id", "state", "error", "project", "on_network", "leads_to", "by", "dns_name", "dns_domain",
        "description", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("state", "project", "on_network", "leads_to", "by")
    search_fields = (
        "address", "fixed_address", "id__startswith", "project_id__startswith", "fixed_port__device_id__startswith",
        "network__name", "dns_name",
    )  # fmt: skip
    inlines = (ForwardingInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[FloatingIP]:
        rows: QuerySet[FloatingIP] = super().get_queryset(request)
        return rows.prefetch_related("port_forwardings")

    leads_to = column("associated with", _association, read=_servers, ordering="fixed_address")
    by = column("router", "router", ordering="router__name", link=True)


@admin.register(PortForwarding)
class PortForwardingAdmin(OfNetworking):
    """The port forwardings of floating IPs."""

    list_display = ("floating_ip", "protocol", "external", "internal_ip_address", "internal", "description")
    ordering = ("floating_ip__address", "protocol", "external_port_first")
    list_filter = ("protocol",)
    list_select_related = ("floating_ip",)
    search_fields = ("floating_ip__address", "internal_ip_address", "id__startswith", "=external_port_first")

    external = column(
        "external ports",
        lambda row: _range(row.external_port_first, row.external_port_last),
        ordering="external_port_first",
    )
    internal = column(
        "internal ports",
        lambda row: _range(row.internal_port_first, row.internal_port_last),
        ordering="internal_port_first",
    )


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
