"""Addresses of the Compute API under ``/compute``."""

from django.urls import path, re_path

from portal.api.common.views import NoSuchResource
from portal.api.compute import (
    catalog_urls,
    diagnostics,
    host_urls,
    instance_actions,
    proxy_urls,
    server_actions,
    server_parts,
    servers,
    views,
)

_SERVER = "/v2.1/servers/<str:server_id>"

urlpatterns = [
    path("", views.VersionsView.as_view()),
    path("/", views.VersionsView.as_view()),
    path("/v2.1", views.V21View.as_view()),
    path("/v2.1/", views.V21View.as_view()),
    path("/v2.1/servers", servers.ServersView.as_view()),
    path("/v2.1/servers/detail", servers.ServersDetailView.as_view()),
    path(_SERVER, servers.ServerView.as_view()),
    path(f"{_SERVER}/action", server_actions.ServerActionView.as_view()),
    path(f"{_SERVER}/diagnostics", diagnostics.DiagnosticsView.as_view()),
    path(f"{_SERVER}/metadata", server_parts.MetadataView.as_view()),
    path(f"{_SERVER}/metadata/<str:key>", server_parts.MetadataItemView.as_view()),
    path(f"{_SERVER}/tags", server_parts.TagsView.as_view()),
    path(f"{_SERVER}/ips", server_parts.AddressesView.as_view()),
    path(f"{_SERVER}/ips/<str:network_label>", server_parts.NetworkAddressesView.as_view()),
    path(f"{_SERVER}/os-interface", server_parts.InterfacesView.as_view()),
    path(f"{_SERVER}/os-interface/<str:port_id>", server_parts.InterfaceView.as_view()),
    path(f"{_SERVER}/os-security-groups", server_parts.SecurityGroupsView.as_view()),
    path(f"{_SERVER}/os-volume_attachments", server_parts.VolumeAttachmentsView.as_view()),
    path(f"{_SERVER}/os-instance-actions", instance_actions.InstanceActionsView.as_view()),
    path(f"{_SERVER}/os-instance-actions/<str:request_id>", instance_actions.InstanceActionView.as_view()),
    *catalog_urls.urlpatterns,
    *host_urls.urlpatterns,
    *proxy_urls.urlpatterns,
    re_path("^/.*$", NoSuchResource.of("compute")),
]
