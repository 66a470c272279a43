"""A script's socket: events of the project, or notifications, as JSON."""

from typing import Any

from portal.common.websockets import handshake
from portal.sockets.follower import Follower
from provisioning.common.errors import NotFoundError
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy
from provisioning.notifications.messages import TOPIC

OWN = "novella:notifications:follow"
ALL = "novella:notifications:follow:all_projects"
_DATA = "nova_object.data"
_HOSTS = ("host", "node")


class ScriptsConsumer(Follower):
    """``/ws/v1/events?since=<number>`` with ``X-Auth-Token``.

    Sends ``{"hello": n}`` first, then ``{"id": n, "kind": "…", "payload": {…}}`` for each event of the token's project,
    or ``{"resync": true, "id": n}`` if missed events are no longer stored. An event may be sent twice.

    With ``topic=notifications`` it sends notifications about the project's servers instead, without host names.
    Operators may add ``all_projects=1``: then it sends the notifications of all projects, with host names.
    """

    rule = "novella:events:follow"
    own_pages_only = False  # pages cannot send the header

    def token(self) -> str:
        return handshake.header(self.scope, "x-auth-token")

    def admit(self) -> None:
        """Read and authorize the topic. Raises NotFoundError for an unknown topic, and ForbiddenError."""
        topic = handshake.parameter(self.scope, "topic")
        if topic not in {"", TOPIC}:
            raise NotFoundError("There is no such topic.")
        self._notifications = topic == TOPIC
        self._all = self._notifications and handshake.parameter(self.scope, "all_projects") == "1"
        if self._notifications:
            policy.enforce(self.context, ALL if self._all else OWN)

    @property
    def topic(self) -> str:
        return TOPIC if self._notifications else super().topic

    @property
    def where(self) -> dict[str, Any]:
        """Return the condition for notifications about the project's servers; empty if the topic is different or all
        projects are requested.
        """
        if not self._notifications or self._all:
            return {}
        return {f"payload__{_DATA}__tenant_id": self._project}

    def concerns(self, event: LoggedEvent) -> bool:
        """Whether a notification is about one of the project's servers; True if the topic is different or all projects
        are requested.
        """
        if not self._notifications or self._all:
            return True
        return bool(_data(event).get("tenant_id") == self._project)

    async def serve(self) -> None:
        """Send missed events, then new ones."""
        events = await self.begin()
        while True:
            if events is None:
                await self.send_json({"resync": True, "id": self.cursor})
            for event in events or ():
                await self.send_json({"id": event.id, "kind": event.kind, "payload": self._shown(event)})
            events = await self.news()

    @property
    def _project(self) -> str:
        return self.context.project_id.hex if self.context.project_id else ""

    def _shown(self, event: LoggedEvent) -> dict[str, Any]:
        """Return the payload of an event as this reader may see it.

        Host names are removed from notifications, unless the notifications of all projects are requested.
        """
        if not self._notifications or self._all:
            return event.payload
        data = {**_data(event), **dict.fromkeys(_HOSTS)}
        payload = {**event.payload["payload"], _DATA: data}
        publisher = event.payload["publisher_id"].partition(":")[0]
        return {**event.payload, "publisher_id": publisher, "payload": payload}


def _data(event: LoggedEvent) -> dict[str, Any]:
    data = event.payload.get("payload", {}).get(_DATA, {})
    return data if isinstance(data, dict) else {}
