"""URLs of servers and their subresources, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.servers import (
    addresses,
    diagnostics,
    external_events,
    instance_actions,
    interfaces,
    metadata,
    password,
    remote_consoles,
    security_groups,
    tags,
    topology,
    views,
    volume_attachments,
)

_SERVER = "/v2.1/servers/<str:server_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/servers", views.ServersView.as_view()),
    path("/v2.1/servers/detail", views.ServersDetailView.as_view()),
    path(_SERVER, views.OneServerView.as_view()),
    path(f"{_SERVER}/metadata", metadata.MetadataView.as_view()),
    path(f"{_SERVER}/metadata/<str:key>", metadata.MetadataItemView.as_view()),
    path(f"{_SERVER}/tags", tags.TagsView.as_view()),
    path(f"{_SERVER}/tags/<str:tag>", tags.TagView.as_view()),
    path(f"{_SERVER}/ips", addresses.AddressesView.as_view()),
    path(f"{_SERVER}/ips/<str:network_label>", addresses.NetworkAddressesView.as_view()),
    path(f"{_SERVER}/topology", topology.TopologyView.as_view()),
    path(f"{_SERVER}/diagnostics", diagnostics.DiagnosticsView.as_view()),
    path(f"{_SERVER}/remote-consoles", remote_consoles.RemoteConsolesView.as_view()),
    path("/v2.1/os-console-auth-tokens/<str:console_token>", remote_consoles.ConsoleAuthTokenView.as_view()),
    path(f"{_SERVER}/os-server-password", password.ServerPasswordView.as_view()),
    path(f"{_SERVER}/os-interface", interfaces.InterfacesView.as_view()),
    path(f"{_SERVER}/os-interface/<str:port_id>", interfaces.InterfaceView.as_view()),
    path(f"{_SERVER}/os-volume_attachments", volume_attachments.VolumeAttachmentsView.as_view()),
    path(f"{_SERVER}/os-volume_attachments/<str:volume_id>", volume_attachments.VolumeAttachmentView.as_view()),
    path("/v2.1/os-server-external-events", external_events.ExternalEventsView.as_view()),
    path(f"{_SERVER}/os-security-groups", security_groups.SecurityGroupsView.as_view()),
    path(f"{_SERVER}/os-instance-actions", instance_actions.InstanceActionsView.as_view()),
    path(f"{_SERVER}/os-instance-actions/<str:request_id>", instance_actions.InstanceActionView.as_view()),
]
