"""URLs of deprecated and removed parts of the Compute API, below ``/compute``."""

from django.urls import URLPattern, path

from portal.api.compute.base import ComputeView
from portal.api.compute.dialect import routes
from portal.api.compute.proxies import (
    assisted_snapshots,
    extensions,
    floating_ips,
    image_metadata,
    images,
    networks,
    security_group_rules,
    security_groups,
    volumes,
)
from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.proxies.table import TABLE, view_of
from portal.api.compute.server_actions.views import ServerActionView
from portal.api.compute.servers.views import OneServerView, ServersDetailView, ServersView

VIEWS: dict[str, type[ComputeView]] = {
    "images": images.ImagesView,
    "images/detail": images.ImagesDetailView,
    "images/<str:image_id>": images.ImageView,
    "images/<str:image_id>/metadata": image_metadata.ImageMetadataView,
    "images/<str:image_id>/metadata/<str:key>": image_metadata.ImageMetadataItemView,
    "os-floating-ip-pools": floating_ips.FloatingIpPoolsView,
    "os-floating-ips": floating_ips.FloatingIpsView,
    "os-floating-ips/<str:floating_ip_id>": floating_ips.FloatingIpView,
    "os-security-groups": security_groups.SecurityGroupsView,
    "os-security-groups/<str:security_group_id>": security_groups.SecurityGroupView,
    "os-security-group-rules": security_group_rules.SecurityGroupRulesView,
    "os-security-group-rules/<str:rule_id>": security_group_rules.SecurityGroupRuleView,
    "os-volumes_boot": ServersView,
    "os-volumes_boot/detail": ServersDetailView,
    "os-volumes_boot/<str:server_id>": OneServerView,
    "os-volumes_boot/<str:server_id>/action": ServerActionView,
    "os-assisted-volume-snapshots": assisted_snapshots.AssistedSnapshotsView,
    "os-assisted-volume-snapshots/<str:snapshot_id>": assisted_snapshots.AssistedSnapshotView,
}
"""Address below ``/compute/v2.1`` → view."""
PARTLY: dict[str, type[ProxyView]] = {
    "os-networks": networks.NetworksView,
    "os-networks/<str:network_id>": networks.NetworkView,
    "os-tenant-networks": networks.TenantNetworksView,
    "os-tenant-networks/<str:network_id>": networks.TenantNetworkView,
}
"""Path → the view of the methods that the table does not have."""

_refusing = {row.path: view_of(row.path, PARTLY.get(row.path, ProxyView)) for row in TABLE}
urlpatterns: list[URLPattern] = [
    *(path(f"/v2.1/{address}", view.as_view()) for address, view in {**VIEWS, **_refusing}.items()),
    *routes(extensions.EXTENSION),
    *routes(volumes.VOLUME, dialect=volumes.PROXY),
    *routes(volumes.SNAPSHOT, dialect=volumes.PROXY),
]
