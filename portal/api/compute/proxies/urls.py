"""URLs of deprecated and removed parts of the Compute API, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.dialect.base import ComputeView
from portal.api.compute.dialect.resource import routes
from portal.api.compute.proxies import (
    assisted_snapshots,
    extensions,
    floating_ips,
    images,
    networks,
    security_groups,
    volumes,
)
from portal.api.compute.proxies.base import TABLE, ProxyView, view_of
from portal.api.compute.server_actions.views import ServerActionView
from portal.api.compute.servers.views import OneServerView, ServersDetailView, ServersView
from portal.api.frame.parts import urls

VIEWS: dict[str, type[ComputeView]] = {
    "images": images.ImagesView,
    "images/detail": images.ImagesDetailView,
    "os-volumes_boot": ServersView,
    "os-volumes_boot/detail": ServersDetailView,
    "os-volumes_boot/<str:server_id>": OneServerView,
    "os-volumes_boot/<str:server_id>/action": ServerActionView,
}
"""Address below ``/compute/v2.1`` → view."""
_PARTS = images.PARTS | floating_ips.PARTS | networks.PARTS | security_groups.PARTS | assisted_snapshots.PARTS
_refusing = {row.path: view_of(row.path, _PARTS.get(row.path, ProxyView)) for row in TABLE}
"""Path → the view, which also has the methods that the table does not have."""
urlpatterns: list[URLPattern] = [
    *(path(f"/v2.1/{address}", view.as_view()) for address, view in VIEWS.items()),
    *urls("/v2.1/", _refusing | {where: view for where, view in _PARTS.items() if where not in _refusing}),
    *routes(extensions.EXTENSION),
    *routes(volumes.VOLUME, dialect=volumes.PROXY),
    *routes(volumes.SNAPSHOT, dialect=volumes.PROXY),
]
