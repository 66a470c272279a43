"""URLs of servers and their subresources, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.servers import (
    external_events,
    guest_disks,
    instance_actions,
    interfaces,
    parts,
    remote_consoles,
    views,
    volume_attachments,
)
from portal.api.frame.parts import urls

_SERVER = "/v2.1/servers/<str:server_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/servers", views.ServersView.as_view()),
    path("/v2.1/servers/detail", views.ServersDetailView.as_view()),
    path(_SERVER, views.OneServerView.as_view()),
    *urls("/v2.1/", parts.PARTS | interfaces.PARTS | volume_attachments.PARTS | guest_disks.PARTS),
    path(f"{_SERVER}/remote-consoles", remote_consoles.RemoteConsolesView.as_view()),
    path("/v2.1/os-console-auth-tokens/<str:console_token>", remote_consoles.ConsoleAuthTokenView.as_view()),
    path("/v2.1/os-server-external-events", external_events.ExternalEventsView.as_view()),
    path(f"{_SERVER}/os-instance-actions", instance_actions.InstanceActionsView.as_view()),
    path(f"{_SERVER}/os-instance-actions/<str:request_id>", instance_actions.InstanceActionView.as_view()),
]
