"""URLs of the Compute API under ``/compute``: version documents, servers, resources, and deprecated and removed
parts.
"""

from django.urls import URLPattern, path, re_path

from portal.api.compute import dialect, quotas, versions
from portal.api.compute.dialect import ComputeView, routes
from portal.api.compute.proxies import extensions, images, network, volumes
from portal.api.compute.proxies.base import TABLE, ProxyView, view_of
from portal.api.compute.resources import aggregates, flavors, hypervisors, migrations, scheduling, services, usage
from portal.api.compute.resources.aggregates import AGGREGATE, AggregateActionView, AggregateImagesView
from portal.api.compute.resources.flavors import FLAVOR, FLAVORS
from portal.api.compute.resources.keypairs import KEYPAIR
from portal.api.compute.resources.server_groups import SERVER_GROUP
from portal.api.compute.resources.services import SERVICE, SERVICES
from portal.api.compute.server_actions.views import ServerActionView
from portal.api.compute.servers import attachments, events, guests, views
from portal.api.compute.servers.views import OneServerView, ServersDetailView, ServersView
from portal.api.frame.parts import urls
from portal.common.http.routing import by_prefix, with_or_without_slash, with_project

_SERVER = "/v2.1/servers/<str:server_id>"

SERVERS: list[URLPattern] = [
    path("/v2.1/servers", views.ServersView.as_view()),
    path("/v2.1/servers/detail", views.ServersDetailView.as_view()),
    path(_SERVER, views.OneServerView.as_view()),
    *urls("/v2.1/", views.PARTS | attachments.INTERFACES | attachments.VOLUME_ATTACHMENTS | guests.GUEST_DISKS),
    path(f"{_SERVER}/remote-consoles", guests.RemoteConsolesView.as_view()),
    path("/v2.1/os-console-auth-tokens/<str:console_token>", guests.ConsoleAuthTokenView.as_view()),
    path("/v2.1/os-server-external-events", events.ExternalEventsView.as_view()),
    path(f"{_SERVER}/os-instance-actions", events.InstanceActionsView.as_view()),
    path(f"{_SERVER}/os-instance-actions/<str:request_id>", events.InstanceActionView.as_view()),
]


VIEWS: dict[str, type[ComputeView]] = {
    "images": images.ImagesView,
    "images/detail": images.ImagesDetailView,
    "os-volumes_boot": ServersView,
    "os-volumes_boot/detail": ServersDetailView,
    "os-volumes_boot/<str:server_id>": OneServerView,
    "os-volumes_boot/<str:server_id>/action": ServerActionView,
}
"""Address below ``/compute/v2.1`` → view."""
_PARTS = images.PARTS | network.FLOATING_IPS | network.NETWORKS | network.SECURITY_GROUPS | volumes.ASSISTED_SNAPSHOTS
_refusing = {row.path: view_of(row.path, _PARTS.get(row.path, ProxyView)) for row in TABLE}
"""Path → the view, which also has the methods that the table does not have."""
PROXIES: list[URLPattern] = [
    *(path(f"/v2.1/{address}", view.as_view()) for address, view in VIEWS.items()),
    *urls("/v2.1/", _refusing | {where: view for where, view in _PARTS.items() if where not in _refusing}),
    *routes(extensions.EXTENSION),
    *routes(volumes.VOLUME, dialect=volumes.PROXY),
    *routes(volumes.SNAPSHOT, dialect=volumes.PROXY),
]


ROUTES = by_prefix(
    [
        path("", versions.VERSIONS.as_view()),
        path("/", versions.VERSIONS.as_view()),
        path("/v2.1", versions.V21.as_view()),
        path("/v2.1/", versions.V21.as_view()),
        path("/v2", versions.V20.as_view()),
        path("/v2/", versions.V20.as_view()),
        re_path("^/v2/(?P<rest>.+)$", dialect.LegacyView.as_view()),
        *SERVERS,
        path("/v2.1/servers/<str:server_id>/action", ServerActionView.as_view()),
        path("/v2.1/os-migrations", migrations.MigrationsView.as_view()),
        *urls("/v2.1/", migrations.MIGRATIONS | usage.MEASURES | migrations.DRAINS),
        *urls("/v2.1/", scheduling.PARTS | usage.AUDITS | services.HOSTS | aggregates.AVAILABILITY_ZONES),
        *urls("/v2.1/", quotas.LIMITS | quotas.QUOTA_SETS),
        path("/v2.1/novella-would-fit", scheduling.WouldFitView.as_view()),
        *routes(SERVER_GROUP),
        *routes(FLAVOR, flavors.PARTS, FLAVORS),
        *routes(KEYPAIR),
        path("/v2.1/os-simple-tenant-usage", usage.UsagesView.as_view()),
        path("/v2.1/os-simple-tenant-usage/<str:project_id>", usage.UsageView.as_view()),
        *routes(AGGREGATE, {"action": AggregateActionView, "images": AggregateImagesView}),
        *routes(SERVICE, dialect=SERVICES),
        path("/v2.1/os-hypervisors/statistics", hypervisors.HypervisorStatisticsView.as_view()),
        path("/v2.1/os-hypervisors/<str:pattern>/search", hypervisors.HypervisorSearchView.as_view()),
        path("/v2.1/os-hypervisors/<str:pattern>/servers", hypervisors.HypervisorServersView.as_view()),
        *routes(hypervisors.HYPERVISOR, {"uptime": hypervisors.HypervisorUptimeView}, hypervisors.HYPERVISORS),
        *PROXIES,
        re_path("^/", versions.NoSuchResource.as_view()),
    ]
)
urlpatterns = with_or_without_slash(with_project(ROUTES))
