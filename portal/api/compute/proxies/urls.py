"""Addresses of extensions, of other services' proxies and of what is gone, below ``/compute/v2.1``."""

from __future__ import annotations

from django.urls import URLPattern, path

from portal.api.compute.proxies import (
    extensions,
    image_metadata,
    images,
    networks,
    removed_apis,
    volume_attachments,
    volumes,
)

_IMAGE = "/v2.1/images/<str:image_id>"

urlpatterns: list[URLPattern] = [
    path("/v2.1/extensions", extensions.ExtensionsView.as_view()),
    path("/v2.1/extensions/<str:extension>", extensions.ExtensionView.as_view()),
    path("/v2.1/images", images.ImagesView.as_view()),
    path("/v2.1/images/detail", images.ImagesDetailView.as_view()),
    path(_IMAGE, images.ImageView.as_view()),
    path(f"{_IMAGE}/metadata", image_metadata.ImageMetadataView.as_view()),
    path(f"{_IMAGE}/metadata/<str:key>", image_metadata.ImageMetadataItemView.as_view()),
    *removed_apis.urlpatterns,
    path("/v2.1/os-networks", networks.NetworksView.as_view()),
    path("/v2.1/os-networks/<str:network_id>", networks.NetworkView.as_view()),
    path("/v2.1/os-tenant-networks", networks.TenantNetworksView.as_view()),
    path("/v2.1/os-tenant-networks/<str:network_id>", networks.TenantNetworkView.as_view()),
    path("/v2.1/os-floating-ips", networks.FloatingIpsView.as_view()),
    path("/v2.1/os-floating-ips/<str:floating_ip_id>", networks.FloatingIpView.as_view()),
    path("/v2.1/os-floating-ip-pools", networks.FloatingIpPoolsView.as_view()),
    path("/v2.1/os-security-groups", networks.SecurityGroupsView.as_view()),
    path("/v2.1/os-security-groups/<str:security_group_id>", networks.SecurityGroupView.as_view()),
    path("/v2.1/os-security-group-rules", networks.SecurityGroupRulesView.as_view()),
    path("/v2.1/os-security-group-rules/<str:rule_id>", networks.SecurityGroupRuleView.as_view()),
    path("/v2.1/os-volumes", volumes.VolumesView.as_view()),
    path("/v2.1/os-volumes/detail", volumes.VolumesDetailView.as_view()),
    path("/v2.1/os-volumes/<str:volume_id>", volumes.VolumeView.as_view()),
    path("/v2.1/os-snapshots", volumes.SnapshotsView.as_view()),
    path("/v2.1/os-snapshots/detail", volumes.SnapshotsDetailView.as_view()),
    path("/v2.1/os-snapshots/<str:volume_id>", volumes.SnapshotView.as_view()),
    path("/v2.1/os-assisted-volume-snapshots", volumes.AssistedSnapshotsView.as_view()),
    path("/v2.1/os-assisted-volume-snapshots/<str:snapshot_id>", volumes.AssistedSnapshotView.as_view()),
    path("/v2.1/os-baremetal-nodes", volumes.NodesView.as_view()),
    path("/v2.1/os-baremetal-nodes/<str:node_id>", volumes.NodeView.as_view()),
    path("/v2.1/os-baremetal-nodes/<str:node_id>/action", volumes.NodeActionView.as_view()),
    path("/v2.1/os-volumes_boot", volumes.BootList.as_view()),
    path("/v2.1/os-volumes_boot/detail", volumes.BootDetail.as_view()),
    path("/v2.1/os-volumes_boot/<str:server_id>", volumes.BootItem.as_view()),
    path("/v2.1/os-volumes_boot/<str:server_id>/action", volumes.BootAction.as_view()),
    path("/v2.1/servers/<str:server_id>/os-volume_attachments", volume_attachments.VolumeAttachmentsView.as_view()),
    path(
        "/v2.1/servers/<str:server_id>/os-volume_attachments/<str:volume_id>",
        volume_attachments.VolumeAttachmentView.as_view(),
    ),
]
