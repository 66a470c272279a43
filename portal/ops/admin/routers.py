"""Routers, floating IPs and port forwardings, read-only."""

from typing import Any

from django.contrib import admin
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from portal.ops.admin.base import ValuesFilter, column, link_to
from portal.ops.admin.networks import OfNetworking
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


@admin.register(Router)
class RouterAdmin(OfNetworking):
    list_display = ("__str__", "state", "project", "joins", "leads_to", "enable_snat", "host", "created_at")
    ordering = NAMED_FIRST
    list_filter = ("status", "admin_state_up", "enable_snat", ("host", ValuesFilter))
    list_select_related = ("gateway_port__network",)
    search_fields = ("name", "id__startswith", "project_id__startswith", "gateway_port__fixed_ips__address")
    search_help_text = "Name, id, outer address, or project"
    fields = (
        "name", "id", "state", "error", "project", "joins", "leads_to", "enable_snat", "routes", "host",
        "admin_state_up", "description", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = ("state", "project", "joins", "leads_to")

    def complete(self, rows: list[Any]) -> None:
        super().complete(rows)
        ports = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__in=[row.id for row in rows])
        legs = list(ports.select_related("network").order_by("network__name", "id"))
        gateways = [row.gateway_port_id for row in rows if row.gateway_port_id]
        outer = FixedIP.objects.filter(port__in=gateways).order_by("id").values_list("port_id", "address")
        addresses: dict[Any, list[str]] = {}
        for port, address in outer:
            addresses.setdefault(port, []).append(address)
        for row in rows:
            row.shown_networks = list(dict.fromkeys(leg.network for leg in legs if leg.device_id == row.id))
            row.shown_addresses = addresses.get(row.gateway_port_id, [])

    @admin.display(description="joins")
    def joins(self, router: Any) -> str | SafeString:
        if not hasattr(router, "shown_networks"):
            self.complete([router])
        return format_html_join(", ", "{}", ((link_to(network),) for network in router.shown_networks)) or "-"

    @admin.display(description="associated with")
    def leads_to(self, router: Any) -> str | SafeString:
        if not hasattr(router, "shown_addresses"):
            self.complete([router])
        network: Network | None = router.gateway_port.network if router.gateway_port else None
        addresses = ", ".join(router.shown_addresses)
        return format_html("{} ({})", link_to(network), addresses) if network else "-"


@admin.register(FloatingIP)
class FloatingIPAdmin(OfNetworking):
    list_display = ("address", "on_network", "state", "project", "leads_to", "by", "created_at")
    ordering = ("address",)
    list_filter = ("status",)
    list_select_related = ("network", "router", "fixed_port")
    search_help_text = "Address outside or inside, id, network, DNS name, id of the instance, or project"
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

    def complete(self, rows: list[Any]) -> None:
        """Read the instances with which the floating IPs are associated."""
        super().complete(rows)
        found = Instance.objects.in_bulk({row.fixed_port.device_id for row in rows if row.fixed_port})
        for row in rows:
            row.shown_instance = found.get(row.fixed_port.device_id) if row.fixed_port else None

    @admin.display(description="associated with", ordering="fixed_address")
    def leads_to(self, floating: Any) -> str | SafeString:
        if not hasattr(floating, "shown_instance"):
            self.complete([floating])
        if floating.fixed_port is None:
            return "-"
        where = floating.shown_instance
        shown = link_to(where) if where else link_to(floating.fixed_port, "port")
        return format_html("{} ({})", shown, floating.fixed_address)

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
