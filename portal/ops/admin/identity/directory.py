"""Domains, projects, users, groups, roles and role assignments: their forms are pages of the dashboard."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest

from portal.ops.admin.base import InDashboard, identity_rules, row_action
from portal.ops.admin.columns import column
from provisioning.common.context import RequestContext
from provisioning.identity.lockout.lockout import lift_lockout, lockout_of
from provisioning.identity.models import Domain, Group, Project, Role, RoleAssignment, User
from provisioning.identity.services.projects import set_project_enabled
from provisioning.identity.services.users import revoke_all, set_user_enabled
from provisioning.quotas import selectors as quotas


@admin.register(Domain)
class DomainAdmin(InDashboard):
    list_display = ("name", "id", "enabled", "description")
    ordering = ("name",)
    list_filter = ("enabled",)
    search_fields = ("name", "id")
    fields = ("name", "description", "enabled")
    rules = identity_rules("domain")

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.pk if obj else None}


@admin.register(Group)
class GroupAdmin(InDashboard):
    list_display = ("name", "domain", "members", "description")
    ordering = ("name", "domain")
    list_filter = ("domain",)
    list_select_related = ("domain",)
    search_fields = ("name", "id__startswith")
    fields = ("domain", "name", "description")
    rules = identity_rules("group")

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id} if isinstance(obj, Group) else {}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Group]:
        rows: QuerySet[Group] = super().get_queryset(request)
        return rows.annotate(_members=Count("users"))

    members = column("members", "_members", ordering="_members")


LAUNCH = ("instances", "cores", "ram")


def _holdings(projects: Sequence[Project]) -> Mapping[Any, Any]:
    """Return project → its usage of the launch quotas."""
    return quotas.holdings([project.id for project in projects], LAUNCH)


def _usage(_: Project, held: Mapping[str, Any]) -> str:
    parts = ((name, held[name].in_use + held[name].reserved, held[name].limit) for name in LAUNCH)
    return " · ".join(
        f"{used} of {'∞' if limit < 0 else limit}" + " MiB" * (name == "ram") for name, used, limit in parts
    )


@admin.register(Project)
class ProjectAdmin(InDashboard):
    list_display = ("name", "domain", "parent", "enabled", "usage", "created_at")
    ordering = ("name", "domain")
    list_filter = ("enabled", "domain")
    list_select_related = ("domain", "parent")
    search_fields = ("name", "id__startswith")
    actions = ("enable", "disable")
    fields = ("domain", "parent", "name", "description", "enabled", "usage")
    readonly_fields = ("usage",)
    rules = identity_rules("project") | {"enable": "identity:update_project", "disable": "identity:update_project"}

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id, "project_id": obj.id} if isinstance(obj, Project) else {}

    usage = column("instances · vCPUs · memory (used of limit)", _usage, read=_holdings)

    @row_action("Enable", "Projects enabled")
    def enable(self, context: RequestContext, project: Project) -> None:
        set_project_enabled(project, enabled=True)

    @row_action(
        "Disable: no user can work in them",
        "Projects disabled",
        question="Disable these projects for all users?",
    )
    def disable(self, context: RequestContext, project: Project) -> None:
        set_project_enabled(project, enabled=False)


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


@admin.register(User)
class UserAdmin(InDashboard):
    list_display = ("name", "domain", "email", "enabled", "locked", "default_project", "created_at")
    ordering = ("name", "domain")
    list_filter = ("enabled", "domain")
    search_fields = ("name", "email", "id__startswith")
    list_select_related = ("domain", "default_project")
    actions = ("enable", "disable", "sign_out", "unlock")
    fields = (
        "domain", "name", "password_expires_at", "email", "description", "default_project", "enabled", "locked",
        "created_at",
    )  # fmt: skip
    readonly_fields = ("locked",)
    rules = identity_rules("user") | dict.fromkeys(actions, "identity:update_user")

    def policy_target(self, obj: Model | None) -> dict[str, object]:
        return {"domain_id": obj.domain_id, "user_id": obj.id} if isinstance(obj, User) else {}

    locked = column(
        "locked out", lambda user: "after wrong passwords" if lockout_of(user) is not None else None, empty_value=""
    )

    @row_action("Enable", "Users enabled")
    def enable(self, context: RequestContext, user: User) -> None:
        set_user_enabled(user, enabled=True)

    @row_action("Disable and sign out", "Users disabled", question="Lock these users out?")
    def disable(self, context: RequestContext, user: User) -> None:
        set_user_enabled(user, enabled=False)

    @row_action("Sign out everywhere: void all tokens", "Users signed out")
    def sign_out(self, context: RequestContext, user: User) -> None:
        revoke_all(user)

    @row_action("Lift the lock after wrong passwords", "Locks lifted")
    def unlock(self, context: RequestContext, user: User) -> None:
        lift_lockout(user)
