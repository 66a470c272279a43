"""Projects."""

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.http import HttpRequest

from portal.ops.admin.base import InDashboard, identity_rules, row_action
from provisioning.common.context import RequestContext
from provisioning.identity.models import Project
from provisioning.identity.services.projects import set_project_enabled
from provisioning.quotas import selectors as quotas

LAUNCH = ("instances", "cores", "ram")


class WithHoldings(ChangeList):
    """A page of projects with their usage of the launch quotas."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the usage of all projects of the page together."""
        super().get_results(request)
        held = quotas.holdings([project.id for project in self.result_list], LAUNCH)
        for project in self.result_list:
            project.held = held[project.id]


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

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return WithHoldings

    @admin.display(description="instances · vCPUs · memory (used of limit)")
    def usage(self, project: Project) -> str:
        held = getattr(project, "held", None) or quotas.holdings([project.id], LAUNCH)[project.id]
        parts = ((name, held[name].in_use + held[name].reserved, held[name].limit) for name in LAUNCH)
        return " · ".join(
            f"{used} of {'∞' if limit < 0 else limit}" + " MiB" * (name == "ram") for name, used, limit in parts
        )

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
