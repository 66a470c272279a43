"""Projects: the list, the detail page, and the actions."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict

from portal.dashboard.copy_as.calls import Call, edit
from portal.dashboard.copy_as.kinds import identity as copied
from portal.dashboard.frame.edits import changes
from portal.dashboard.frame.forms import Form
from portal.dashboard.graphs import bars
from portal.dashboard.identity import base, wording
from portal.dashboard.identity.base import ProjectPage
from portal.dashboard.identity.forms import ProjectForm
from portal.dashboard.identity.frames import DeletePage, ListPage, RecordFormPage
from portal.dashboard.identity.listing import PROJECTS
from portal.dashboard.identity.members import LIST, members_shown
from portal.dashboard.records.questions import QuestionPage
from provisioning.identity.models import Project
from provisioning.identity.selectors import dashboard_lists
from provisioning.identity.services.projects import create_project, delete_project, set_project_enabled, update_project
from provisioning.network.selectors.topology import may_have_topology
from provisioning.network.services import allocate_topology
from provisioning.quotas.selectors import whole_detail_of

STATES = (("", "All"), ("enabled", "Enabled"), ("disabled", "Disabled"))


QUOTAS = "os_compute_api:os-quota-sets:detail"


class ProjectList(ListPage):
    """All projects of the cloud, or of the managed domain."""

    records = PROJECTS
    lead = "Projects own instances, images and networks. Users work in a project when they have a role on it."


class ProjectCreate(RecordFormPage):
    """The form for a new project."""

    section = "projects"
    kind = "project"
    rule = "identity:create_project"

    def form(self, data: QueryDict | None = None) -> Form:
        initial = {"domain": self.within or self.context.user_domain_id}
        domains = dashboard_lists.all_domains(within=self.within)
        return ProjectForm(data, initial=initial, domains=domains, within=self.within)

    def save(self, form: Form) -> HttpResponse:
        """Create the project and go to its page, which has members and quotas."""
        typed = form.cleaned_data
        self.check_domain(typed["domain"])
        project = create_project(
            typed["domain"],
            typed["name"],
            parent=typed["parent"],
            description=typed["description"],
            tags=tuple(typed["tags"]),
        )
        message = f"{project.name} was created. Now assign roles in it to users."
        return self.go("dashboard:project_page", project.id, message=message)

    def calls(self, form: Form) -> Sequence[Call]:
        typed = form.cleaned_data
        parent = {"parent_id": typed["parent"].id.hex} if typed["parent"] else {}
        return [Call(copied.PROJECT, {**typed, "domain_id": typed["domain"].id, **parent})]

    def extra_context(self) -> dict[str, Any]:
        return {**super().extra_context(), "suggested": dashboard_lists.projects_to_choose("", within=self.within)}


class ProjectDetail(ProjectPage):
    """The page of one project."""

    rule = "identity:get_project"

    def get(self, request: HttpRequest, project_id: Any) -> HttpResponse:
        """Show attributes and quotas, members if the policy allows it, and the permitted actions."""
        project = self.record
        target = base.target_of(project)
        shown = members_shown(self, project) if self.allows(LIST, target) else {}
        shows_quotas = self.allows(QUOTAS, {"project_id": project.id})
        context = {
            "project": project,
            "status": wording.project_status(project),
            "tags": dashboard_lists.tags_of(project),
            "groups": bars.grouped(whole_detail_of(project.id)) if shows_quotas else None,
            "own_roles": sorted(self.context.roles) if project.id == self.context.project_id else [],
            **shown,
            "may": {
                "update": self.allows("identity:update_project", target),
                "delete": self.allows("identity:delete_project", target),
                "quotas": self.allows("os_compute_api:os-quota-sets:update", target),
                "network": self.allows("get_auto_allocated_topology", target) and may_have_topology(project.id),
                "add_user": self.allows("identity:create_user", target),
            },
        }
        return self.page("dashboard/identity/project.html", context)


class ProjectEdit(RecordFormPage, ProjectPage):
    """The form for a project's name, description and tags."""

    edits = True
    rule = "identity:update_project"

    def form(self, data: QueryDict | None = None) -> Form:
        project = self.record
        tags = ", ".join(dashboard_lists.tags_of(project))
        initial = {"name": project.name, "description": project.description, "tags": tags}
        return ProjectForm(data, initial=initial, within=self.within)

    def save(self, form: Form) -> HttpResponse:
        typed = form.cleaned_data
        update_project(self.record, name=typed["name"], description=typed["description"], tags=typed["tags"])
        return self.go(self.back(), message="Saved.")

    def calls(self, form: Form) -> Sequence[Call]:
        changed, project = changes(form), {"project": self.record.id.hex}
        removed = [tag for tag in dashboard_lists.tags_of(self.record) if tag not in changed.get("tags", [tag])]
        calls = edit(copied.PROJECT_EDIT, project, changed)
        return [*calls, Call(copied.PROJECT_TAGS_REMOVED, {**project, "removed": removed})] if removed else calls


class ProjectSwitchOff(QuestionPage, ProjectPage):
    """Asks for confirmation, and disables a project."""

    rule = "identity:update_project"
    question = "Disable {name}?"
    consequence = (
        "It cannot be used any longer. Its open pages and tokens are revoked immediately. Its instances keep running."
    )
    label = "Disable"
    message = "{name} was disabled."
    stays = True

    def do(self) -> None:
        set_project_enabled(self.record, enabled=False)


class ProjectSwitchOn(ProjectPage):
    """Enables a project again."""

    rule = "identity:update_project"
    http_method_names = ["post"]

    def post(self, request: HttpRequest, project_id: Any) -> HttpResponse:
        set_project_enabled(self.record, enabled=True)
        return self.go(self.back(), message=f"{self.record.name} was enabled.")


class ProjectNetwork(ProjectPage):
    """Creates a project's auto-allocated topology: its own network and router."""

    rule = "get_auto_allocated_topology"
    http_method_names = ["post"]

    def post(self, request: HttpRequest, project_id: Any) -> HttpResponse:
        allocate_topology(self.record.id)
        return self.go(self.back(), message=f"{self.record.name} now has a network and a router.")


class ProjectDelete(DeletePage[Project], ProjectPage):
    """Asks for confirmation, and deletes a project without resources."""

    rule = "identity:delete_project"
    consequence = (
        "Its members lose their roles on it. A project that still owns resources is not deleted:"
        " the error lists them. This cannot be undone."
    )
    remove = staticmethod(delete_project)

    def success_url(self) -> str:
        return "dashboard:overview" if self.record.id == self.context.project_id else super().success_url()


class OwnProject(ProjectDetail):
    """The current project, for all its members."""

    section = "project"
    everywhere = False

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Use the project of the token."""
        return super().target(project_id=self.context.project_id)

    def get(self, request: HttpRequest, project_id: Any = None) -> HttpResponse:
        """Show the page of the project."""
        return super().get(request, self.context.project_id)
