"""Actions that were removed from the API and answer 410."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from portal.api.compute.server_actions.registry import NOTHING, Action
from provisioning.common.errors import GoneError

if TYPE_CHECKING:
    from portal.api.compute.servers.base import ServerView


def _gone(view: ServerView, server_id: str, body: Any) -> Response:
    raise GoneError("This resource is no longer available. No forwarding address is given.")


ACTIONS = {
    "resetNetwork": Action("novella:removed_apis", NOTHING, _gone),
}
