"""Views of the resources of the Block Storage API: lists, and actions in the body of a POST."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.urls import URLPattern
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.requests import Schema
from portal.api.common.views import ServiceView
from portal.api.frame import views
from portal.api.frame.parts import urls
from portal.api.frame.views import Dialect
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.listing import LIST_PAGES, page_of, wants_all
from portal.api.volume.dialect.resource import Action, Resource, actions_schema
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity import policy


class ResourceView(views.ResourceView, VolumeView):
    """Base of the views of a resource."""

    resource: ClassVar[Resource]
    statuses = {"create": 202, "delete": 202}


class ListView(ResourceView, views.ListView):
    """``/v3/{resources}``."""

    def rows(self, *, all_projects: bool) -> QuerySet[Any]:
        """Return the rows that the caller may see."""
        found: QuerySet[Any] = self.resource.list.call(self.context, all_projects=all_projects)
        return found

    def page(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the requested page, the link to the next one, and the total number if it is requested."""
        rows = self.rows(all_projects=wants_all(self.request))
        page = page_of(self.resource.lists, rows, self.request, self.microversion)
        ids = [row.pk for row in page.rows]
        more = LIST_PAGES.links(self.request, page.page, ids, f"{self.base}/{self.path}")
        links = {f"{self.resource.plural}_links": more} if more else {}
        return page.rows, links | ({} if page.count is None else {"count": page.count})


class DetailView(ResourceView, views.DetailView):
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
        whole: Schema = {
            "type": "object",
            "properties": {name: action.schema_at(self.microversion)},
            "required": [name],
            "additionalProperties": False,
        }
        return action.act(self, identity, self.body(whole)[name])

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


VOLUME = Dialect(
    lists=ListView,
    details=DetailView,
    identity="<str:{parameter}>",
    query=lambda resource: resource.lists.schema,
)


def routes(
    resource: Resource, beside: Mapping[str, type[ServiceView]] | None = None, dialect: Dialect = VOLUME
) -> list[URLPattern]:
    """Return the routes of a resource below ``/v3``.

    ``beside``: path below one object → ordinary view.
    """
    one = dialect.path_of(resource)
    more = {f"{one}/{where}": view for where, view in (beside or {}).items()}
    found: dict[str, type[ServiceView]] = dialect.views_of(resource) | _actions_of(resource) | more
    return urls("/v3/", found)


def _actions_of(resource: Resource) -> dict[str, type[ServiceView]]:
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
