"""Unmanaged disks in pools, which can become volumes (reference, "Volume manage extension"), from 3.8 on."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from compute_agent.contract.volume import UnmanagedDisk
from portal.api.common.requests import NEWEST, Schema
from portal.api.frame.resource import body
from portal.api.volume.dialect.listing import LIST_PAGES
from portal.api.volume.dialect.schemas import BOOLEAN, ID, ID_OR_NULL, METADATA, NAME, boolean, text_of
from portal.api.volume.dialect.views import ResourceView
from portal.api.volume.volumes.resource import LEGACY, VOLUME, with_parts
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.volumes.models import StoragePool
from provisioning.volumes.selectors.pools import pool_named
from provisioning.volumes.services.lifecycle.manage import ManageRequest, manage_volume, manageable, size_of

SINCE = (3, 8)
REFERENCE = "source-name"
SORTS = ("reference", "size")
_REF: Schema = {"type": "object", "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 255}}
MANAGE = body(
    "volume",
    {
        "host": ID,
        "ref": _REF | {"minProperties": 1},
        "name": NAME,
        "description": NAME,
        "volume_type": ID_OR_NULL,
        "availability_zone": ID_OR_NULL,
        "bootable": BOOLEAN,
        "metadata": METADATA | {"type": ["object", "null"]},
        "cluster": {"type": "null"},
    },
    ("host", "ref"),
)


def pool_of(named: str) -> StoragePool:
    """Return the pool in ``HOST@DRIVER#POOL``. Raises InvalidInputError for an unknown one."""
    try:
        return pool_named(named)
    except NotFoundError as error:
        raise InvalidInputError(error.message, field="host") from None


class ManageableView(ResourceView):
    """``GET`` and ``POST /manageable_volumes`` and similar paths."""

    resource = VOLUME
    versions = dict.fromkeys(("GET", "POST"), (SINCE, NEWEST))

    rules = {"GET": "volume_extension:list_manageable", "POST": "volume_extension:volume_manage"}
    schemas = {"POST": MANAGE}

    def pool(self) -> StoragePool:
        """Return the pool in the query."""
        named = self.request.query_params.get("host", "")
        if not named:
            raise InvalidInputError("Name the pool by host: HOST@DRIVER#POOL.", field="host")
        return pool_of(named)

    def get(self, request: Request) -> Response:
        """List the unmanaged disks of a pool by name; ``sort=size:desc``, ``limit`` and ``offset``."""
        disks = manageable(self.pool())
        key, _, way = request.query_params.get("sort", "reference:asc").partition(":")
        if key not in SORTS or way not in ("", "asc", "desc"):
            raise InvalidInputError(f"These lists are sorted by {' and '.join(SORTS)}, asc or desc.", field="sort")
        disks.sort(key=lambda disk: (disk.size if key == "size" else 0, disk.name), reverse=way == "desc")
        chosen = disks[LIST_PAGES.read_slice(request)]
        return Response({"manageable-volumes": [self.disk(each) for each in chosen]})

    def disk(self, disk: UnmanagedDisk) -> dict[str, Any]:
        return {"reference": {REFERENCE: disk.name}, "size": size_of(disk), "safe_to_manage": not disk.reason}

    def post(self, request: Request) -> Response:
        """Manage a disk as a new volume."""
        body = self.checked_body()["volume"]
        if body["ref"].keys() != {REFERENCE}:
            raise InvalidInputError(f"A disk is named by its {REFERENCE}, and by nothing else.", field="ref")
        pool = pool_of(body["host"])
        if body.get("availability_zone") not in (None, "", pool.availability_zone):
            raise InvalidInputError(f"The pool is in zone {pool.availability_zone}.", field="availability_zone")
        made = manage_volume(
            self.context,
            pool,
            ManageRequest(
                name_in_pool=body["ref"][REFERENCE],
                name=text_of(body, "name"),
                description=text_of(body, "description"),
                volume_type=body.get("volume_type") or "",
                bootable=boolean(body.get("bootable", False)),
                metadata=body.get("metadata") or {},
            ),
        )
        [shape] = self.shapes([with_parts(self.context).get(id=made.id)], LEGACY)
        return Response({"volume": shape}, status=202)


class ManageableListView(ManageableView):
    """``GET /manageable_volumes/detail`` and similar paths."""

    rules = {"GET": "volume_extension:list_manageable"}
    http_method_names = ["get", "head"]

    def disk(self, disk: UnmanagedDisk) -> dict[str, Any]:
        result = {"reason_not_safe": disk.reason or None, "cinder_id": None, "extra_info": None}
        return super().disk(disk) | result
