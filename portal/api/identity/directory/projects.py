"""``/v3/projects``. A domain is also a project with ``is_domain``, and can be created, updated and deleted as such."""

import functools
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas
from portal.api.identity import fields
from portal.api.identity.base import CollectionView, RecordView
from portal.api.identity.directory import domains, lists, project_trees, schemas, shapes
from portal.api.identity.queries import flag
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity import policy
from provisioning.identity.directory import lists as listed
from provisioning.identity.models import Domain, Project
from provisioning.identity.selectors.entries import projects_of
from provisioning.identity.selectors.lookups import by_id
from provisioning.identity.services.domains import create_domain, delete_domain, update_domain
from provisioning.identity.services.projects import create_project, delete_project, update_project

COLUMNS = frozenset({"id", "name", "description", "enabled", "domain_id", "parent_id", "is_domain", "tags"})
"""``options`` are stored with the additional fields."""
DOMAIN_COLUMNS = domains.COLUMNS | COLUMNS - {"tags"}
"""For a project that acts as a domain, ``tags`` are stored with the additional fields as well."""
_DOMAIN_RULES = {"PATCH": "identity:update_domain", "DELETE": "identity:delete_domain"}


class ProjectsView(CollectionView):
    """``/v3/projects``."""

    rules = {"GET": "novella:find_project", "POST": "identity:create_project"}
    schemas: ClassVar[Schemas] = {"POST": schemas.PROJECT_CREATE}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(lists.PROJECTS)}
    listing_rule = "identity:list_projects"
    what = "project"

    def get(self, request: Request) -> Response:
        """List projects; with ``is_domain`` the domains, in the format of projects."""
        everything = self.sees_all(request)
        if flag(request, "is_domain"):
            within = self.within if everything else self.context.user_domain_id
            found_domains = listed.domains(lists.read(request, lists.DOMAINS), within=within)
            self.refuse_others(request, found_domains)
            return Response(lists.answer(request, "projects", found_domains, shapes.domain_as_project, "/projects"))
        found = listed.projects(
            lists.read(request, lists.PROJECTS),
            within=self.within if everything else None,
            open_to=None if everything else self.context.user_id,
            parent=request.query_params.get("parent_id"),
        )
        self.refuse_others(request, found)
        return Response(lists.answer(request, "projects", found, shapes.project, "/projects"))

    def post(self, request: Request) -> Response:
        """Create a project, below another project or at the top level of a domain; with ``is_domain`` a domain."""
        body = self.checked_body()["project"]
        fields.refuse(body, "id")
        if body.get("is_domain"):
            return self._make_domain(request, body)
        domain_id, parent = self._place(body)
        try:
            domain = self.domain_to_make_in(domain_id)
        except NotFoundError as error:  # not the 404 of users and groups, as in Keystone
            raise InvalidInputError(error.message, field="domain_id") from error
        made = create_project(
            domain,
            body["name"],
            parent=parent,
            description=fields.text(body.get("description")),
            enabled=body.get("enabled", True),
            tags=body.get("tags", ()),
            extra=fields.further(body, COLUMNS),
        )
        return Response({"project": shapes.project(request, made)}, status=201)

    def _make_domain(self, request: Request, body: dict[str, Any]) -> Response:
        """Create a domain, which has neither a domain nor a parent."""
        policy.enforce(self.context, "identity:create_domain")
        for name in ("parent_id", "domain_id"):
            if body.get(name):
                raise InvalidInputError("Only projects below nothing are allowed to act as domains.", field=name)
        made = create_domain(
            body["name"],
            description=fields.text(body.get("description")),
            enabled=body.get("enabled", True),
            extra=fields.further(body, DOMAIN_COLUMNS),
        )
        return Response({"project": shapes.domain_as_project(request, made)}, status=201)

    def _place(self, body: dict[str, Any]) -> tuple[str, Project | None]:
        """Return the domain's id and the parent; None at the top level, where ``parent_id`` is the domain.

        Raises InvalidInputError for an unknown parent; to a domain administrator, parents in other domains are unknown.
        """
        above = body.get("parent_id")
        if above is None:
            return body.get("domain_id") or self.default_domain, None
        parent = by_id(Project, above)
        if parent is not None and self.allows_in(self.rules["POST"], parent.domain_id):
            return body.get("domain_id") or parent.domain_id, parent
        same = (body.get("domain_id") or above) == above and self.allows_in(self.rules["POST"], above)
        if parent is None and same and by_id(Domain, above) is not None:
            return above, None
        raise InvalidInputError(f"There is no project {above} in this domain.", field="parent_id")


class ProjectView(RecordView[Project]):
    """A project by its id, and its domain."""

    what = "project"
    model = Project


class OneProjectView(ProjectView):
    """``/v3/projects/{id}``."""

    rules = {
        "GET": "identity:get_project",
        "PATCH": "identity:update_project",
        "DELETE": "identity:delete_project",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.PROJECT_UPDATE}
    queries: ClassVar[Schemas] = {"GET": project_trees.KNOWN}

    @functools.cached_property
    def acting_domain(self) -> Domain | None:
        return None if self.found else by_id(Domain, self.kwargs["project_id"].replace("\0", "")[:64])

    def check_rule(self, request: Request) -> None:
        """Check the rule of the project; if it acts as a domain, check also the rule of the domain."""
        super().check_rule(request)
        if self.acting_domain is not None and request.method in _DOMAIN_RULES:
            policy.enforce(self.context, _DOMAIN_RULES[request.method], {"domain_id": self.acting_domain.id})

    def hide(self, rule: str) -> None:
        """Answer 403 instead of 404 to the administrator of the domain that the project acts as, who may read it but
        not change it.
        """
        if self.acting_domain is None or self.acting_domain.id != self.context.domain_id:
            super().hide(rule)

    def policy_target(self) -> dict[str, object]:
        """Return the policy target. A project that acts as a domain is in this domain for reading, and in no domain for
        changes.
        """
        if self.acting_domain is not None and self.request.method in {"GET", "HEAD"}:
            return {"project_id": None, "domain_id": self.acting_domain.id}
        return super().policy_target()

    def get(self, request: Request, project_id: str) -> Response:
        """Show a project, with its parents and subtree if the query requests them."""
        if self.acting_domain is not None:
            return Response({"project": shapes.domain_as_project(request, self.acting_domain)})
        shape = shapes.project(request, self.record)
        shape |= project_trees.around(request, self.record, self._sees)
        return Response({"project": shape})

    def patch(self, request: Request, project_id: str) -> Response:
        """Update the specified fields."""
        body = self.checked_body()["project"]
        if self.acting_domain is not None:
            domain = self.acting_domain
            present = {"id": domain.id, "domain_id": None, "parent_id": None, "is_domain": True}
            fields.refuse_change(body, present, "parent_id")
            update_domain(domain, **fields.changes(body, DOMAIN_COLUMNS, "name", "enabled"))
            return Response({"project": shapes.domain_as_project(request, domain)})
        project = self.record
        above = project.parent_id.hex if project.parent_id else project.domain_id
        present = {"id": project.id.hex, "domain_id": project.domain_id, "parent_id": above, "is_domain": False}
        fields.refuse_change(body, present, "parent_id")
        update_project(project, **fields.changes(body, COLUMNS, "name", "enabled", "tags"))
        return Response({"project": shapes.project(request, project)})

    def delete(self, request: Request, project_id: str) -> Response:
        """Delete a project without resources and children, or a disabled domain with all its contents."""
        if self.acting_domain is not None:
            delete_domain(self.acting_domain)
        else:
            delete_project(self.record)
        return Response(status=204)

    def _sees(self, projects: list[Project]) -> list[Project]:
        """Return the projects that the caller may see: all for administrators, otherwise the projects on which the
        caller has a role.
        """
        if policy.allows(self.context, "identity:list_projects", {"domain_id": self.record.domain_id}):
            return projects
        user_id = self.context.user_id
        open_to = {project.id for project in projects_of(user_id)} if user_id and projects else set()
        return [project for project in projects if project.id in open_to]
