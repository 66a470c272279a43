"""URLs of the operators' pages."""

from django.urls import path

from portal.dashboard.cloud import drains, hosts, unmanaged
from portal.dashboard.cloud.deaths import DeathsPage
from portal.dashboard.cloud.listing import HostList
from portal.dashboard.cloud.migrations import MigrationList
from portal.dashboard.cloud.pools import PoolDetail, PoolList
from portal.dashboard.cloud.usage import UsageList
from portal.dashboard.cloud.views import CloudPage

urlpatterns = [
    path("cloud/", CloudPage.as_view(), name="cloud"),
    path("cloud/deaths/", DeathsPage.as_view(), name="cloud_deaths"),
    path("hosts/", HostList.as_view(), name="hosts"),
    path("hosts/<uuid:host_id>/", hosts.HostDetail.as_view(), name="host"),
    path("hosts/<uuid:host_id>/maintenance/", hosts.HostMaintenance.as_view(), name="host_maintenance"),
    path("hosts/<uuid:host_id>/maintenance/end/", hosts.HostMaintenanceEnd.as_view(), name="host_maintenance_end"),
    path("hosts/<uuid:host_id>/evacuation/", hosts.HostEvacuation.as_view(), name="host_evacuation"),
    path("hosts/<uuid:host_id>/drain/", drains.HostDrain.as_view(), name="host_drain"),
    path("hosts/<uuid:host_id>/drain/start/", drains.HostDrainStart.as_view(), name="host_drain_start"),
    path("hosts/<uuid:host_id>/drain/<slug:change>/", drains.HostDrainChange.as_view(), name="host_drain_change"),
    path("hosts/<uuid:host_id>/force-down/", hosts.HostForceDown.as_view(), name="host_force_down"),
    path("hosts/<uuid:host_id>/force-down/undo/", hosts.HostForceDownEnd.as_view(), name="host_force_down_end"),
    path("pools/", PoolList.as_view(), name="pools"),
    path("pools/<uuid:pool_id>/", PoolDetail.as_view(), name="pool"),
    path("pools/<uuid:pool_id>/unmanaged/", unmanaged.UnmanagedData.as_view(), name="pool_unmanaged"),
    path("pools/<uuid:pool_id>/unmanaged/<path:name>/", unmanaged.DiskManage.as_view(), name="pool_disk_manage"),
    path(
        "pools/<uuid:pool_id>/unmanaged-snapshots/<uuid:volume_id>/<path:name>/",
        unmanaged.SnapshotManage.as_view(),
        name="pool_snapshot_manage",
    ),
    path("migrations/", MigrationList.as_view(), name="migrations"),
    path("usage/", UsageList.as_view(), name="usage"),
]
