"""Volumes and snapshots in the Compute API up to 2.35 (Compute API reference, "Volume extension")."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import read_part
from portal.api.common.validation import Schema
from portal.api.compute.proxies.base import ProxyView
from portal.api.compute.proxies.table import limited
from portal.api.compute.schemas import BOOLEAN, POSITIVE, body, boolean
from portal.api.compute.timestamps import timestamp
from provisioning.identity import policy
from provisioning.volumes import selectors, services
from provisioning.volumes.models import Snapshot, Volume
from provisioning.volumes.states import AttachStatus

_TEXT: Schema = {"type": ["string", "null"], "maxLength": 255}
_ID: Schema = {"type": ["string", "null"], "maxLength": 255}
VOLUME = body(
    "volume",
    {
        "size": POSITIVE,
        "display_name": _TEXT,
        "display_description": _TEXT,
        "volume_type": _TEXT,
        "availability_zone": _TEXT,
        "snapshot_id": _ID,
        "metadata": {"type": ["object", "null"], "additionalProperties": {"type": "string", "maxLength": 255}},
    },
    ("size",),
)
SNAPSHOT = body(
    "snapshot",
    {"volume_id": {"type": "string"}, "force": BOOLEAN, "display_name": _TEXT, "display_description": _TEXT},
    ("volume_id",),
)


def volume_shape(volume: Volume) -> dict[str, Any]:
    """Return the representation of a volume. As in Nova, a volume without attachments has one empty object in
    ``attachments``.
    """
    attachments = [
        {
            "id": str(volume.id),
            "volumeId": str(volume.id),
            "serverId": str(attachment.instance_id),
            **({"device": attachment.mountpoint} if attachment.mountpoint else {}),
        }
        for attachment in volume.attachments.all()
        if attachment.status == AttachStatus.ATTACHED
    ]
    return {
        "id": str(volume.id),
        "status": volume.status,
        "size": volume.size_gb,
        "availabilityZone": volume.availability_zone,
        "createdAt": timestamp(volume.created_at),
        "attachments": attachments or [{}],
        "displayName": volume.name,
        "displayDescription": volume.description or None,
        "volumeType": volume.volume_type.name if volume.volume_type else None,
        "snapshotId": str(volume.source_snapshot_id) if volume.source_snapshot_id else None,
        "metadata": volume.metadata,
    }


def snapshot_shape(snapshot: Snapshot) -> dict[str, Any]:
    """One snapshot."""
    return {
        "id": str(snapshot.id),
        "volumeId": str(snapshot.volume_id),
        "status": snapshot.status,
        "size": snapshot.size_gb,
        "createdAt": timestamp(snapshot.created_at),
        "displayName": snapshot.name,
        "displayDescription": snapshot.description or None,
    }


class VolumesView(ProxyView):
    """``GET`` and ``POST /os-volumes``, ``GET /os-volumes/detail``."""

    rules = {"GET": "os_compute_api:os-volumes:list", "POST": "os_compute_api:os-volumes:create"}
    schemas: ClassVar = {"POST": lambda version: VOLUME}
    queries: ClassVar = {"GET": limited}

    def get(self, request: Request) -> Response:
        """List volumes of the project."""
        policy.enforce(self.context, "volume:get_all")
        rows = selectors.visible_volumes(self.context).prefetch_related("attachments")
        self.checked_query()
        found = rows.order_by("-created_at", "-id")[read_part(request)]
        return Response({"volumes": [volume_shape(volume) for volume in found]})

    def post(self, request: Request) -> Response:
        """Create a volume, empty or from a snapshot."""
        policy.enforce(self.context, "volume:create")
        wanted = self.checked_body()["volume"]
        volume = services.create_volume(
            self.context,
            services.VolumeRequest(
                size_gb=int(wanted["size"]),
                name=wanted.get("display_name") or "",
                description=wanted.get("display_description") or "",
                volume_type=wanted.get("volume_type") or "",
                availability_zone=wanted.get("availability_zone") or "",
                snapshot_id=wanted.get("snapshot_id") or "",
                metadata=wanted.get("metadata") or {},
            ),
        )
        return Response({"volume": volume_shape(volume)}, headers={"Location": f"{self.base}/os-volumes/{volume.id}"})


class VolumesDetailView(VolumesView):
    """``GET /os-volumes/detail``."""

    http_method_names = ["get", "head"]
    rules = {"GET": "os_compute_api:os-volumes:detail"}


class VolumeView(ProxyView):
    """``GET`` and ``DELETE /os-volumes/{id}``."""

    rules = {"GET": "os_compute_api:os-volumes:show", "DELETE": "os_compute_api:os-volumes:delete"}

    def get(self, request: Request, volume_id: str) -> Response:
        volume = selectors.volume_for(self.context, volume_id)
        policy.enforce(self.context, "volume:get", {"project_id": volume.project_id})
        return Response({"volume": volume_shape(volume)})

    def delete(self, request: Request, volume_id: str) -> Response:
        volume = selectors.volume_for(self.context, volume_id)
        policy.enforce(self.context, "volume:delete", {"project_id": volume.project_id})
        services.delete_volume(self.context, volume_id)
        return Response(status=202)


class SnapshotsView(ProxyView):
    """``GET`` and ``POST /os-snapshots``, ``GET /os-snapshots/detail``."""

    rules = {
        "GET": "os_compute_api:os-volumes:snapshots:list",
        "POST": "os_compute_api:os-volumes:snapshots:create",
    }
    schemas: ClassVar = {"POST": lambda version: SNAPSHOT}
    queries: ClassVar = {"GET": limited}

    def get(self, request: Request) -> Response:
        """List snapshots of the project."""
        policy.enforce(self.context, "volume:get_all_snapshots")
        self.checked_query()
        found = selectors.visible_snapshots(self.context).order_by("-created_at", "-id")[read_part(request)]
        return Response({"snapshots": [snapshot_shape(snapshot) for snapshot in found]})

    def post(self, request: Request) -> Response:
        """Create a snapshot of a volume."""
        policy.enforce(self.context, "volume:create_snapshot")
        wanted = self.checked_body()["snapshot"]
        snapshot = services.create_snapshot(
            self.context,
            wanted["volume_id"],
            name=wanted.get("display_name") or "",
            description=wanted.get("display_description") or "",
            force=boolean(wanted.get("force", False)),
        )
        return Response({"snapshot": snapshot_shape(snapshot)})


class SnapshotsDetailView(SnapshotsView):
    """``GET /os-snapshots/detail``."""

    http_method_names = ["get", "head"]
    rules = {"GET": "os_compute_api:os-volumes:snapshots:detail"}


class SnapshotView(ProxyView):
    """``GET`` and ``DELETE /os-snapshots/{id}``."""

    rules = {
        "GET": "os_compute_api:os-volumes:snapshots:show",
        "DELETE": "os_compute_api:os-volumes:snapshots:delete",
    }

    def get(self, request: Request, snapshot_id: str) -> Response:
        snapshot = selectors.snapshot_for(self.context, snapshot_id)
        policy.enforce(self.context, "volume:get_snapshot", {"project_id": snapshot.project_id})
        return Response({"snapshot": snapshot_shape(snapshot)})

    def delete(self, request: Request, snapshot_id: str) -> Response:
        snapshot = selectors.snapshot_for(self.context, snapshot_id)
        policy.enforce(self.context, "volume:delete_snapshot", {"project_id": snapshot.project_id})
        services.delete_snapshot(self.context, snapshot_id)
        return Response(status=202)
