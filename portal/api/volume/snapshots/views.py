"""Metadata of snapshots, and unmanaged snapshots (reference, "Volume snapshots (snapshots)")."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.volume.dialect.schemas import METADATA, of_metadata
from portal.api.volume.dialect.views import ResourceView
from portal.api.volume.snapshots.resource import SNAPSHOT
from portal.api.volume.volumes.manage import ManageableBase
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.volumes import services


class SnapshotMetadataView(ResourceView):
    """``GET``, ``POST`` and ``PUT /snapshots/{id}/metadata``."""

    resource = SNAPSHOT
    rules = {
        "GET": "volume:get_snapshot_metadata",
        "POST": "volume:update_snapshot_metadata",
        "PUT": "volume:update_snapshot_metadata",
    }
    schemas = {"POST": of_metadata(), "PUT": of_metadata()}

    def get(self, request: Request, identity: str) -> Response:
        """Show the metadata of a snapshot."""
        return Response({"metadata": self.row(identity).metadata})

    def post(self, request: Request, identity: str) -> Response:
        """Add or update items."""
        return self._write(identity, replace=False)

    def put(self, request: Request, identity: str) -> Response:
        """Replace the metadata."""
        return self._write(identity, replace=True)

    def _write(self, identity: str, *, replace: bool) -> Response:
        items = self.checked_body()["metadata"]
        changed = services.set_snapshot_metadata(self.context, identity, items, replace=replace)
        return Response({"metadata": changed.metadata})


_ITEM: Schema = {
    "type": "object",
    "properties": {"meta": METADATA | {"minProperties": 1, "maxProperties": 1}},
    "required": ["meta"],
    "additionalProperties": False,
}


class SnapshotMetadataItemView(ResourceView):
    """``GET``, ``PUT`` and ``DELETE /snapshots/{id}/metadata/{key}``."""

    resource = SNAPSHOT
    rules = {
        "GET": "volume:get_snapshot_metadata",
        "PUT": "volume:update_snapshot_metadata",
        "DELETE": "volume:delete_snapshot_metadata",
    }
    schemas = {"PUT": _ITEM}

    def get(self, request: Request, identity: str, key: str) -> Response:
        """Show an item of the metadata."""
        values = self.row(identity).metadata
        if key not in values:
            raise NotFoundError(f"Snapshot {identity[:64]} has no metadata with key {key[:64]}.")
        return Response({"meta": {key: values[key]}})

    def put(self, request: Request, identity: str, key: str) -> Response:
        """Set an item of the metadata."""
        asked = self.checked_body()["meta"]
        if key not in asked:
            raise InvalidInputError("Request body and URI mismatch")
        services.set_snapshot_metadata(self.context, identity, asked)
        return Response({"meta": asked})

    def delete(self, request: Request, identity: str, key: str) -> Response:
        """Delete an item of the metadata."""
        if key not in self.row(identity).metadata:
            raise NotFoundError(f"Snapshot {identity[:64]} has no metadata with key {key[:64]}.")
        services.delete_snapshot_metadata(self.context, identity, key)
        return Response(status=200)


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
