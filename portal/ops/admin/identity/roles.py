"""Roles and role assignments."""

from django.contrib import admin

from portal.ops.admin.base import InDashboard, identity_rules
from provisioning.identity.models import Role, RoleAssignment


@admin.register(Role)
class RoleAdmin(InDashboard):
    """The roles, whose rights the policy defines."""

    list_display = ("name", "domain", "description")
    ordering = ("name", "domain")
    list_filter = ("domain",)
    list_select_related = ("domain",)
    search_fields = ("name",)
    fields = ("domain", "name", "description")
    rules = identity_rules("role")


@admin.register(RoleAssignment)
class RoleAssignmentAdmin(InDashboard):
    """Role assignments, which the pages of projects, domains, users and groups add and remove."""

    list_display = ("user", "group", "role", "project", "domain", "system", "inherited")
    list_filter = ("role", "system", "inherited", "domain")
    list_select_related = ("user", "group", "role", "project", "domain")
    search_fields = ("user__name", "group__name", "project__name")
    fields = ("user", "group", "role", "project", "domain", "system", "inherited")
    rules = {"view": "identity:list_role_assignments"}
