"""Extensions and availability zones (reference, "API extensions", "Availability zones")."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.volume.base import VolumeView
from provisioning.volumes.selectors.pools import zones

EXTENSIONS = {
    "backups": "Backups",
    "capabilities": "Capabilities",
    "encryption": "VolumeTypeEncryption",
    "os-admin-actions": "AdminActions",
    "os-availability-zone": "AvailabilityZones",
    "os-extended-services": "ExtendedServices",
    "os-extended-snapshot-attributes": "ExtendedSnapshotAttributes",
    "os-hosts": "Hosts",
    "os-quota-class-sets": "QuotaClasses",
    "os-quota-sets": "Quotas",
    "os-services": "Services",
    "os-snapshot-actions": "SnapshotActions",
    "os-snapshot-manage": "SnapshotManage",
    "os-snapshot-unmanage": "SnapshotUnmanage",
    "os-types-extra-specs": "TypesExtraSpecs",
    "os-types-manage": "TypesManage",
    "os-used-limits": "UsedLimits",
    "os-vol-host-attr": "VolumeHostAttribute",
    "os-vol-image-meta": "VolumeImageMetadata",
    "os-vol-mig-status-attr": "VolumeMigStatusAttribute",
    "os-vol-tenant-attr": "VolumeTenantAttribute",
    "os-volume-actions": "VolumeActions",
    "os-volume-encryption-metadata": "VolumeEncryptionMetadata",
    "os-volume-manage": "VolumeManage",
    "os-volume-transfer": "VolumeTransfer",
    "os-volume-type-access": "VolumeTypeAccess",
    "os-volume-unmanage": "VolumeUnmanage",
    "OS-SCH-HNT": "SchedulerHints",
    "qos-specs": "Qos_specs_manage",
    "scheduler-stats": "Scheduler_stats",
}
"""Alias → name of the supported extensions of Cinder."""
OPEN = "novella:get_block_storage"


class ExtensionsView(VolumeView):
    """``GET /extensions``."""

    rules = {"GET": OPEN}

    def get(self, request: Request) -> Response:
        """List the supported extensions of Cinder."""
        found = [
            {
                "alias": alias,
                "name": name,
                "description": f"{name}, as in Cinder.",
                "updated": "2015-03-01T00:00:00+00:00",
                "links": [],
            }
            for alias, name in EXTENSIONS.items()
        ]
        return Response({"extensions": found})


class ZonesView(VolumeView):
    """``GET /os-availability-zone``."""

    rules = {"GET": OPEN}

    def get(self, request: Request) -> Response:
        """List the zones of pools."""
        found = [{"zoneName": name, "zoneState": {"available": available}} for name, available in zones().items()]
        return Response({"availabilityZoneInfo": found})
