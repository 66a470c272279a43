"""Views of lists, and of actions in the body of a POST."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.common.validation import Schema
from portal.api.volume.base import VolumeView
from portal.api.volume.frame.listing import Lists, more_links, page_of, wants_all
from portal.api.volume.frame.schemas import EMPTY
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity import policy


class ListingView(VolumeView):
    """Base of lists: filters, sorts and pages the result of ``rows``, and converts it with ``shape``."""

    lists: ClassVar[Lists]
    path: ClassVar[str]
    """Path below the endpoint, for the link to the next page."""

    def rows(self, *, all_projects: bool) -> QuerySet[Any]:
        """Return the rows that the caller may see."""
        raise NotImplementedError

    def shapes(self, rows: list[Any]) -> list[dict[str, Any]]:
        """Return the rows in Cinder's format."""
        raise NotImplementedError

    def listed(self, request: Request) -> Response:
        """Answer with a page."""
        lists = self.lists
        page = page_of(lists, self.rows(all_projects=wants_all(request)), request, self.microversion)
        body: dict[str, Any] = {lists.plural: self.shapes(page.rows)}
        more = more_links(request, page, f"{self.base}/{self.path}")
        body |= {f"{lists.plural}_links": more} if more else {}
        return Response(body | ({} if page.count is None else {"count": page.count}))


@dataclass(frozen=True, kw_only=True)
class Action:
    """One action: ``act`` gets the view, the object's id and the action's argument, and returns the response."""

    rule: str
    act: Callable[[Any, str, Any], Response]
    schema: Schema | Callable[[Version], Schema] | None = None
    """Schema of the argument; None without one."""
    since: Version = (3, 0)

    def schema_at(self, version: Version) -> Schema:
        made = self.schema(version) if callable(self.schema) else self.schema
        return EMPTY if made is None else made


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
        """Return the action in a body; InvalidInputError."""
        names = [str(name) for name in body] if isinstance(body, dict) else []
        if len(names) != 1:
            raise InvalidInputError("Malformed request body: it must name one action.")
        if names[0] not in self.actions:
            raise NotFoundError(f"There is no such action: {names[0][:64]}")
        return names[0]


def actions_schema(actions: Mapping[str, Action]) -> Callable[[Version], Schema]:
    """Return a function for the schema of a body with any of the actions, for the OpenAPI document."""

    def schema(version: Version) -> Schema:
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
