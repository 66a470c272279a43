"""Addresses of servers and what belongs to them, below ``/compute``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.compute import (
    addresses,
    external_events,
    instance_actions,
    interfaces,
    metadata,
    scheduling,
    server_password,
    server_security_groups,
    servers,
    tags,
    topology,
    volume_attachments,
)

_SERVER = "/v2.1/servers/<str:server_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/servers", servers.ServersView.as_view()),
    path("/v2.1/servers/detail", servers.ServersDetailView.as_view()),
    path(_SERVER, servers.ServerView.as_view()),
    path(f"{_SERVER}/metadata", metadata.MetadataView.as_view()),
    path(f"{_SERVER}/metadata/<str:key>", metadata.MetadataItemView.as_view()),
    path(f"{_SERVER}/tags", tags.TagsView.as_view()),
    path(f"{_SERVER}/tags/<str:tag>", tags.TagView.as_view()),
    path(f"{_SERVER}/ips", addresses.AddressesView.as_view()),
    path(f"{_SERVER}/ips/<str:network_label>", addresses.NetworkAddressesView.as_view()),
    path(f"{_SERVER}/novella-scheduling", scheduling.SchedulingView.as_view()),
    path("/v2.1/novella-would-fit", scheduling.WouldFitView.as_view()),
    path(f"{_SERVER}/topology", topology.TopologyView.as_view()),
    path(f"{_SERVER}/os-server-password", server_password.ServerPasswordView.as_view()),
    path(f"{_SERVER}/os-interface", interfaces.InterfacesView.as_view()),
    path(f"{_SERVER}/os-interface/<str:port_id>", interfaces.InterfaceView.as_view()),
    path("/v2.1/os-server-external-events", external_events.ExternalEventsView.as_view()),
    path(f"{_SERVER}/os-security-groups", server_security_groups.SecurityGroupsView.as_view()),
    path(f"{_SERVER}/os-volume_attachments", volume_attachments.VolumeAttachmentsView.as_view()),
    path(f"{_SERVER}/os-volume_attachments/<str:volume_id>", volume_attachments.VolumeAttachmentView.as_view()),
    path(f"{_SERVER}/os-instance-actions", instance_actions.InstanceActionsView.as_view()),
    path(f"{_SERVER}/os-instance-actions/<str:request_id>", instance_actions.InstanceActionView.as_view()),
]
