"""DescribeVolumeStatus: whether the data of a volume can be reached."""

from typing import Any

from django.utils import timezone

from portal.api.ec2 import names
from portal.api.ec2.actions.volumes import states
from portal.api.ec2.actions.volumes.describe import Found, listed
from portal.api.ec2.actions.volumes.found import volumes_of
from portal.api.ec2.filters import Filterable
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.volumes.models import Volume
from provisioning.volumes.selectors.pools import is_up

_IO = {"ok": "passed", "impaired": "failed", "insufficient-data": "insufficient-data"}


@action(
    "DescribeVolumeStatus",
    "volume:get_all",
    takes="VolumeIds Filters MaxResults NextToken",
    passes_over="IncludeManagedResources",
)
def describe_volume_status(call: Call) -> dict[str, Any]:
    """Show the status of each volume and whether a host of its pool is up."""
    shown, token = listed(call, volumes_of(call.context), _shaped, _FILTERS)
    return {"VolumeStatuses": shown, "NextToken": token}


def _shaped(volumes: list[Volume]) -> list[Found]:
    known = ids.ids_of(names.VOLUME.prefix, [volume.id for volume in volumes])
    return [Found(volume, _shape(volume, known[volume.id])) for volume in volumes]


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


_NOTHING = (
    *("action.code", "action.description", "action.event-id"),
    *("attachment-status.instance-id", "attachment-status.io-performance"),
    *("event.description", "event.event-id", "event.event-type", "event.not-after", "event.not-before"),
)
"""Filters on attributes that no volume has."""
_FILTERS: Filterable[Found] = Filterable(
    {
        "availability-zone": lambda found: found.shape["AvailabilityZone"],
        "volume-status.status": lambda found: found.shape["VolumeStatus"]["Status"],
        "volume-status.details-name": lambda found: [each["Name"] for each in found.shape["VolumeStatus"]["Details"]],
        "volume-status.details-status": lambda found: [
            each["Status"] for each in found.shape["VolumeStatus"]["Details"]
        ],
        **dict.fromkeys(_NOTHING, lambda found: []),
    }
)
