"""Volumes, snapshots and bare metal, which this cloud does not have: lists are empty, nothing is found or made."""

from __future__ import annotations

from typing import Any

import orjson
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.proxies import schemas as proxy_schemas
from portal.api.compute.proxies.refusals import ProxyView, not_offered
from portal.api.compute.schemas import last
from provisioning.common.errors import InvalidInputError, NotFoundError, NotOfferedError

NO_VOLUMES = "There is no volume service in this cloud; the disks of servers are made with them."
NO_BARE_METAL = "There is no bare metal service in this cloud."


class VolumesView(ProxyView):
    """``/os-volumes``."""

    rules = {"GET": "compute:volumes:list", "POST": "compute:volumes:change"}
    queries = {"GET": proxy_schemas.limited}
    plural = "volumes"

    def get(self, request: Request) -> Response:
        """None."""
        self.checked_query()
        return Response({self.plural: []})

    def post(self, request: Request) -> Response:
        """Say that there is no such service."""
        raise NotOfferedError(NO_VOLUMES)


class VolumesDetailView(VolumesView):
    """``GET /os-volumes/detail``."""

    http_method_names = ["get", "head"]


class VolumeView(ProxyView):
    """``/os-volumes/{id}``."""

    rules = {"GET": "compute:volumes:show", "DELETE": "compute:volumes:change"}
    one = "Volume"

    def get(self, request: Request, volume_id: str) -> Response:
        """Say that there is none."""
        raise NotFoundError(f"{self.one} {volume_id[:64]} could not be found.")

    delete = get


class SnapshotsView(VolumesView):
    """``/os-snapshots``."""

    plural = "snapshots"


class SnapshotsDetailView(VolumesDetailView):
    """``GET /os-snapshots/detail``."""

    plural = "snapshots"


class SnapshotView(VolumeView):
    """``/os-snapshots/{id}``."""

    one = "Snapshot"


class AssistedSnapshotsView(ComputeView):
    """``POST /os-assisted-volume-snapshots``."""

    rules = {"POST": "compute:assisted_volume_snapshots:create"}
    schemas = {"POST": proxy_schemas.assisted_snapshot}

    def post(self, request: Request) -> Response:
        """No server has this volume."""
        raise _no_volume(self.checked_body()["snapshot"]["volume_id"])


class AssistedSnapshotView(ComputeView):
    """``DELETE /os-assisted-volume-snapshots/{id}``."""

    rules = {"DELETE": "compute:assisted_volume_snapshots:delete"}
    queries = {"DELETE": proxy_schemas.assisted_deletion}

    def delete(self, request: Request, snapshot_id: str) -> Response:
        """No server has this volume."""
        text = last(self.checked_query(), "delete_info")
        try:
            info: Any = orjson.loads(text or "")
        except orjson.JSONDecodeError as error:
            raise InvalidInputError("delete_info must be an object in JSON.", field="delete_info") from error
        if not isinstance(info, dict) or not isinstance(info.get("volume_id"), str):
            raise InvalidInputError("delete_info must name the volume_id.", field="delete_info")
        raise _no_volume(info["volume_id"])


def _no_volume(volume_id: str) -> InvalidInputError:
    return InvalidInputError(f"No volume Block Device Mapping with id {volume_id[:64]}.", field="volume_id")


class NodesView(ProxyView):
    """``/os-baremetal-nodes``."""

    rules = {"GET": "compute:baremetal_nodes:list", "POST": "compute:baremetal_nodes:change"}

    def get(self, request: Request) -> Response:
        """Say that there is no such service."""
        raise NotOfferedError(NO_BARE_METAL)

    def post(self, request: Request) -> Response:
        """Say who makes nodes."""
        raise _ironic("node-create")


class NodeView(ProxyView):
    """``/os-baremetal-nodes/{id}``."""

    rules = {"GET": "compute:baremetal_nodes:show", "DELETE": "compute:baremetal_nodes:change"}

    def get(self, request: Request, node_id: str) -> Response:
        """Say that there is no such service."""
        raise NotOfferedError(NO_BARE_METAL)

    def delete(self, request: Request, node_id: str) -> Response:
        """Say who deletes nodes."""
        raise _ironic("node-delete")


class NodeActionView(ProxyView):
    """``POST /os-baremetal-nodes/{id}/action``."""

    rules = {"POST": "compute:baremetal_nodes:change"}

    def post(self, request: Request, node_id: str) -> Response:
        """Say who adds and removes interfaces."""
        body = request.data if isinstance(request.data, dict) else {}
        raise _ironic("port-delete" if "remove_interface" in body else "port-create")


def _ironic(command: str) -> InvalidInputError:
    return InvalidInputError(f"Command not supported. Please use Ironic command {command} to perform this action.")


_BOOT = "Servers are not booted from volumes here: launch them by POST /servers."
BootList = not_offered(ComputeView, "compute:volumes_boot", _BOOT, "GET", "POST")
BootDetail = not_offered(ComputeView, "compute:volumes_boot", _BOOT, "GET")
BootItem = not_offered(ComputeView, "compute:volumes_boot", _BOOT, "GET", "PUT", "DELETE")
BootAction = not_offered(ComputeView, "compute:volumes_boot", _BOOT, "POST")
