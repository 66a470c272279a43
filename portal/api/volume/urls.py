"""Block Storage API under ``/volume``; the caller's project after the version is optional."""

from django.urls import path, re_path

from portal.api.frame import NoSuchResource, urls
from portal.api.volume import discovery, quotas, services
from portal.api.volume.dialect import routes
from portal.api.volume.resources import attachments, backups, groups, messages, qos, snapshots, transfers, types
from portal.api.volume.volumes import parts, resource
from portal.common.http.routing import by_prefix, with_or_without_slash, with_project

ROUTES = [
    re_path(r"^/?$", discovery.VERSIONS.as_view()),
    re_path(r"^/v3/?$", discovery.V3.as_view()),
    *routes(types.TYPE, types.PARTS, types.TYPES),
    *urls("/v3/", discovery.PARTS | types.DEFAULTS | quotas.PARTS | services.PARTS | parts.PARTS),
    *routes(qos.QOS, qos.PARTS),
    *routes(groups.GROUP_TYPE, groups.PARTS),
    *routes(messages.MESSAGE),
    path("/v3/os-services/<str:verb>", services.ServiceChangeView.as_view()),
    path("/v3/scheduler-stats/get_pools", services.PoolsView.as_view()),
    path("/v3/novella-would-fit", services.WouldFitView.as_view()),
    *urls("/v3/", backups.IMPORT),
    *routes(backups.BACKUP, backups.PARTS),
    *routes(resource.VOLUME),
    path("/v3/manageable_volumes", parts.ManageableVolumesView.as_view()),
    path("/v3/manageable_volumes/detail", parts.ManageableVolumesDetailView.as_view()),
    path("/v3/os-volume-manage", parts.ManageableVolumesView.as_view(versions={})),
    path("/v3/os-volume-manage/detail", parts.ManageableVolumesDetailView.as_view(versions={})),
    path("/v3/manageable_snapshots", snapshots.ManageableSnapshotsView.as_view()),
    path("/v3/manageable_snapshots/detail", snapshots.ManageableSnapshotsDetailView.as_view()),
    path("/v3/os-snapshot-manage", snapshots.ManageableSnapshotsView.as_view(versions={})),
    path("/v3/os-snapshot-manage/detail", snapshots.ManageableSnapshotsDetailView.as_view(versions={})),
    *routes(snapshots.SNAPSHOT, snapshots.PARTS),
    *routes(attachments.ATTACHMENT),
    *routes(transfers.OLD_TRANSFER, transfers.OLD_ACCEPT),
    *routes(transfers.TRANSFER, transfers.ACCEPT),
    path("/v3/groups/action", groups.GroupFromView.as_view()),
    *routes(groups.GROUP, {"action": groups.GroupActionView}),
    *routes(groups.GROUP_SNAPSHOT),
    re_path(r"", NoSuchResource.of("volume")),
]
urlpatterns = with_or_without_slash(with_project(by_prefix(ROUTES)))
