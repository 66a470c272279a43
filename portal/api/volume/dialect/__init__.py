"""The dialect of the Block Storage API: declarations of resources, and views for lists and for actions. The only key in
the body of a POST names the action.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api import frame
from portal.api.volume.dialect import schemas
from portal.api.volume.dialect.listing import LIST_PAGES, Lists, page_of, wants_all
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity import policy

MICROVERSIONS = frame.Microversions("volume", (3, 0), (3, 71))
"""The supported range; fields appear and disappear as in the reference, up to 3.71."""


class VolumeView(frame.ServiceView):
    """A resource of the Block Storage API.

    Its path may contain the caller's project, ``/v3/{project_id}/volumes``; the routes remove it.
    """

    service: ClassVar[str] = "volume"
    microversions: ClassVar[frame.Microversions | None] = MICROVERSIONS
    url_project: str | None = None

    def dispatch(self, request: HttpRequest, *args: Any, url_project: str | None = None, **kwargs: Any) -> Any:
        """Store the project of the path; handlers are called without it."""
        self.url_project = url_project
        return super().dispatch(request, *args, **kwargs)

    def check_rule(self, request: Request) -> None:
        """Reject the path of another project, as Cinder does, then check the policy; a path with NUL characters
        is 404.
        """
        if self.url_project is not None and read_id(self.url_project) != self.context.project_id:
            raise InvalidInputError("Malformed request url")
        super().check_rule(request)
        if "\0" in request.path:
            raise NotFoundError("The resource could not be found.")

    @property
    def own_project(self) -> uuid.UUID:
        return self.context.project_id or NOBODY

    @property
    def base(self) -> str:
        """The endpoint's address, with the project if the request's path contains one."""
        whole = frame.endpoint(self.request, "volume")
        return whole if self.url_project is None else f"{whole}/{self.url_project}"

    def links(self, path: str) -> list[dict[str, str]]:
        """Return the links of the object at ``path``, ``volumes/{id}``."""
        project = "" if self.url_project is None else f"/{self.url_project}"
        root = frame.endpoint(self.request, "volume").removesuffix("/v3")
        return [
            {"rel": "self", "href": f"{self.base}/{path}"},
            {"rel": "bookmark", "href": f"{root}{project}/{path}"},
        ]


@dataclass(frozen=True, kw_only=True)
class Action:
    """One action: ``act`` gets the view, the object's id and the action's argument; see ``ServiceView.acted``."""

    rule: str
    act: Callable[[Any, str, Any], frame.Json | None]
    schema: frame.Schema | Callable[[frame.Version], frame.Schema] | None = None
    """Schema of the argument; None for an action without an argument."""
    since: frame.Version = (3, 0)
    status: int = 0
    """Status of a success; default: 200, or 202 for a response without a body."""

    def schema_at(self, version: frame.Version) -> frame.Schema:
        made = self.schema(version) if callable(self.schema) else self.schema
        return schemas.EMPTY if made is None else made


@dataclass(frozen=True)
class Actions:
    """The actions at the path of a resource: rule and description of the path, and name → action."""

    rule: str
    description: str
    by_name: Mapping[str, Action]


def actions_schema(actions: Mapping[str, Action]) -> Callable[[frame.Version], frame.Schema]:
    """Return a function for the schema of a body with any of the actions, for the OpenAPI document."""

    def schema(version: frame.Version) -> frame.Schema:
        return {
            "type": "object",
            "properties": {
                name: action.schema_at(version) for name, action in actions.items() if version >= action.since
            },
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
        }

    return schema


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource, with the filters and sort keys of its lists."""

    lists: Lists
    actions: Actions | None = None
    """The actions of ``POST /{resources}/{id}/action``."""


class Links(frame.Attribute):
    """The links of an object."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda row: view.links(f"{view.resource.path}/{row.pk}")


LINKS = Links("links", frame.Checked({"type": "array"}))


class ResourceView(frame.ResourceView, VolumeView):
    """Base of the views of a resource."""

    resource: ClassVar[Resource]
    statuses = {"create": 202, "delete": 202}


class ListView(ResourceView, frame.ListView):
    """``/v3/{resources}``."""

    def rows(self, *, all_projects: bool) -> QuerySet[Any]:
        """Return the rows that the caller may see."""
        found: QuerySet[Any] = self.resource.list.call(self.context, all_projects=all_projects)
        return found

    def page(self) -> tuple[Sequence[Any], frame.Json]:
        """Return the requested page, the link to the next one, and the total number if it is requested."""
        rows = self.rows(all_projects=wants_all(self.request))
        page = page_of(self.resource.lists, rows, self.request, self.microversion)
        ids = [row.pk for row in page.rows]
        more = LIST_PAGES.links(self.request, page.page, ids, f"{self.base}/{self.path}")
        links = {f"{self.resource.plural}_links": more} if more else {}
        return page.rows, links | ({} if page.count is None else {"count": page.count})


class DetailView(ResourceView, frame.DetailView):
    """``/v3/{resources}/{id}``."""


class ActionsView(VolumeView):
    """``POST …/{id}/action``: the one key of the body names the action."""

    actions: ClassVar[Mapping[str, Action]]

    def act(self, request: Request, identity: str) -> Response:
        """Run the action in the body, if the policy allows it."""
        name = self.named(request.data)
        action = self.actions[name]
        policy.enforce(self.context, action.rule, self.policy_target())
        self.require(action.since)
        whole: frame.Schema = {
            "type": "object",
            "properties": {name: action.schema_at(self.microversion)},
            "required": [name],
            "additionalProperties": False,
        }
        return self.acted(action.act(self, identity, self.body(whole)[name]), action.status)

    def named(self, body: object) -> str:
        """Return the action in a body. Raises InvalidInputError."""
        names = [str(name) for name in body] if isinstance(body, dict) else []
        if len(names) != 1:
            raise InvalidInputError("Malformed request body: it must name one action.")
        if names[0] not in self.actions:
            raise NotFoundError(f"There is no such action: {names[0][:64]}")
        return names[0]


class ResourceActionsView(ResourceView, ActionsView):
    """``POST /v3/{resources}/{id}/action``."""

    http_method_names: list[str] = []

    def post(self, request: Request, identity: str) -> Response:
        return self.act(request, identity)


VOLUME = frame.Dialect(
    lists=ListView,
    details=DetailView,
    identity="<str:{parameter}>",
    query=lambda resource: resource.lists.schema,
)


def routes(
    resource: Resource, beside: Mapping[str, type[frame.ServiceView]] | None = None, dialect: frame.Dialect = VOLUME
) -> list[URLPattern]:
    """Return the routes of a resource below ``/v3``.

    ``beside``: path below one object → ordinary view.
    """
    one = dialect.path_of(resource)
    more = {f"{one}/{where}": view for where, view in (beside or {}).items()}
    found: dict[str, type[frame.ServiceView]] = dialect.views_of(resource) | _actions_of(resource) | more
    return frame.urls("/v3/", found)


def _actions_of(resource: Resource) -> dict[str, type[frame.ServiceView]]:
    if resource.actions is None:
        return {}
    actions = resource.actions.by_name
    span = max(resource.since, min(each.since for each in actions.values())), resource.until
    members = {
        "__doc__": ResourceActionsView.__doc__,
        "__module__": __name__,
        "resource": resource,
        "actions": actions,
        "rules": {"POST": resource.actions.rule},
        "action_rules": {name: action.rule for name, action in actions.items()},
        "versions": {"POST": span},
        "schemas": {"POST": actions_schema(actions)},
        "sentences": {"POST": resource.actions.description},
        "http_method_names": ["post"],
    }
    view = type(f"{resource.name}_{ResourceActionsView.__name__}", (ResourceActionsView,), members)
    return {f"{VOLUME.path_of(resource)}/action": view}
