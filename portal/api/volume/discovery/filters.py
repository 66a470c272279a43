"""Filters of lists (reference, "Resource Filters"), from 3.33 on."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.volume.attachments import ATTACHMENT
from portal.api.volume.backups import BACKUP
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.listing import LIKE, Lists
from portal.api.volume.discovery.views import OPEN
from portal.api.volume.groups.views import GROUP, GROUP_SNAPSHOT
from portal.api.volume.messages import MESSAGE
from portal.api.volume.snapshots.resource import SNAPSHOT
from portal.api.volume.types.resource import TYPE
from portal.api.volume.volumes.lists import VOLUMES

LISTS: dict[str, Lists] = {
    "volume": VOLUMES,
    "backup": BACKUP.lists,
    "snapshot": SNAPSHOT.lists,
    "group": GROUP.lists,
    "group_snapshot": GROUP_SNAPSHOT.lists,
    "attachment": ATTACHMENT.lists,
    "message": MESSAGE.lists,
    "volume_type": TYPE.lists,
}
POOL_FILTERS = ("name", "volume_type")
"""Filters of ``GET /scheduler-stats/get_pools``."""


class ResourceFiltersView(VolumeView):
    """``GET /resource_filters``, from 3.33 on."""

    rules = {"GET": OPEN}
    versions = {"GET": ((3, 33), NEWEST)}

    def get(self, request: Request) -> Response:
        """List the filters of each list, or of the one in ``resource``."""
        wanted = request.query_params.get("resource")
        names = {name: self._names(each) for name, each in LISTS.items()} | {"pool": [*POOL_FILTERS]}
        found: list[dict[str, Any]] = [
            {"resource": name, "filters": each} for name, each in names.items() if wanted in {None, name}
        ]
        return Response({"resource_filters": found})

    def _names(self, lists: Lists) -> list[str]:
        like = [f"{name}~" for name in lists.like] if self.microversion >= LIKE else []
        return [*(name for name in lists.filters if self.microversion >= lists.since.get(name, (3, 0))), *like]
