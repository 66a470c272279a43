"""``/v3/projects``, their tags, parents and subtrees. A domain is also a project with ``is_domain``, and can be
created, updated and deleted as such.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import Call, Entries, Filter, Json, Operation, Values, inner, parts
from portal.api.identity import dialect
from portal.api.identity.dialect import lists
from portal.api.identity.directory import base, domains
from provisioning.common.errors import ForbiddenError, InvalidInputError, NotFoundError
from provisioning.common.lists.listing import Part
from provisioning.identity import policy
from provisioning.identity.directory.listing import RowPage, projects
from provisioning.identity.models import Domain, Project
from provisioning.identity.selectors.entries import projects_of
from provisioning.identity.selectors.lookups import by_id, existing
from provisioning.identity.selectors.project_tree import parents_of, subtree_of
from provisioning.identity.services import projects as services
from provisioning.identity.services.domains import create_domain

KNOWN = lists.parameters(
    {f"{name}_as_{form}": {"type": "string"} for name in ("parents", "subtree") for form in ("list", "ids")}
)
"""The parameters that ``around`` reads."""
Sees = Callable[[list[Project]], list[Project]]


def around(view: base.RecordDetailView, project: Project, sees: Sees) -> Json:
    """Return ``parents`` and ``subtree`` as the query requests them: ``…_as_list`` or ``…_as_ids``.

    Lists are filtered by ``sees``. Raises InvalidInputError if the query requests parents, or the subtree, in both
    forms.
    """
    request = view.request
    requested = {
        name for name in ("parents", "subtree") for form in ("list", "ids") if lists.flag(request, f"{name}_as_{form}")
    }
    shape: Json = {}
    for name in sorted(requested):
        as_list, as_ids = (lists.flag(request, f"{name}_as_{form}") for form in ("list", "ids"))
        if as_list and as_ids:
            raise InvalidInputError(f"Use either {name}_as_list or {name}_as_ids, not both.", field=f"{name}_as_ids")
        found = parents_of(project) if name == "parents" else subtree_of(project)
        if as_list:
            shape[name] = [{"project": each} for each in view.shapes(sees(found))]
        else:
            shape[name] = _above(project, found) if name == "parents" else _below(project, found)
    return shape


def _above(project: Project, parents: list[Project]) -> Json:
    """Return the ids of the parents, nested from the nearest to the domain, whose value is None."""
    nested: Json = {project.domain_id: None}
    for parent in reversed(parents):
        nested = {parent.id.hex: nested}
    return nested


def _below(project: Project, subtree: list[Project]) -> Json | None:
    """Return the ids of the children, each with its own children nested; None for a project without children."""
    children: dict[uuid.UUID | None, list[Project]] = {}
    for each in subtree:
        children.setdefault(each.parent_id, []).append(each)

    def nested(key: uuid.UUID) -> Json | None:
        return {child.id.hex: nested(child.id) for child in children.get(key, [])} or None

    return nested(project.id)


_DOMAIN_RULES = {"PATCH": "identity:update_domain", "DELETE": "identity:delete_domain"}


def _list(view: base.CollectionView, part: Part) -> RowPage[Project]:
    return projects(
        part,
        within=view.within if view.everything else None,
        open_to=None if view.everything else view.context.user_id,
        parent=view.request.query_params.get("parent_id"),
    )


def _create(view: base.CollectionView, values: Values) -> Project:
    values.pop("is_domain", None)
    domain_id, parent = _place(view, values.pop("domain_id", None), values.pop("parent_id", None))
    try:
        domain = view.domain_to_make_in(domain_id)
    except NotFoundError as error:  # not the 404 of users and groups, as in Keystone
        raise InvalidInputError(error.message, field="domain_id") from error
    return services.create_project(domain, values.pop("name"), parent=parent, **values)


def _place(view: base.CollectionView, domain_id: str | None, above: str | None) -> tuple[str, Project | None]:
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


def _create_domain(view: base.CollectionView, values: Values) -> Domain:
    """Create a domain, which has neither a domain nor a parent."""
    values.pop("is_domain")
    for name in ("parent_id", "domain_id"):
        if values.pop(name, None):
            raise InvalidInputError("Only root projects are allowed to act as domains.", field=name)
    return create_domain(values.pop("name"), **values)


def _update(view: base.RecordDetailView, project: Project, values: Values) -> Project:
    services.update_project(project, **values)
    return project


PROJECT = base.Resource(
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
        lambda view, project: services.delete_project(project),
        "identity:delete_project",
        "Delete a project without resources and children, or a disabled domain with all its contents.",
    ),
    whole_list="identity:list_projects",
    attributes=(
        dialect.Attribute(
            "options",
            dialect.IMMUTABLE,
            post=True,
            put=True,
            additional=True,
            show=lambda row: row.extra.get("options", {}),
        ),
        dialect.Attribute("id", dialect.KEY, refused=True, fixed=InvalidInputError),
        dialect.Attribute("name", dialect.NAME, post=True, put=True, required=True),
        dialect.Attribute("domain_id", dialect.KEY_OR_NULL, post=True, fixed=InvalidInputError),
        dialect.Attribute("description", dialect.TEXT, post=True, put=True),
        dialect.Attribute("enabled", dialect.FLAG, post=True, put=True),
        dialect.Attribute(
            "parent_id",
            dialect.KEY_OR_NULL,
            post=True,
            fixed=ForbiddenError,
            show=lambda row: row.parent_id or row.domain_id,
        ),
        dialect.Attribute("is_domain", dialect.FLAG, post=True, fixed=InvalidInputError, show=lambda row: False),
        dialect.Attribute(
            "tags", base.TAGS, post=True, put=True, show=lambda row: sorted(tag.name for tag in row.tags.all())
        ),
    ),
    lists=lists.Paged(
        filters=(Filter("name"), Filter("domain_id"), lists.ENABLED, *lists.TAGS),
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
        dialect.Attribute("domain_id", dialect.KEY_OR_NULL, post=True, fixed=InvalidInputError, show=lambda row: None),
        dialect.Attribute("parent_id", dialect.KEY_OR_NULL, post=True, fixed=ForbiddenError, show=lambda row: None),
        dialect.Attribute("is_domain", dialect.FLAG, post=True, fixed=InvalidInputError, show=lambda row: True),
    ),
)
"""A domain as a project, at the paths of projects."""


class _ProjectView(base.DomainView):
    """A view of projects, in which a request can be about a domain that acts as a project."""

    def act_as_domain(self) -> None:
        self.resource = ACTING_DOMAIN  # type: ignore[misc]  # in this request

    @property
    def is_about_domain(self) -> bool:
        return self.resource is ACTING_DOMAIN

    def selected(self) -> Sequence[dialect.Attribute]:
        found: Sequence[dialect.Attribute] = self.resource.attributes
        return found


class ProjectsView(_ProjectView, base.CollectionView):
    """``/v3/projects``."""

    def page(self) -> tuple[Sequence[Any], Json]:
        if lists.flag(self.request, "is_domain"):
            self.act_as_domain()
        return super().page()

    def check_rule(self, request: Request) -> None:
        """Check the rule of projects, and for a project that acts as a domain also the rule of domains."""
        super().check_rule(request)
        if request.method == "POST" and self.claimed("project", "is_domain"):
            policy.enforce(self.context, "identity:create_domain")

    def post(self, request: Request) -> Any:
        if self.checked_body()["project"].get("is_domain"):
            self.act_as_domain()
        return super().post(request)


class ProjectDetailView(_ProjectView, base.RecordDetailView):
    """``/v3/projects/{id}``."""

    queries = {"GET": KNOWN}

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

    def get(self, request: Request, identity: str) -> Json:
        answer: Json = super().get(request, identity)
        if not self.is_about_domain:
            answer["project"] |= around(self, self.record, self._sees)
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


_PROJECTS = dialect.routes(PROJECT, dialect=replace(base.DIRECTORY, lists=ProjectsView, details=ProjectDetailView))


def _tags_shown(view: Any, made: object) -> Json:
    """Return the tags of the project in the path."""
    links = {"next": None, "previous": None, **lists.self_link(view.request, lists.own_path(view.request))}
    return {"tags": sorted(each.name for each in view.record.tags.all()), "links": links}


def _tag_added(view: Any, made: None) -> Response:
    """Answer with the address of the tag."""
    path = f"{PROJECT.address(view.record)}/tags/{view.kwargs['tag']}"
    return Response(status=201, headers={"Location": lists.self_link(view.request, path)["self"]})


def _tagged_project(project: Project, *tag: str) -> Project:
    return project


_TAGS = Entries(
    name="tags",
    find=_tagged_project,
    values=lambda view, project: {each.name for each in project.tags.all()},
    missing="Could not find project tag: {key:.64}.",
)
_TAGS_OF_PROJECT = dialect.patterns(
    parts(
        base.RecordView,
        "projects/{project_id}/tags",
        {
            "GET": Call(_tagged_project, "identity:list_project_tags", shape=_tags_shown),
            "PUT": Call(
                services.set_tags,
                "identity:update_project_tags",
                "Replace the tags of the project.",
                body=inner({"tags": base.TAGS.schema}, ("tags",)),
                shape=_tags_shown,
            ),
            "DELETE": Call(
                lambda project: services.set_tags(project, []), "identity:delete_project_tags", "Remove all tags."
            ),
            "GET /{tag}": _TAGS.check("identity:get_project_tag", "Answer 204 if the project has the tag."),
            "PUT /{tag}": Call(
                services.add_tag,
                "identity:create_project_tag",
                "Add a tag to the project.",
                shape=_tag_added,
                status=201,
            ),
            "DELETE /{tag}": Call(services.remove_tag, "identity:delete_project_tag", "Remove the tag."),
        },
        resource=PROJECT,
    )
)


ROUTES = _PROJECTS | _TAGS_OF_PROJECT
