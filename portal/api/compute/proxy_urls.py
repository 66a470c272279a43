"""Addresses of extensions, of other services' proxies and of what is gone, below ``/compute/v2.1``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.compute import extensions, gone, proxy_image_metadata, proxy_images, proxy_networks, proxy_volumes

_IMAGE = "/v2.1/images/<str:image_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/extensions", extensions.ExtensionsView.as_view()),
    path("/v2.1/extensions/<str:extension>", extensions.ExtensionView.as_view()),
    path("/v2.1/images", proxy_images.ImagesView.as_view()),
    path("/v2.1/images/detail", proxy_images.ImagesDetailView.as_view()),
    path(_IMAGE, proxy_images.ImageView.as_view()),
    path(f"{_IMAGE}/metadata", proxy_image_metadata.ImageMetadataView.as_view()),
    path(f"{_IMAGE}/metadata/<str:key>", proxy_image_metadata.ImageMetadataItemView.as_view()),
    *gone.urlpatterns,
    path("/v2.1/os-networks", proxy_networks.NetworksView.as_view()),
    path("/v2.1/os-networks/<str:network_id>", proxy_networks.NetworkView.as_view()),
    path("/v2.1/os-tenant-networks", proxy_networks.TenantNetworksView.as_view()),
    path("/v2.1/os-tenant-networks/<str:network_id>", proxy_networks.TenantNetworkView.as_view()),
    path("/v2.1/os-floating-ips", proxy_networks.FloatingIpsView.as_view()),
    path("/v2.1/os-floating-ips/<str:floating_ip_id>", proxy_networks.FloatingIpView.as_view()),
    path("/v2.1/os-floating-ip-pools", proxy_networks.FloatingIpPoolsView.as_view()),
    path("/v2.1/os-security-groups", proxy_networks.SecurityGroupsView.as_view()),
    path("/v2.1/os-security-groups/<str:security_group_id>", proxy_networks.SecurityGroupView.as_view()),
    path("/v2.1/os-security-group-rules", proxy_networks.SecurityGroupRulesView.as_view()),
    path("/v2.1/os-security-group-rules/<str:rule_id>", proxy_networks.SecurityGroupRuleView.as_view()),
    path("/v2.1/os-volumes", proxy_volumes.VolumesView.as_view()),
    path("/v2.1/os-volumes/detail", proxy_volumes.VolumesDetailView.as_view()),
    path("/v2.1/os-volumes/<str:volume_id>", proxy_volumes.VolumeView.as_view()),
    path("/v2.1/os-snapshots", proxy_volumes.SnapshotsView.as_view()),
    path("/v2.1/os-snapshots/detail", proxy_volumes.SnapshotsDetailView.as_view()),
    path("/v2.1/os-snapshots/<str:volume_id>", proxy_volumes.SnapshotView.as_view()),
    path("/v2.1/os-assisted-volume-snapshots", proxy_volumes.AssistedSnapshotsView.as_view()),
    path("/v2.1/os-assisted-volume-snapshots/<str:snapshot_id>", proxy_volumes.AssistedSnapshotView.as_view()),
    path("/v2.1/os-baremetal-nodes", proxy_volumes.NodesView.as_view()),
    path("/v2.1/os-baremetal-nodes/<str:node_id>", proxy_volumes.NodeView.as_view()),
    path("/v2.1/os-baremetal-nodes/<str:node_id>/action", proxy_volumes.NodeActionView.as_view()),
    path("/v2.1/os-volumes_boot", proxy_volumes.BootList.as_view()),
    path("/v2.1/os-volumes_boot/detail", proxy_volumes.BootDetail.as_view()),
    path("/v2.1/os-volumes_boot/<str:server_id>", proxy_volumes.BootItem.as_view()),
    path("/v2.1/os-volumes_boot/<str:server_id>/action", proxy_volumes.BootAction.as_view()),
]
