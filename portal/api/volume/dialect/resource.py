"""A resource of the Block Storage API, and the actions that the one key in the body of a POST names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.response import Response

from portal.api.common.requests import Schema, Version
from portal.api.frame import resource as frame
from portal.api.frame.resource import Attribute, Checked
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import EMPTY


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


@dataclass(frozen=True)
class Actions:
    """The actions at the path of a resource: rule and description of the path, and name → action."""

    rule: str
    description: str
    by_name: Mapping[str, Action]


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


@dataclass(frozen=True, kw_only=True)
class Resource(frame.Resource):
    """The declaration of a resource, with the filters and sort keys of its lists."""

    lists: Lists
    actions: Actions | None = None
    """The actions of ``POST /{resources}/{id}/action``."""


class Links(Attribute):
    """The links of an object."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda row: view.links(f"{view.resource.path}/{row.pk}")


LINKS = Links("links", Checked({"type": "array"}))
