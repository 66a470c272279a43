"""``/v3/projects``. A domain is also a project with ``is_domain``, and can be created, updated and deleted as such."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.identity.dialect import Attribute, Operation, Paged, Values, routes
from portal.api.identity.dialect.bodies import flag
from portal.api.identity.dialect.resource import FLAG, IMMUTABLE, KEY, KEY_OR_NULL, NAME, TEXT
from portal.api.identity.directory import domains, project_trees
from portal.api.identity.directory.base import DIRECTORY, TAGS, CollectionView, DomainView, RecordDetailView, Resource
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Part
from provisioning.identity import policy
from provisioning.identity.directory.listing import RowPage
from provisioning.identity.directory.lists import projects
from provisioning.identity.models import Domain, Project
from provisioning.identity.selectors.entries import projects_of
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.services.domains import create_domain
from provisioning.identity.services.projects import create_project, delete_project, update_project

_DOMAIN_RULES = {"PATCH": "identity:update_domain", "DELETE": "identity:delete_domain"}


def _list(view: CollectionView, part: Part) -> RowPage[Project]:
    return projects(
        part,
        within=view.within if view.everything else None,
        open_to=None if view.everything else view.context.user_id,
        parent=view.request.query_params.get("parent_id"),
    )


def _create(view: CollectionView, values: Values) -> Project:
    values.pop("is_domain", None)
    domain_id, parent = _place(view, values.pop("domain_id", None), values.pop("parent_id", None))
    try:
        domain = view.domain_to_make_in(domain_id)
    except NotFoundError as error:  # not the 404 of users and groups, as in Keystone
        raise InvalidInputError(error.message, field="domain_id") from error
    return create_project(domain, values.pop("name"), parent=parent, **values)


def _place(view: CollectionView, domain_id: str | None, above: str | None) -> tuple[str, Project | None]:
    """Return the domain's id and the parent; None at the top level, where the id ``above`` is the domain.

    Raises InvalidInputError for an unknown parent; to a domain administrator, parents in other domains are unknown.
    """
    if above is None:
        return domain_id or view.default_domain, None
    parent, rule = by_id(Project, above), view.rules["POST"]
    if parent is not None and view.allows_in(rule, parent.domain_id):
        return domain_id or parent.domain_id, parent
    same = (domain_id or above) == above and view.allows_in(rule, above)
    if parent is None and same and by_id(Domain, above) is not None:
        return above, None
    raise InvalidInputError(f"There is no project {above} in this domain.", field="parent_id")


def _create_domain(view: CollectionView, values: Values) -> Domain:
    """Create a domain, which has neither a domain nor a parent."""
    values.pop("is_domain")
    for name in ("parent_id", "domain_id"):
        if values.pop(name, None):
            raise InvalidInputError("Only projects below nothing are allowed to act as domains.", field=name)
    return create_domain(values.pop("name"), **values)


def _update(view: RecordDetailView, project: Project, values: Values) -> Project:
    update_project(project, **values)
    return project


PROJECT = Resource(
    name="project",
    list=Operation(
        _list, "novella:find_project", "List projects; with ``is_domain`` the domains, in the format of projects."
    ),
    show=Operation(
        partial(existing, Project),
        "identity:get_project",
        "Show a project, with its parents and subtree if the query requests them.",
    ),
    create=Operation(
        _create,
        "identity:create_project",
        "Create a project, below another project or at the top level of a domain; with ``is_domain`` a domain.",
    ),
    update=Operation(_update, "identity:update_project", "Update the specified fields."),
    delete=Operation(
        lambda view, project: delete_project(project),
        "identity:delete_project",
        "Delete a project without resources and children, or a disabled domain with all its contents.",
    ),
    whole_list="identity:list_projects",
    attributes=(
        Attribute(
            "options", IMMUTABLE, post=True, put=True, additional=True, show=lambda row: row.extra.get("options", {})
        ),
        Attribute("id", KEY, refused=True, fixed=InvalidInputError),
        Attribute("name", NAME, post=True, put=True, required=True),
        Attribute("domain_id", KEY_OR_NULL, post=True, fixed=InvalidInputError),
        Attribute("description", TEXT, post=True, put=True),
        Attribute("enabled", FLAG, post=True, put=True),
        Attribute(
            "parent_id", KEY_OR_NULL, post=True, fixed=ForbiddenError, show=lambda row: row.parent_id or row.domain_id
        ),
        Attribute("is_domain", FLAG, post=True, fixed=InvalidInputError, show=lambda row: False),
        Attribute("tags", TAGS, post=True, put=True, show=lambda row: sorted(tag.name for tag in row.tags.all())),
    ),
    lists=Paged(
        texts=("name", "domain_id"),
        booleans=("enabled",),
        tags=True,
        sort_keys=("id", "name", "enabled", "domain_id", "parent_id", "description"),
    ),
    extra=255,
)
ACTING_DOMAIN = replace(
    domains.DOMAIN,
    name="project",
    plural="projects",
    path="projects",
    parameter="project_id",
    create=Operation(_create_domain, "identity:create_project"),
    whole_list="identity:list_projects",
    attributes=(
        *(
            replace(each, post=each.post and each.shown, refused=each.refused and each.shown)
            for each in domains.DOMAIN.attributes
        ),
        Attribute("domain_id", KEY_OR_NULL, post=True, fixed=InvalidInputError, show=lambda row: None),
        Attribute("parent_id", KEY_OR_NULL, post=True, fixed=ForbiddenError, show=lambda row: None),
        Attribute("is_domain", FLAG, post=True, fixed=InvalidInputError, show=lambda row: True),
    ),
)
"""A domain as a project, at the paths of projects."""


class _ProjectView(DomainView):
    """A view of projects, in which a request can be about a domain that acts as a project."""

    def act_as_domain(self) -> None:
        self.resource = ACTING_DOMAIN  # type: ignore[misc]  # in this request

    @property
    def is_about_domain(self) -> bool:
        return self.resource is ACTING_DOMAIN

    def wanted(self) -> Sequence[Attribute]:
        found: Sequence[Attribute] = self.resource.attributes
        return found


class ProjectsView(_ProjectView, CollectionView):
    """``/v3/projects``."""

    def page(self) -> tuple[Sequence[Any], dict[str, Any]]:
        if flag(self.request, "is_domain"):
            self.act_as_domain()
        return super().page()

    def check_rule(self, request: Request) -> None:
        """Check the rule of projects, and for a project that acts as a domain also that of domains."""
        super().check_rule(request)
        if request.method == "POST" and self.claimed("project", "is_domain"):
            policy.enforce(self.context, "identity:create_domain")

    def post(self, request: Request) -> Response:
        if self.checked_body()["project"].get("is_domain"):
            self.act_as_domain()
        return super().post(request)


class ProjectDetailView(_ProjectView, RecordDetailView):
    """``/v3/projects/{id}``."""

    queries = {"GET": project_trees.KNOWN}

    def check_rule(self, request: Request) -> None:
        """Check the rule of the project; if it acts as a domain, check also the rule of the domain."""
        if self.found is None and (domain := by_id(Domain, self.ids["project_id"].replace("\0", "")[:64])):
            self.act_as_domain()
            self.found = domain
        super().check_rule(request)
        if self.is_about_domain and request.method in _DOMAIN_RULES:
            policy.enforce(self.context, _DOMAIN_RULES[request.method], {"domain_id": self.found.id})

    def hide(self, rule: str) -> None:
        """Answer 403 instead of 404 to the administrator of the domain that the project acts as, who may read it but
        not change it.
        """
        if not self.is_about_domain or self.found.id != self.context.domain_id:
            super().hide(rule)

    def policy_target(self) -> dict[str, object]:
        """Return the policy target. A project that acts as a domain is in this domain for reading, and in no domain for
        changes.
        """
        if not self.is_about_domain:
            return super().policy_target()
        if self.request.method in {"GET", "HEAD"}:
            return {"project_id": None, "domain_id": self.found.id}
        return {"project_id": self.ids["project_id"], "domain_id": None}

    def get(self, request: Request, identity: str) -> Response:
        answer = super().get(request, identity)
        if not self.is_about_domain:
            answer.data["project"] |= project_trees.around(self, self.record, self._sees)
        return answer

    def _sees(self, found: list[Project]) -> list[Project]:
        """Return the projects that the caller may see: all for administrators, otherwise the projects on which the
        caller has a role.
        """
        if policy.allows(self.context, "identity:list_projects", {"domain_id": self.record.domain_id}):
            return found
        user_id = self.context.user_id
        open_to = {project.id for project in projects_of(user_id)} if user_id and found else set()
        return [project for project in found if project.id in open_to]


ROUTES = routes(PROJECT, dialect=replace(DIRECTORY, lists=ProjectsView, details=ProjectDetailView))
