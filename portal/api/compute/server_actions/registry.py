"""The actions of ``POST /servers/{id}/action``, each with its rule, microversions and body."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rest_framework.response import Response

from portal.api.compute.servers.shapes import ServerView
from portal.api.frame import Json, Schema, Version
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.registry import actions

Handler = Callable[[ServerView, str, Any], Json | Response | None]
"""Called with the view, the server's id and the value of the action's key in the body; see ``ServiceView.acted``."""


@dataclass(frozen=True)
class Action:
    """One action: its policy rule, the schema of its value (or a function of the microversion that returns it), its
    handler, and the microversions that have it.
    """

    rule: str
    schema: Schema | Callable[[Version], Schema]
    handler: Handler
    minimum: Version = (2, 1)
    maximum: Version = (2, 999)
    status: int = 0
    """Status of a success; default: 200, or 202 for a response without a body."""

    def body_schema(self, name: str, version: Version) -> Schema:
        """Return the schema of the whole body; repeated calls return the same object."""
        made = _MADE.get((name, version))
        if made is None:
            inner = self.schema(version) if callable(self.schema) else self.schema
            made = _MADE[name, version] = {
                "type": "object",
                "properties": {name: inner},
                "required": [name],
                "additionalProperties": False,
            }
        return made


_MADE: dict[tuple[str, Version], Schema] = {}

NOTHING: Schema = {}
"""The schema of actions without arguments: as in Nova, any value is valid."""
ONLY_NULL: Schema = {"type": "null"}
"""The schema of actions whose value must be null."""


def with_body(
    key: str, schema: Schema | Callable[[Version], Schema], handler: Handler, *, status: int = 0
) -> dict[str, Action]:
    """Return the entry of a server action: its key, the schema of its value, and its handler."""
    return {actions[key].api: Action(actions[key].rule, schema, handler, status=status)}


def plain(action: ServerAction[Any], schema: Schema = NOTHING, *, minimum: Version = (2, 1)) -> Action:
    """Return the entry of a server action without arguments."""

    def handler(view: ServerView, server_id: str, body: Any) -> None:
        action.begin(view.context, server_id)

    return Action(action.rule, schema, handler, minimum)
