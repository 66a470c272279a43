"""Metadata of snapshots, and unmanaged snapshots (reference, "Volume snapshots (snapshots)")."""

from functools import partial

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame.parts import Entries, parts
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.schemas import METADATA
from portal.api.volume.volumes.manage import ManageableBase
from provisioning.common.errors import InvalidInputError
from provisioning.volumes import services
from provisioning.volumes.selectors.access import snapshot_for

_METADATA = Entries(
    name="metadata",
    item="meta",
    find=snapshot_for,
    values=lambda view, snapshot: snapshot.metadata,
    schema=METADATA,
    merge=services.set_snapshot_metadata,
    replace=partial(services.set_snapshot_metadata, replace=True),
    remove=services.delete_snapshot_metadata,
    missing="Snapshot {found.id} has no metadata with key {key}.",
)
PARTS = parts(
    VolumeView,
    "metadata",
    {
        "GET": _METADATA.all("volume:get_snapshot_metadata", "Show the metadata of a snapshot."),
        "POST": _METADATA.merging("volume:update_snapshot_metadata", "Add or update items."),
        "PUT": _METADATA.replacing("volume:update_snapshot_metadata", "Replace the metadata."),
        "GET /{key}": _METADATA.one("volume:get_snapshot_metadata", "Show an item of the metadata."),
        "PUT /{key}": _METADATA.setting("volume:update_snapshot_metadata", "Set an item of the metadata."),
        "DELETE /{key}": _METADATA.removing(
            "volume:delete_snapshot_metadata", "Delete an item of the metadata.", status=200
        ),
    },
)


class ManageableSnapshotsView(ManageableBase):
    """``GET`` and ``POST /manageable_snapshots`` and similar paths, from 3.8 on."""

    rules = {"GET": "snapshot_extension:list_manageable", "POST": "snapshot_extension:snapshot_manage"}

    def get(self, request: Request) -> Response:
        """Return an empty list: unmanaged disks can only become volumes."""
        return Response({"manageable-snapshots": []})

    def post(self, request: Request) -> Response:
        """Refused, with Cinder's message for drivers without this feature."""
        raise InvalidInputError("Manage existing snapshot not implemented.")


class ManageableSnapshotsListView(ManageableSnapshotsView):
    """``GET /manageable_snapshots/detail`` and similar paths."""

    rules = {"GET": "snapshot_extension:list_manageable"}
    http_method_names = ["get", "head"]
