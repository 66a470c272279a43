"""Metadata of snapshots, and unmanaged snapshots (reference, "Volume snapshots (snapshots)")."""

from dataclasses import replace
from functools import partial
from typing import NoReturn

from portal.api.frame.parts import Call, Entries, parts
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.schemas import METADATA
from portal.api.volume.volumes.manage import SINCE as UNMANAGED_SINCE
from provisioning.common.context import RequestContext
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


def _refuse(context: RequestContext) -> NoReturn:
    """Refuse with Cinder's message for drivers without this feature."""
    raise InvalidInputError("Manage existing snapshot not implemented.")


_LIST = Call(
    lambda context: [],
    "snapshot_extension:list_manageable",
    "Return an empty list: unmanaged disks can only become volumes.",
    name="manageable-snapshots",
)
_MANAGE = Call(
    _refuse,
    "snapshot_extension:snapshot_manage",
    "Refused, with Cinder's message for drivers without this feature.",
    status=201,
)
UNMANAGED = parts(
    VolumeView,
    "",
    {
        "GET manageable_snapshots": replace(_LIST, since=UNMANAGED_SINCE),
        "POST manageable_snapshots": replace(_MANAGE, since=UNMANAGED_SINCE),
        "GET manageable_snapshots/detail": replace(_LIST, since=UNMANAGED_SINCE),
        "GET os-snapshot-manage": _LIST,
        "POST os-snapshot-manage": _MANAGE,
        "GET os-snapshot-manage/detail": _LIST,
    },
)
