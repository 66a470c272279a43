"""DescribeVolumeStatus: whether the data of a volume can be reached."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from portal.api.ec2 import names
from portal.api.ec2.actions.volumes import states
from portal.api.ec2.actions.volumes.found import volumes_of
from portal.api.ec2.describe import Column, Described, describe, nothing
from provisioning.ec2 import ids
from provisioning.volumes.models import Volume
from provisioning.volumes.selectors.pools import is_up

_IO = {"ok": "passed", "impaired": "failed", "insufficient-data": "insufficient-data"}


def _shapes(volumes: Sequence[Volume]) -> list[dict[str, Any]]:
    known = ids.ids_of(names.VOLUME.prefix, [volume.id for volume in volumes])
    return [_shape(volume, known[volume.id]) for volume in volumes]


def _shape(volume: Volume, ec2_id: str) -> dict[str, Any]:
    status = _status(volume)
    return {
        "VolumeId": ec2_id,
        "AvailabilityZone": volume.availability_zone,
        "AvailabilityZoneId": volume.availability_zone,
        "VolumeStatus": {
            "Status": status,
            "Details": [
                {"Name": "io-enabled", "Status": _IO[status]},
                {"Name": "io-performance", "Status": "not-applicable"},
            ],
        },
        "Events": [],
        "Actions": [],
    }


def _status(volume: Volume) -> str:
    state = states.of_volume(volume)
    if state == states.ERROR:
        return "impaired"
    if state == states.CREATING:
        return "insufficient-data"
    return "ok" if volume.pool is not None and is_up(volume.pool, timezone.now()) else "impaired"


describe(
    Described(
        action="DescribeVolumeStatus",
        rule="volume:get_all",
        member="VolumeStatuses",
        kind=names.VOLUME,
        ids="VolumeIds",
        ids_exclude_pages=True,
        ignored="IncludeManagedResources",
        rows=lambda call: volumes_of(call.context),
        shape=lambda call, volumes: _shapes(volumes),
        tags=None,
        filters={
            "availability-zone": Column("AvailabilityZone", "availability_zone"),
            "volume-status.status": "VolumeStatus.Status",
            "volume-status.details-name": "VolumeStatus.Details[].Name",
            "volume-status.details-status": "VolumeStatus.Details[].Status",
            **nothing(
                "action.code action.description action.event-id attachment-status.instance-id "
                "attachment-status.io-performance event.description event.event-id event.event-type event.not-after "
                "event.not-before"
            ),
        },
    )
)
