"""Members of a project: users and groups with the roles they have on it."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.forms import Form
from portal.dashboard.identity import base
from portal.dashboard.identity.base import ProjectPage
from portal.dashboard.identity.forms import GrantForm, MemberForm, RoleGiveForm
from portal.dashboard.pages import FormPage, Page
from provisioning.common.errors import NotFoundError
from provisioning.identity import policy
from provisioning.identity.models import Group, Project, Role, User
from provisioning.identity.selectors import dashboard_lists, members
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.selectors.role_lookups import brings_admin
from provisioning.identity.services import onboarding

GRANT, REVOKE = "identity:create_grant", "identity:revoke_grant"


def members_of(page: Page, project: Project) -> dict[str, Any]:
    """Return the members of a project and what the caller may do with them."""
    target = base.target_of(project)
    return {
        "members": members.members_of(project),
        "most_members": members.MOST_MEMBERS,
        "can_grant": page.allows(GRANT, target),
        "can_revoke": page.allows(REVOKE, target),
    }


class MemberAdd(FormPage, ProjectPage):
    """The form for a role on the project for one more user or group, among those that a search finds."""

    rule = GRANT
    template = "dashboard/identity/member_add.html"

    def form(self, data: QueryDict | None = None) -> Form:
        text = base.search_of(self.request.GET)
        return MemberForm(
            data,
            dashboard_lists.roles_to_choose(),
            dashboard_lists.users_to_choose(text),
            dashboard_lists.groups_to_choose(text),
        )

    def save(self, form: Form) -> HttpResponse:
        """Give the roles, beside those that there are."""
        project, who, roles = self.record, form.cleaned_data["who"], form.cleaned_data["roles"]
        check_grants(self, GRANT, project, who, roles)
        onboarding.add_roles(who, project, roles)
        return self.go("dashboard:project_page", project.id, said=f"{who.name} has a role on {project.name} now.")

    def further(self) -> Mapping[str, Any]:
        return {"project": self.record, "text": base.search_of(self.request.GET)}


class MemberPage(ProjectPage):
    """Base of the pages of one member of a project."""

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Know whose roles they are."""
        super().setup(request, *args, **kwargs)
        self.actor_kind, self.actor_id = str(kwargs["kind"]), uuid.UUID(str(kwargs["actor_id"]))
        if self.actor_kind not in {"user", "group"}:
            raise Http404
        self.from_actor = request.GET.get("from") == "actor"

    @property
    def actor(self) -> User | Group:
        """The user or the group; NotFoundError without one."""
        return existing_actor(self.actor_kind, self.actor_id)

    def back(self) -> str:
        """Return to where the person came from: the project, or the member's own page."""
        if self.from_actor:
            return reverse(f"dashboard:{self.actor_kind}_page", args=[self.actor_id])
        return super().back()

    def address(self, name: str) -> str:
        came_from = "?from=actor" if self.from_actor else ""
        return reverse(name, args=[self.record.id, self.actor_kind, self.actor_id]) + came_from


class MemberRoles(FormPage, MemberPage):
    """The form for the roles of a member on the project itself, in the dialog or on a page of its own."""

    rule = GRANT
    template = "dashboard/identity/member_roles.html"

    def form(self, data: QueryDict | None = None) -> Form:
        own = members.own_roles(self.record, self.actor)
        return GrantForm(data, dashboard_lists.roles_to_choose(), ticked=own)

    def save(self, form: Form) -> HttpResponse:
        project, actor, roles = self.record, self.actor, form.cleaned_data["roles"]
        own = members.own_roles(project, actor)
        check_grants(self, GRANT, project, actor, [role for role in roles if role not in own])
        check_grants(self, REVOKE, project, actor, [role for role in own if role not in roles])
        onboarding.set_roles(actor, project, roles)
        said = f"{actor.name} has {', '.join(role.name for role in roles)} on {project.name} now."
        return self.go(self.back(), said=said)

    def further(self) -> Mapping[str, Any]:
        action = self.address("dashboard:member_roles")
        return {"project": self.record, "actor": self.actor, "action": action, "back": self.back()}

    def show(self, form: Form, *, status: int = 200) -> HttpResponse:
        if self.request.headers.get("HX-Request"):
            return self.part("dashboard/identity/_member_roles.html", {"form": form, **self.further()})
        return super().show(form, status=status)


class MemberRemove(MemberPage):
    """Asks, and takes away a member's roles on the project itself."""

    rule = REVOKE

    def get(self, request: HttpRequest, project_id: uuid.UUID, kind: str, actor_id: uuid.UUID) -> HttpResponse:
        name, project = self.actor.name, self.record
        return self.ask_first(
            f"Remove {name} from {project.name}?",
            "Roles on the project itself are taken away, at once and in open pages too. "
            "What comes by a group or from above stays.",
            "Remove",
        )

    def post(self, request: HttpRequest, project_id: uuid.UUID, kind: str, actor_id: uuid.UUID) -> HttpResponse:
        """Take all roles on the project itself away."""
        project, actor = self.record, self.actor
        check_grants(self, REVOKE, project, actor, members.own_roles(project, actor))
        onboarding.set_roles(actor, project, [])
        return self.go(self.back(), said=f"{actor.name} has no role on {project.name} itself any more.")


class RoleGive(FormPage):
    """The form for roles of a user or group, by ``kind``, on a project among those that a search finds."""

    rule = GRANT
    template = "dashboard/identity/role_give.html"
    kind = ""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find whom it is for; where there is nobody the rule is asked first, so that only who may look learns it."""
        self.section = f"{self.kind}s"
        self.actor_id = uuid.UUID(str(kwargs[f"{self.kind}_id"]))
        try:
            return base.target_of(self.actor)
        except NotFoundError:
            return {}

    @property
    def actor(self) -> User | Group:
        """The user or the group; NotFoundError without one."""
        return existing_actor(self.kind, self.actor_id)

    def form(self, data: QueryDict | None = None) -> Form:
        projects = dashboard_lists.projects_to_choose(base.search_of(self.request.GET))
        return RoleGiveForm(data, dashboard_lists.roles_to_choose(), projects)

    def save(self, form: Form) -> HttpResponse:
        """Give the roles, beside those that there are."""
        actor, project, roles = self.actor, form.cleaned_data["project"], form.cleaned_data["roles"]
        check_grants(self, GRANT, project, actor, roles)
        onboarding.add_roles(actor, project, roles)
        return self.go(self.back(), said=f"{actor.name} has a role on {project.name} now.")

    def back(self) -> str:
        """Return to the page of the user or of the group."""
        return reverse(f"dashboard:{self.kind}_page", args=[self.actor_id])

    def further(self) -> Mapping[str, Any]:
        return {
            "actor": self.actor,
            "text": base.search_of(self.request.GET),
            "list": f"dashboard:{self.kind}s",
            "list_name": f"{self.kind.capitalize()}s",
            "back": self.back(),
        }


def check_grants(page: Page, rule: str, project: Project, actor: User | Group, roles: Iterable[Role]) -> None:
    """Raise ForbiddenError when policy lets the caller not give, or take away, one of these roles there."""
    for role in roles:
        target = {
            "domain_id": project.domain_id,
            "project_id": project.id,
            "actor_domain_id": actor.domain_id,
            "role_domain_id": role.domain_id,
            "brings_admin": brings_admin(role),
        }
        policy.enforce(page.context, rule, target)


def existing_actor(kind: str, actor_id: uuid.UUID) -> User | Group:
    """Return the user or the group of this id; NotFoundError without one."""
    return existing(Group, actor_id) if kind == "group" else existing(User, actor_id)
