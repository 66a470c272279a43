"""Projects."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Model

from portal.ops.admin.base import InDashboard, identity_rules, row_action
from portal.ops.admin.columns import column
from provisioning.common.context import RequestContext
from provisioning.identity.models import Project
from provisioning.identity.services.projects import set_project_enabled
from provisioning.quotas import selectors as quotas

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
