"""Users, projects, domains, roles and their assignments, to read; operators change them in the admin."""

from __future__ import annotations

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.identity import shapes
from provisioning.common.errors import InvalidInputError
from provisioning.identity import directory, policy, selectors
from provisioning.identity.directory import Filters

_BOOLEANS = {"true": True, "1": True, "": True, "false": False, "0": False}


def _filters(request: Request) -> Filters:
    query = request.query_params
    enabled = query.get("enabled")
    if enabled is not None and enabled.lower() not in _BOOLEANS:
        raise InvalidInputError("enabled must be true or false.", field="enabled")
    return Filters(
        name=query.get("name"),
        domain_id=query.get("domain_id"),
        enabled=None if enabled is None else _BOOLEANS[enabled.lower()],
    )


class FindingView(ServiceView):
    """A list that operators see whole; others find their own in it by name: clients are given names for ids."""

    listing_rule: ClassVar[str]

    def sees_all(self, request: Request) -> bool:
        """Whether the caller sees the whole list; ForbiddenError for others who ask for no name."""
        if self.allows(self.listing_rule):
            return True
        if "name" not in request.query_params:
            policy.enforce(self.context, self.listing_rule)
        return False


class UsersView(FindingView):
    """``GET /v3/users``."""

    rules = {"GET": "identity:users:find"}
    listing_rule = "identity:users:list"

    def get(self, request: Request) -> Response:
        """List users."""
        everybody = self.sees_all(request)
        users = directory.users(_filters(request), only=None if everybody else self.context.user_id)
        return Response(shapes.listing(request, "users", (shapes.user(request, user) for user in users), "/users"))


class UserView(ServiceView):
    """``GET /v3/users/{id}``: one's own, or an operator's business."""

    rules = {"GET": "identity:users:show"}

    def policy_target(self) -> dict[str, object]:
        """A user is itself."""
        return {"user_id": self.kwargs["user_id"]}

    def get(self, request: Request, user_id: str) -> Response:
        """Show a user."""
        return Response({"user": shapes.user(request, selectors.existing_user(user_id))})


class UserProjectsView(UserView):
    """``GET /v3/users/{id}/projects``."""

    rules = {"GET": "identity:users:projects"}

    def get(self, request: Request, user_id: str) -> Response:
        """List the projects on which the user has a role."""
        user = selectors.existing_user(user_id)
        found = (shapes.project(request, project) for project in selectors.projects_of(user.id))
        return Response(shapes.listing(request, "projects", found, f"/users/{user.id.hex}/projects"))


class ProjectsView(FindingView):
    """``GET /v3/projects``."""

    rules = {"GET": "identity:projects:find"}
    listing_rule = "identity:projects:list"

    def get(self, request: Request) -> Response:
        """List projects."""
        everything = self.sees_all(request)
        projects = directory.projects(_filters(request), open_to=None if everything else self.context.user_id)
        found = (shapes.project(request, project) for project in projects)
        return Response(shapes.listing(request, "projects", found, "/projects"))


class ProjectView(ServiceView):
    """``GET /v3/projects/{id}``: the token's own, or an operator's business."""

    rules = {"GET": "identity:projects:show"}

    def policy_target(self) -> dict[str, object]:
        """A project is itself."""
        return {"project_id": self.kwargs["project_id"]}

    def get(self, request: Request, project_id: str) -> Response:
        """Show a project."""
        return Response({"project": shapes.project(request, selectors.existing_project(project_id))})


class DomainsView(FindingView):
    """``GET /v3/domains``."""

    rules = {"GET": "identity:domains:find"}
    listing_rule = "identity:domains:list"

    def get(self, request: Request) -> Response:
        """List domains."""
        everything = self.sees_all(request)
        domains = directory.domains(_filters(request), only=None if everything else self.context.user_domain_id)
        found = (shapes.domain(request, domain) for domain in domains)
        return Response(shapes.listing(request, "domains", found, "/domains"))


class DomainView(ServiceView):
    """``GET /v3/domains/{id}``: the user's own, or an operator's business."""

    rules = {"GET": "identity:domains:show"}

    def policy_target(self) -> dict[str, object]:
        """A domain is itself."""
        return {"domain_id": self.kwargs["domain_id"]}

    def get(self, request: Request, domain_id: str) -> Response:
        """Show a domain."""
        return Response({"domain": shapes.domain(request, directory.domain(domain_id))})


class RolesView(ServiceView):
    """``GET /v3/roles``."""

    rules = {"GET": "identity:roles:list"}

    def get(self, request: Request) -> Response:
        """List roles."""
        found = (shapes.role(request, role) for role in directory.roles(request.query_params.get("name")))
        return Response(shapes.listing(request, "roles", found, "/roles"))


class RoleView(ServiceView):
    """``GET /v3/roles/{id}``."""

    rules = {"GET": "identity:roles:show"}

    def get(self, request: Request, role_id: str) -> Response:
        """Show a role."""
        return Response({"role": shapes.role(request, directory.role(role_id))})


class RoleAssignmentsView(ServiceView):
    """``GET /v3/role_assignments``."""

    rules = {"GET": "identity:role_assignments:list"}

    def get(self, request: Request) -> Response:
        """List who has which role where; ``include_names`` adds the names."""
        query = request.query_params
        found = directory.assignments(
            user_id=query.get("user.id"), project_id=query.get("scope.project.id"), role_id=query.get("role.id")
        )
        names = _BOOLEANS.get(query.get("include_names", "false").lower(), False)
        items = (shapes.assignment(request, assignment, names=names) for assignment in found)
        return Response(shapes.listing(request, "role_assignments", items, "/role_assignments"))
