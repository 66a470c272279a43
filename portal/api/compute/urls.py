"""URLs of the Compute API under ``/compute``: the version documents, then each resource's own table."""

from django.urls import path, re_path

from portal.api.compute import versions
from portal.api.compute.dialect import legacy
from portal.api.compute.dialect.resource import routes
from portal.api.compute.flavors import parts as flavors
from portal.api.compute.flavors.resource import FLAVOR, FLAVORS
from portal.api.compute.proxies.urls import urlpatterns as proxies
from portal.api.compute.quotas import limits
from portal.api.compute.quotas import views as quotas
from portal.api.compute.resources import availability_zones, drains, hosts, measures, migrations, scheduling, usage
from portal.api.compute.resources.aggregates import AGGREGATE, AggregateActionView, AggregateImagesView
from portal.api.compute.resources.hypervisors import (
    HYPERVISOR,
    HYPERVISORS,
    HypervisorSearchView,
    HypervisorServersView,
    HypervisorStatisticsView,
    HypervisorUptimeView,
)
from portal.api.compute.resources.keypairs import KEYPAIR
from portal.api.compute.resources.server_groups import SERVER_GROUP
from portal.api.compute.resources.services import SERVICE, SERVICES
from portal.api.compute.server_actions.views import ServerActionView
from portal.api.compute.servers.urls import urlpatterns as servers
from portal.api.frame.parts import urls
from portal.common.routing import by_prefix, with_or_without_slash, with_project

ROUTES = by_prefix(
    [
        path("", versions.VERSIONS.as_view()),
        path("/", versions.VERSIONS.as_view()),
        path("/v2.1", versions.V21.as_view()),
        path("/v2.1/", versions.V21.as_view()),
        path("/v2", versions.V20.as_view()),
        path("/v2/", versions.V20.as_view()),
        re_path("^/v2/(?P<rest>.+)$", legacy.LegacyView.as_view()),
        *servers,
        path("/v2.1/servers/<str:server_id>/action", ServerActionView.as_view()),
        path("/v2.1/os-migrations", migrations.MigrationsView.as_view()),
        *urls("/v2.1/", migrations.PARTS | measures.PARTS | drains.PARTS),
        *urls("/v2.1/", scheduling.PARTS | usage.PARTS | hosts.PARTS | availability_zones.PARTS),
        *urls("/v2.1/", limits.PARTS | quotas.PARTS),
        path("/v2.1/novella-would-fit", scheduling.WouldFitView.as_view()),
        *routes(SERVER_GROUP),
        *routes(FLAVOR, flavors.PARTS, FLAVORS),
        *routes(KEYPAIR),
        path("/v2.1/os-simple-tenant-usage", usage.UsagesView.as_view()),
        path("/v2.1/os-simple-tenant-usage/<str:project_id>", usage.UsageView.as_view()),
        *routes(AGGREGATE, {"action": AggregateActionView, "images": AggregateImagesView}),
        *routes(SERVICE, dialect=SERVICES),
        path("/v2.1/os-hypervisors/statistics", HypervisorStatisticsView.as_view()),
        path("/v2.1/os-hypervisors/<str:pattern>/search", HypervisorSearchView.as_view()),
        path("/v2.1/os-hypervisors/<str:pattern>/servers", HypervisorServersView.as_view()),
        *routes(HYPERVISOR, {"uptime": HypervisorUptimeView}, HYPERVISORS),
        *proxies,
        re_path("^/", versions.NoSuchResource.as_view()),
    ]
)
urlpatterns = with_or_without_slash(with_project(ROUTES))
