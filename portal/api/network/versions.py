"""Version and resources of the Networking API."""

from typing import Any

from portal.api.common.conditional import document
from portal.api.common.links import endpoint
from portal.api.network.dialect.views import NetworkView
from portal.api.network.registry import RESOURCES


def _base(view: NetworkView) -> str:
    return f"{endpoint(view.request, 'network')}/v2.0"


def _link(href: str) -> list[dict[str, str]]:
    return [{"rel": "self", "href": href}]


def _resources(view: NetworkView) -> list[dict[str, Any]]:
    base = _base(view)
    return [{"name": each.name, "collection": each.plural, "links": _link(f"{base}/{each.path}")} for each in RESOURCES]


VERSIONS = document(
    NetworkView,
    "List the only version.",
    lambda view: {"versions": [{"id": "v2.0", "status": "CURRENT", "links": _link(f"{_base(view)}/")}]},
)
"""``GET /network``."""
V2 = document(NetworkView, "List every resource with its address.", lambda view: {"resources": _resources(view)})
"""``GET /network/v2.0``."""
