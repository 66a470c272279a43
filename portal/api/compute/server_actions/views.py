"""``POST /servers/{id}/action``: the body's only key is the name of the action."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.server_actions import ACTIONS, any_action
from portal.api.compute.servers.shapes import ServerView
from portal.api.frame import validate
from provisioning.common.errors import InvalidInputError
from provisioning.compute import selectors
from provisioning.identity import policy


class ServerActionView(ServerView):
    """Runs one action on one server."""

    rules = {"POST": "os_compute_api:servers:show"}
    action_rules = {name: action.rule for name, action in ACTIONS.items()}
    schemas = {"POST": any_action}

    def post(self, request: Request, server_id: str) -> Response:
        """Look up the action by the key of the body and the microversion, check its policy rule for the server,
        validate the body, and run it.
        """
        body = request.data
        if not isinstance(body, dict) or len(body) != 1:
            raise InvalidInputError("Malformed request body: it must name one action.")
        name = next(iter(body))
        action = ACTIONS.get(name)
        if action is None:
            raise InvalidInputError(f"There is no such action: {name[:64]}")
        self.require(action.minimum, action.maximum)
        instance = selectors.instance_for(self.context, server_id)
        target = {"project_id": str(instance.project_id), "user_id": str(instance.user_id)}
        policy.enforce(self.context, action.rule, target)
        validate(body, action.body_schema(name, self.microversion))
        return self.acted(action.handler(self, str(instance.id), body[name]), action.status)
