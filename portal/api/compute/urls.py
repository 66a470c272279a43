"""URLs of the Compute API under ``/compute``: version documents, servers, resources, and deprecated and removed
parts.
"""

from django.urls import URLPattern, path, re_path

from portal.api.compute import dialect, quotas, versions
from portal.api.compute.proxies import base, extensions, images, network, volumes
from portal.api.compute.resources import (
    aggregates,
    flavors,
    hypervisors,
    keypairs,
    migrations,
    scheduling,
    server_groups,
    services,
    usage,
)
from portal.api.compute.server_actions.views import ServerActionView
from portal.api.compute.servers import attachments, events, guests, views
from portal.api.frame import urls
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


VIEWS: dict[str, type[dialect.ComputeView]] = {
    "images": images.ImagesView,
    "images/detail": images.ImagesDetailView,
    "os-volumes_boot": views.ServersView,
    "os-volumes_boot/detail": views.ServersDetailView,
    "os-volumes_boot/<str:server_id>": views.OneServerView,
    "os-volumes_boot/<str:server_id>/action": ServerActionView,
}
"""Address below ``/compute/v2.1`` → view."""
_PARTS = images.PARTS | network.FLOATING_IPS | network.NETWORKS | network.SECURITY_GROUPS | volumes.ASSISTED_SNAPSHOTS
_refusing = {row.path: base.view_of(row.path, _PARTS.get(row.path, base.ProxyView)) for row in base.TABLE}
"""Path → the view, which also has the methods that the table does not have."""
PROXIES: list[URLPattern] = [
    *(path(f"/v2.1/{address}", view.as_view()) for address, view in VIEWS.items()),
    *urls("/v2.1/", _refusing | {where: view for where, view in _PARTS.items() if where not in _refusing}),
    *dialect.routes(extensions.EXTENSION),
    *dialect.routes(volumes.VOLUME, dialect=volumes.PROXY),
    *dialect.routes(volumes.SNAPSHOT, dialect=volumes.PROXY),
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
        *dialect.routes(server_groups.SERVER_GROUP),
        *dialect.routes(flavors.FLAVOR, flavors.PARTS, flavors.FLAVORS),
        *dialect.routes(keypairs.KEYPAIR),
        path("/v2.1/os-simple-tenant-usage", usage.UsagesView.as_view()),
        path("/v2.1/os-simple-tenant-usage/<str:project_id>", usage.UsageView.as_view()),
        *dialect.routes(
            aggregates.AGGREGATE, {"action": aggregates.AggregateActionView, "images": aggregates.AggregateImagesView}
        ),
        *dialect.routes(services.SERVICE, dialect=services.SERVICES),
        path("/v2.1/os-hypervisors/statistics", hypervisors.HypervisorStatisticsView.as_view()),
        path("/v2.1/os-hypervisors/<str:pattern>/search", hypervisors.HypervisorSearchView.as_view()),
        path("/v2.1/os-hypervisors/<str:pattern>/servers", hypervisors.HypervisorServersView.as_view()),
        *dialect.routes(hypervisors.HYPERVISOR, {"uptime": hypervisors.HypervisorUptimeView}, hypervisors.HYPERVISORS),
        *PROXIES,
        re_path("^/", versions.NoSuchResource.as_view()),
    ]
)
urlpatterns = with_or_without_slash(with_project(ROUTES))
