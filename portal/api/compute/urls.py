"""Addresses of the Compute API under ``/compute``."""

from django.urls import path, re_path

from portal.api.common.views import NoSuchResource
from portal.api.compute import (
    catalog_urls,
    diagnostics,
    host_urls,
    legacy,
    migration_urls,
    proxy_urls,
    remote_consoles,
    server_actions,
    server_urls,
    versions,
)

_SERVER = "/v2.1/servers/<str:server_id>"

urlpatterns = [
    path("", versions.VersionsView.as_view()),
    path("/", versions.VersionsView.as_view()),
    path("/v2.1", versions.V21View.as_view()),
    path("/v2.1/", versions.V21View.as_view()),
    path("/v2", versions.V20View.as_view()),
    path("/v2/", versions.V20View.as_view()),
    re_path("^/v2/(?P<rest>.+)$", legacy.LegacyView.as_view()),
    *server_urls.urlpatterns,
    path(f"{_SERVER}/action", server_actions.ServerActionView.as_view()),
    path(f"{_SERVER}/diagnostics", diagnostics.DiagnosticsView.as_view()),
    path(f"{_SERVER}/remote-consoles", remote_consoles.RemoteConsolesView.as_view()),
    path("/v2.1/os-console-auth-tokens/<str:console_token>", remote_consoles.ConsoleAuthTokenView.as_view()),
    *catalog_urls.urlpatterns,
    *host_urls.urlpatterns,
    *migration_urls.urlpatterns,
    *proxy_urls.urlpatterns,
    re_path("^/", NoSuchResource.of("compute")),
]
