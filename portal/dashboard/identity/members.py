"""Members of a project: users and groups with the roles they have on it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from portal.dashboard.identity import base
from portal.dashboard.identity.base import ProjectPage
from portal.dashboard.pages import Page
from provisioning.common.errors import InvalidInputError, NotFoundError, NovellaError
from provisioning.common.ids import read_id
from provisioning.identity import policy, selectors
from provisioning.identity.models import Group, Project, Role, User
from provisioning.identity.selectors import members, panels
from provisioning.identity.services import onboarding

GRANT, REVOKE = "identity:grants:create", "identity:grants:revoke"


def members_of(page: Page, project: Project) -> dict[str, Any]:
    """Return the members of a project and what the caller may do with them."""
    target = base.target_of(project)
    return {
        "members": members.members_of(project),
        "most_members": members.MOST_MEMBERS,
        "can_grant": page.allows(GRANT, target),
        "can_revoke": page.allows(REVOKE, target),
    }


class MemberAdd(ProjectPage):
    """A role on the project for one more user or group."""

    rule = GRANT

    def get(self, request: HttpRequest, project_id: uuid.UUID) -> HttpResponse:
        """Show who matches what was typed, and the roles."""
        return self._form(request.GET, {})

    def post(self, request: HttpRequest, project_id: uuid.UUID) -> HttpResponse:
        """Give the roles, beside those that there are."""
        project, data = self.project, request.POST
        try:
            who = _chosen(data)
            roles = roles_of(data)
            check_grants(self, GRANT, project, who, roles)
            onboarding.add_roles(who, project, roles)
        except NovellaError as error:
            return self._form(data, base.errors_of(error), status=422)
        return self.go("dashboard:project_page", project.id, said=f"{who.name} has a role on {project.name} now.")

    def _form(self, values: QueryDict, errors: Mapping[str, str], *, status: int = 200) -> HttpResponse:
        text = base.search_of(values)
        context = {
            "project": self.project,
            "text": text,
            "users": panels.users_to_choose(text),
            "groups": panels.groups_to_choose(text),
            "roles": panels.roles_to_choose(),
            "chosen": values.get("who", ""),
            "chosen_roles": values.getlist("roles"),
            "errors": errors,
        }
        return self.page("dashboard/identity/member_add.html", context, status=status)


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
        """Return the address of a page of this member."""
        came_from = "?from=actor" if self.from_actor else ""
        return reverse(name, args=[self.project.id, self.actor_kind, self.actor_id]) + came_from


class MemberRoles(MemberPage):
    """The roles of a member on the project itself."""

    rule = GRANT

    def get(self, request: HttpRequest, project_id: uuid.UUID, kind: str, actor_id: uuid.UUID) -> HttpResponse:
        """Show all roles with those that the member has ticked."""
        actor = self.actor
        own = [role.id for role in members.own_roles(self.project, actor)]
        return self._form(actor, own, "")

    def post(self, request: HttpRequest, project_id: uuid.UUID, kind: str, actor_id: uuid.UUID) -> HttpResponse:
        """Let the member have the ticked ones."""
        project, actor = self.project, self.actor
        try:
            roles = roles_of(request.POST)
            own = members.own_roles(project, actor)
            check_grants(self, GRANT, project, actor, [role for role in roles if role not in own])
            check_grants(self, REVOKE, project, actor, [role for role in own if role not in roles])
            onboarding.set_roles(actor, project, roles)
        except NovellaError as error:
            return self._form(actor, request.POST.getlist("roles"), error.message, status=422)
        said = f"{actor.name} has {', '.join(role.name for role in roles)} on {project.name} now."
        return self.go(self.back(), said=said)

    def _form(self, actor: User | Group, ticked: list[Any], error: str, *, status: int = 200) -> HttpResponse:
        context = {
            "project": self.project,
            "actor": actor,
            "roles": panels.roles_to_choose(),
            "ticked": {str(each) for each in ticked},
            "error": error,
            "action": self.address("dashboard:member_roles"),
            "back": self.back(),
        }
        if self.request.headers.get("HX-Request"):
            return self.part("dashboard/identity/_member_roles.html", context)
        return self.page("dashboard/identity/member_roles.html", context, status=status)


class MemberRemove(MemberPage):
    """The end of a membership."""

    rule = REVOKE

    def get(self, request: HttpRequest, project_id: uuid.UUID, kind: str, actor_id: uuid.UUID) -> HttpResponse:
        """Ask."""
        name, project = self.actor.name, self.project
        return self.ask_first(
            f"Remove {name} from {project.name}?",
            "Roles on the project itself are taken away, at once and in open pages too. "
            "What comes by a group or from above stays.",
            "Remove",
        )

    def post(self, request: HttpRequest, project_id: uuid.UUID, kind: str, actor_id: uuid.UUID) -> HttpResponse:
        """Take all roles on the project itself away."""
        project, actor = self.project, self.actor
        check_grants(self, REVOKE, project, actor, members.own_roles(project, actor))
        onboarding.set_roles(actor, project, [])
        return self.go(self.back(), said=f"{actor.name} has no role on {project.name} itself any more.")


class RoleGive(Page):
    """A role for one user or one group, on a project that is searched for; ``kind`` is ``user`` or ``group``."""

    rule = GRANT
    kind = ""

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Find whom it is for; where there is nobody the rule is asked first, so that only who may look learns it."""
        self.section = f"{self.kind}s"
        self.actor_id = uuid.UUID(str(kwargs[f"{self.kind}_id"]))
        try:
            return base.target_of(existing_actor(self.kind, self.actor_id))
        except NotFoundError:
            return {}

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Show which projects match what was typed, and the roles."""
        return self._form(request.GET, {})

    def post(self, request: HttpRequest, **_: Any) -> HttpResponse:
        """Give the roles, beside those that there are."""
        data, actor = request.POST, existing_actor(self.kind, self.actor_id)
        try:
            project = selectors.project_by(project_id=data.get("project", ""))
            if project is None:
                raise InvalidInputError("Choose a project.", field="project")
            roles = roles_of(data)
            check_grants(self, GRANT, project, actor, roles)
            onboarding.add_roles(actor, project, roles)
        except NovellaError as error:
            return self._form(data, base.errors_of(error), status=422)
        return self.go(self.back(), said=f"{actor.name} has a role on {project.name} now.")

    def back(self) -> str:
        """Return to the page of the user or of the group."""
        return reverse(f"dashboard:{self.kind}_page", args=[self.actor_id])

    def _form(self, values: QueryDict, errors: Mapping[str, str], *, status: int = 200) -> HttpResponse:
        text = base.search_of(values)
        context = {
            "actor": existing_actor(self.kind, self.actor_id),
            "text": text,
            "here": self.request.path,
            "list": f"dashboard:{self.kind}s",
            "list_name": f"{self.kind.capitalize()}s",
            "back": self.back(),
            "projects": panels.projects_to_choose(text),
            "roles": panels.roles_to_choose(),
            "chosen": values.get("project", ""),
            "chosen_roles": values.getlist("roles"),
            "errors": errors,
        }
        return self.page("dashboard/identity/role_give.html", context, status=status)


def check_grants(page: Page, rule: str, project: Project, actor: User | Group, roles: Iterable[Role]) -> None:
    """Raise ForbiddenError when policy lets the caller not give, or take away, one of these roles there."""
    for role in roles:
        target = {
            "domain_id": project.domain_id,
            "project_id": project.id,
            "actor_domain_id": actor.domain_id,
            "role_domain_id": role.domain_id,
            "brings_admin": selectors.brings_admin(role),
        }
        policy.enforce(page.context, rule, target)


def existing_actor(kind: str, actor_id: uuid.UUID) -> User | Group:
    """Return the user or the group of this id; NotFoundError without one."""
    if kind == "group":
        return base.existing(panels.group_by(actor_id), kind)
    return base.existing(selectors.user_by(user_id=str(actor_id)), kind)


def roles_of(data: QueryDict) -> list[Role]:
    """Return the roles that were ticked; InvalidInputError without any."""
    roles = [role for role in panels.roles_by_id(data.getlist("roles")) if role.domain_id is None]
    if not roles:
        raise InvalidInputError("Choose at least one role.", field="roles")
    return roles


def _chosen(data: QueryDict) -> User | Group:
    """Return whom the form names; InvalidInputError for nobody."""
    kind, _, key = data.get("who", "").partition(":")
    actor_id = read_id(key)
    if actor_id is None or kind not in {"user", "group"}:
        raise InvalidInputError("Choose a user or a group.", field="who")
    return existing_actor(kind, actor_id)
