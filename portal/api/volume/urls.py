"""Block Storage API under ``/volume``; the caller's project after the version is optional."""

from django.urls import path, re_path

from portal.api.common.views import NoSuchResource
from portal.api.frame.parts import urls
from portal.api.volume import backups, qos, transfers
from portal.api.volume.attachments import ATTACHMENT
from portal.api.volume.dialect.views import routes
from portal.api.volume.discovery import filters, versions
from portal.api.volume.discovery import views as discovery
from portal.api.volume.groups import types as group_types
from portal.api.volume.groups import views as groups
from portal.api.volume.messages import MESSAGE
from portal.api.volume.quotas import views as quotas
from portal.api.volume.services import views as services
from portal.api.volume.services.would_fit import WouldFitView
from portal.api.volume.snapshots import views as snapshots
from portal.api.volume.snapshots.resource import SNAPSHOT
from portal.api.volume.types import parts
from portal.api.volume.types.resource import TYPE, TYPES
from portal.api.volume.volumes import actions, manage
from portal.api.volume.volumes import views as volumes
from portal.common.routing import by_prefix, with_or_without_slash, with_project

VOLUME = "/v3/volumes/<str:volume_id>"

ROUTES = [
    re_path(r"^/?$", versions.VersionsView.as_view()),
    re_path(r"^/v3/?$", versions.VersionView.as_view()),
    path("/v3/extensions", discovery.ExtensionsView.as_view()),
    path("/v3/os-availability-zone", discovery.ZonesView.as_view()),
    *routes(TYPE, parts.PARTS, TYPES),
    *urls("/v3/", parts.DEFAULTS),
    *routes(qos.QOS, qos.PARTS),
    *routes(group_types.GROUP_TYPE, group_types.PARTS),
    *routes(MESSAGE),
    path("/v3/limits", quotas.LimitsView.as_view()),
    path("/v3/os-quota-sets/<str:project_id>", quotas.QuotaSetView.as_view()),
    path("/v3/os-quota-sets/<str:project_id>/defaults", quotas.QuotaDefaultsView.as_view()),
    path("/v3/os-quota-class-sets/<str:class_name>", quotas.QuotaClassView.as_view()),
    *urls("/v3/", services.PARTS),
    path("/v3/os-services/<str:verb>", services.ServiceChangeView.as_view()),
    path("/v3/scheduler-stats/get_pools", services.PoolsView.as_view()),
    path("/v3/novella-would-fit", WouldFitView.as_view()),
    *urls("/v3/", backups.IMPORT),
    *routes(backups.BACKUP, backups.PARTS),
    path("/v3/volumes", volumes.VolumesView.as_view()),
    path("/v3/volumes/detail", volumes.VolumesDetailView.as_view()),
    path("/v3/volumes/summary", volumes.SummaryView.as_view()),
    path(VOLUME, volumes.VolumeOneView.as_view()),
    path(f"{VOLUME}/action", actions.VolumeActionView.as_view()),
    path(f"{VOLUME}/metadata", volumes.MetadataView.as_view()),
    path(f"{VOLUME}/metadata/<str:key>", volumes.MetadataItemView.as_view()),
    path(f"{VOLUME}/encryption", volumes.EncryptionView.as_view()),
    path(f"{VOLUME}/encryption/<str:key>", volumes.EncryptionItemView.as_view()),
    path("/v3/manageable_volumes", manage.ManageableView.as_view()),
    path("/v3/manageable_volumes/detail", manage.ManageableListView.as_view()),
    path("/v3/os-volume-manage", manage.ManageableView.as_view(versions={})),
    path("/v3/os-volume-manage/detail", manage.ManageableListView.as_view(versions={})),
    *routes(SNAPSHOT, snapshots.PARTS),
    path("/v3/manageable_snapshots", snapshots.ManageableSnapshotsView.as_view()),
    path("/v3/manageable_snapshots/detail", snapshots.ManageableSnapshotsListView.as_view()),
    path("/v3/os-snapshot-manage", snapshots.ManageableSnapshotsView.as_view(versions={})),
    path("/v3/os-snapshot-manage/detail", snapshots.ManageableSnapshotsListView.as_view(versions={})),
    *routes(ATTACHMENT),
    *routes(transfers.OLD_TRANSFER, transfers.OLD_ACCEPT),
    *routes(transfers.TRANSFER, transfers.ACCEPT),
    path("/v3/groups/action", groups.GroupFromView.as_view()),
    *routes(groups.GROUP, {"action": groups.GroupActionView}),
    *routes(groups.GROUP_SNAPSHOT),
    path("/v3/resource_filters", filters.ResourceFiltersView.as_view()),
    re_path(r"", NoSuchResource.of("volume")),
]
urlpatterns = with_or_without_slash(with_project(by_prefix(ROUTES)))
