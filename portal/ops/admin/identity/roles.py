"""Roles and who has them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from portal.ops.admin.base import Written
from portal.ops.admin.identity.parts import ImpliedPart, WithParts
from provisioning.identity.models import Role, RoleAssignment
from provisioning.identity.services.assignments import grant, revoke_grant
from provisioning.identity.services.roles import create_role, delete_role, is_immutable, update_role


@admin.register(Role)
class RoleAdmin(WithParts):
    """The roles, which the policy gives their meaning."""

    list_display = ("name", "domain", "description")
    ordering = ("name", "domain")
    list_filter = ("domain",)
    list_select_related = ("domain",)
    search_fields = ("name",)
    fields = ("domain", "name", "description")
    inlines = (ImpliedPart,)
    rules = {
        "view": "identity:list_roles",
        "add": "identity:create_role",
        "change": "identity:update_role",
        "delete": "identity:delete_role",
    }

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """A role is for the whole cloud unless the operator chooses a domain."""
        return {**super().get_changeform_initial_data(request), "domain": None}

    def get_readonly_fields(self, request: HttpRequest, obj: Role | None = None) -> tuple[str, ...]:
        """Where a role is stays, and what Novella itself counts on."""
        if obj is None:
            return ()
        return ("domain", "name", "description") if is_immutable(obj) else ("domain",)

    def save_model(self, request: HttpRequest, obj: Role, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write through the services."""
        if change:
            if form.changed_data:
                values = {name: form.cleaned_data[name] for name in form.changed_data}
                update_role(Role.objects.get(id=obj.id), **values)
            return
        made = create_role(obj.name, domain=obj.domain, description=obj.description)
        obj.pk = obj.id = made.id
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: Role) -> None:
        """Remove the role; whoever had it loses it at once."""
        delete_role(obj)


@admin.register(RoleAssignment)
class RoleAssignmentAdmin(Written):
    """Who has which role where: given and taken, not changed."""

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

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: RoleAssignment, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Give the role through the service."""
        data = form.cleaned_data
        where = {name: data[name] for name in ("user", "group", "project", "domain", "system", "inherited")}
        grant(data["role"], **where)
        obj.pk = RoleAssignment.objects.get(role=data["role"], **where).pk
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: RoleAssignment) -> None:
        """Take the role through the service."""
        where = {name: getattr(obj, name) for name in ("user", "group", "project", "domain", "system", "inherited")}
        revoke_grant(obj.role, **where)
