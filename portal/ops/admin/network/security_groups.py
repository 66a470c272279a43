"""Security groups, their rules, address groups, and default rules of new groups, read-only."""

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest

from portal.ops.admin.columns import by_id, column
from portal.ops.admin.network.networks import OfNetworking, ports_link
from portal.ops.admin.owned import ReadableInline
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.network.models import AddressGroup, DefaultSecurityGroupRule, SecurityGroup, SecurityGroupRule
from provisioning.network.models.security_groups import Flow

REMOTES = ("remote_ip_prefix", "remote_group", "remote_address_group")


class RuleInline(ReadableInline):
    """The rules of a group."""

    model = SecurityGroupRule
    fk_name = "group"
    fields = ("direction", "ethertype", "protocol", "port_range_min", "port_range_max", *REMOTES)

    def get_queryset(self, request: HttpRequest) -> QuerySet[SecurityGroupRule]:
        rows: QuerySet[SecurityGroupRule] = super().get_queryset(request)
        return rows.select_related("remote_group", "remote_address_group")


def ports_of(row: Flow) -> str:
    """Format a rule's ports, or ICMP types and codes."""
    first, last = row.port_range_min, row.port_range_max
    if first is None:
        return "any"
    return str(first) if last in {None, first} else f"{first}-{last}"


def _remote(row: SecurityGroupRule) -> str:
    if row.remote_group:
        return f"group {row.remote_group}"
    return str(row.remote_address_group or row.remote_ip_prefix or "anywhere")


@admin.register(SecurityGroup)
class SecurityGroupAdmin(OfNetworking):
    list_display = ("__str__", "project", "description", "stateful", "many_rules", "many_ports", "created_at")
    search_help_text = "Name, id, or project"
    ordering = ("name", "project_id")
    list_filter = ("stateful",)
    search_fields = ("name", "id__startswith", "project_id__startswith")
    inlines = (RuleInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[SecurityGroup]:
        rows: QuerySet[SecurityGroup] = super().get_queryset(request)
        return rows.annotate(rules_in=Count("rules", distinct=True), ports_in=Count("ports", distinct=True))

    many_rules = column("rules", lambda group: int(getattr(group, "rules_in", 0)), ordering="rules_in")
    many_ports = column(
        "ports",
        lambda group: ports_link("security_groups", group, int(getattr(group, "ports_in", 0))),
        ordering="ports_in",
    )


@admin.register(SecurityGroupRule)
class SecurityGroupRuleAdmin(OfNetworking):
    """The rules of all groups, to find open ports."""

    list_display = ("direction", "ethertype", "protocol", "ports", "remote", "in_group", "of_project", "created_at")
    ordering = ("-created_at", "id")
    search_help_text = "Group, its id, its project's id, range, or the first port"
    list_filter = ("direction", "ethertype", "protocol")
    list_select_related = ("group", "remote_group", "remote_address_group")
    search_fields = (
        "id__startswith", "group__name", "group__id__startswith", "group__project_id__startswith", "remote_ip_prefix",
        "=port_range_min",
    )  # fmt: skip

    of_project = column(
        "project", read=by_id(projects_by_id, "group.project_id"), ordering="group__project_id", link=True
    )
    in_group = column("group", "group", ordering="group__name", link=True)
    ports = column("ports", ports_of, ordering="port_range_min")

    remote = column("remote", _remote)


@admin.register(AddressGroup)
class AddressGroupAdmin(OfNetworking):
    """The address groups that rules refer to."""

    list_display = ("__str__", "project", "addresses", "many_rules", "created_at")
    ordering = ("name", "id")
    search_fields = ("name", "id__startswith", "project_id__startswith")

    def get_queryset(self, request: HttpRequest) -> QuerySet[AddressGroup]:
        rows: QuerySet[AddressGroup] = super().get_queryset(request)
        return rows.annotate(rules_with=Count("rules"))

    many_rules = column("rules", lambda group: int(getattr(group, "rules_with", 0)), ordering="rules_with")


@admin.register(DefaultSecurityGroupRule)
class DefaultSecurityGroupRuleAdmin(OfNetworking):
    """The default rules of new groups, if operators have changed them."""

    list_display = (
        "direction", "ethertype", "protocol", "ports", "remote_ip_prefix", "used_in_default_sg",
        "used_in_non_default_sg", "removed",
    )  # fmt: skip
    ordering = ("direction", "ethertype", "id")
    list_filter = ("direction", "ethertype", "removed")

    ports = column("ports", ports_of, ordering="port_range_min")
