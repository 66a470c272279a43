"""Roles and role assignments."""

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from portal.ops.admin.base import Written, identity_rules
from portal.ops.admin.identity.parts import ImpliedPart, WithParts, target_of
from provisioning.identity.models import Role, RoleAssignment
from provisioning.identity.services.assignments import grant, revoke_grant
from provisioning.identity.services.roles import create_role, delete_role, is_immutable, update_role


@admin.register(Role)
class RoleAdmin(WithParts):
    """The roles, whose rights the policy defines."""

    list_display = ("name", "domain", "description")
    ordering = ("name", "domain")
    list_filter = ("domain",)
    list_select_related = ("domain",)
    search_fields = ("name",)
    fields = ("domain", "name", "description")
    fixed = ("domain",)
    inlines = (ImpliedPart,)
    rules = identity_rules("role")
    update = staticmethod(update_role)
    remove = staticmethod(delete_role)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Default to a global role, without a domain."""
        return {**super().get_changeform_initial_data(request), "domain": None}

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """Return all fields for immutable roles, on which Novella depends."""
        return self.fields if isinstance(obj, Role) and is_immutable(obj) else super().get_readonly_fields(request, obj)

    def create(self, data: dict[str, Any]) -> Role:
        return create_role(data["name"], domain=data["domain"], description=data["description"])


@admin.register(RoleAssignment)
class RoleAssignmentAdmin(Written):
    """Role assignments, which are added and removed, but not changed."""

    list_display = ("user", "group", "role", "project", "domain", "system", "inherited")
    list_filter = ("role", "system", "inherited", "domain")
    list_select_related = ("user", "group", "role", "project", "domain")
    search_fields = ("user__name", "group__name", "project__name")
    autocomplete_fields = ("user", "group", "project")
    fields = ("user", "group", "role", "project", "domain", "system", "inherited")
    rules = {
        "view": "identity:list_role_assignments",
        "add": "identity:create_grant",
        "delete": "identity:revoke_grant",
    }
    remove = staticmethod(lambda row: revoke_grant(row.role, **target_of(row)))

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def create(self, data: dict[str, Any]) -> RoleAssignment:
        return grant(**data)
