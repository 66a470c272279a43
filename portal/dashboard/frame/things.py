"""Resources with a page: the star in the head of the page, and the starred ones in the side bar."""

from dataclasses import dataclass

from django.urls import reverse

from provisioning.common.context import RequestContext
from provisioning.starred import services

PAGES = {
    "instance": "instance",
    "volume": "volume",
    "network": "network",
    "router": "router",
    "floating_ip": "floating_ip",
    "security_group": "security_group",
    "host": "host",
    "project": "project_page",
    "user": "user_page",
    "group": "group_page",
}
"""Kind → the URL name of its page."""
ICONS = {
    "instance": "hdd-stack",
    "volume": "device-hdd",
    "network": "hdd-network",
    "subnet": "hdd-network",
    "port": "hdd-network",
    "router": "router",
    "floating_ip": "signpost",
    "security_group": "shield",
    "host": "hdd-rack",
    "project": "collection",
    "user": "person",
    "group": "people",
    "image": "disc",
    "volume_snapshot": "camera",
    "volume_backup": "archive",
    "key_pair": "key",
    "server_group": "boxes",
    "flavor": "sliders",
}


@dataclass(frozen=True, slots=True)
class Thing:
    """A resource with a page."""

    kind: str
    id: str
    name: str

    @property
    def address(self) -> str:
        return reverse(f"dashboard:{PAGES[self.kind]}", args=[self.id])

    @property
    def label(self) -> str:
        return self.kind.replace("_", " ").replace("floating ip", "floating IP").capitalize()

    @property
    def icon(self) -> str:
        return ICONS[self.kind]


def starred(context: RequestContext) -> list[Thing]:
    """Return the caller's starred resources."""
    return [Thing(row.kind, str(row.resource_id), row.name) for row in services.stars_for(context) if row.kind in PAGES]
