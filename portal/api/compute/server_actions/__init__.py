"""``POST /servers/{id}/action`` (Compute API reference, "Servers - run an action").

Actions without arguments are derived from the registry of server actions. For all other actions, the modules here
define the body and the response.
"""

from portal.api.compute.server_actions import lifecycle, migrate, network, rebuild
from portal.api.compute.server_actions.registry import Action, plain
from portal.api.frame import Schema, Version
from provisioning.compute.actions.registry import actions

ACTIONS: dict[str, Action] = {
    **{action.api: plain(action) for action in actions.values() if action.api and not action.takes_request},
    **lifecycle.ACTIONS,
    **network.ACTIONS,
    **rebuild.ACTIONS,
    **migrate.ACTIONS,
}
"""The key in the body → the action."""


def any_action(version: Version) -> Schema:
    """Return the schema of a body with any of the actions that a microversion has, for the OpenAPI document."""
    there = {name: action for name, action in ACTIONS.items() if action.minimum <= version <= action.maximum}
    return {"oneOf": [{"title": name} | action.body_schema(name, version) for name, action in there.items()]}
