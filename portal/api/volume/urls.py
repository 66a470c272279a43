"""Block Storage API under ``/volume``; the caller's project after the version is optional."""

from django.urls import path, re_path

from portal.api.common.views import NoSuchResource
from portal.api.frame.parts import urls
from portal.api.volume import backups, discovery, qos, quotas, snapshots, transfers
from portal.api.volume.attachments import ATTACHMENT
from portal.api.volume.dialect.views import routes
from portal.api.volume.groups import types as group_types
from portal.api.volume.groups import views as groups
from portal.api.volume.messages import MESSAGE
from portal.api.volume.services import views as services
from portal.api.volume.services.would_fit import WouldFitView
from portal.api.volume.snapshots import SNAPSHOT
from portal.api.volume.types import parts
from portal.api.volume.types.resource import TYPE, TYPES
from portal.api.volume.volumes import manage
from portal.api.volume.volumes import parts as volumes
from portal.api.volume.volumes.resource import VOLUME
from portal.common.routing import by_prefix, with_or_without_slash, with_project

ROUTES = [
    re_path(r"^/?$", discovery.VERSIONS.as_view()),
    re_path(r"^/v3/?$", discovery.V3.as_view()),
    *routes(TYPE, parts.PARTS, TYPES),
    *urls(
        "/v3/", discovery.PARTS | parts.DEFAULTS | quotas.PARTS | services.PARTS | volumes.PARTS | snapshots.UNMANAGED
    ),
    *routes(qos.QOS, qos.PARTS),
    *routes(group_types.GROUP_TYPE, group_types.PARTS),
    *routes(MESSAGE),
    path("/v3/os-services/<str:verb>", services.ServiceChangeView.as_view()),
    path("/v3/scheduler-stats/get_pools", services.PoolsView.as_view()),
    path("/v3/novella-would-fit", WouldFitView.as_view()),
    *urls("/v3/", backups.IMPORT),
    *routes(backups.BACKUP, backups.PARTS),
    *routes(VOLUME),
    path("/v3/manageable_volumes", manage.ManageableView.as_view()),
    path("/v3/manageable_volumes/detail", manage.ManageableListView.as_view()),
    path("/v3/os-volume-manage", manage.ManageableView.as_view(versions={})),
    path("/v3/os-volume-manage/detail", manage.ManageableListView.as_view(versions={})),
    *routes(SNAPSHOT, snapshots.PARTS),
    *routes(ATTACHMENT),
    *routes(transfers.OLD_TRANSFER, transfers.OLD_ACCEPT),
    *routes(transfers.TRANSFER, transfers.ACCEPT),
    path("/v3/groups/action", groups.GroupFromView.as_view()),
    *routes(groups.GROUP, {"action": groups.GroupActionView}),
    *routes(groups.GROUP_SNAPSHOT),
    re_path(r"", NoSuchResource.of("volume")),
]
urlpatterns = with_or_without_slash(with_project(by_prefix(ROUTES)))
