"""Networks, ports and security groups: to look at."""

from django.contrib import admin
from django.http import HttpRequest

from portal.ops.admin.base import Readable, TabularInline
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup, SecurityGroupRule, Subnet


class ReadableInline(TabularInline):
    """Rows below a record, to look at."""

    extra = 0
    can_delete = False
    show_change_link = False

    def has_add_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return False


class SubnetInline(ReadableInline):
    """The ranges of a network."""

    model = Subnet
    fields = ("name", "cidr", "gateway_ip", "enable_dhcp", "dns_nameservers", "allocation_pools")


class RuleInline(ReadableInline):
    """The flows a group allows."""

    model = SecurityGroupRule
    fk_name = "group"
    fields = (
        "direction",
        "ethertype",
        "protocol",
        "port_range_min",
        "port_range_max",
        "remote_ip_prefix",
        "remote_group",
    )


class AddressInline(ReadableInline):
    """The addresses of a port."""

    model = FixedIP
    fields = ("address", "subnet")


@admin.register(Network)
class NetworkAdmin(Readable):
    """The networks."""

    rules = {"view": "novella:get_networks:all_projects"}
    list_display = ("name", "shared", "admin_state_up", "bridge", "mtu", "created_at")
    ordering = ("name",)
    list_filter = ("shared", "admin_state_up")
    search_fields = ("name", "id__startswith", "bridge")
    inlines = (SubnetInline,)


@admin.register(SecurityGroup)
class SecurityGroupAdmin(Readable):
    """The security groups."""

    rules = {"view": "novella:get_networks:all_projects"}
    list_display = ("name", "project_id", "description", "created_at")
    ordering = ("name", "project_id")
    search_fields = ("name", "id__startswith")
    inlines = (RuleInline,)


@admin.register(Port)
class PortAdmin(Readable):
    """The ports."""

    rules = {"view": "novella:get_networks:all_projects"}
    list_display = ("mac_address", "network", "status", "host", "device_id", "created_at")
    list_filter = ("status", "network")
    list_select_related = ("network",)
    search_fields = ("mac_address", "device_id__startswith", "fixed_ips__address")
    inlines = (AddressInline,)
