"""Version documents, extensions, zones and filters (Block Storage API v3 reference, "API versions", "API extensions",
"Availability zones", "Resource Filters").
"""

from portal.api.frame import Call, Json, document, endpoint, parts, schemas_of, text_of
from portal.api.volume.dialect import MICROVERSIONS, VolumeView, listing
from portal.api.volume.resources import attachments, backups, groups, messages, snapshots, types
from portal.api.volume.volumes.resource import VOLUME
from provisioning.common.context import RequestContext
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
LISTS: dict[str, listing.Lists] = {
    "volume": VOLUME.lists,
    "backup": backups.BACKUP.lists,
    "snapshot": snapshots.SNAPSHOT.lists,
    "group": groups.GROUP.lists,
    "group_snapshot": groups.GROUP_SNAPSHOT.lists,
    "attachment": attachments.ATTACHMENT.lists,
    "message": messages.MESSAGE.lists,
    "volume_type": types.TYPE.lists,
}
POOL_FILTERS = ("name", "volume_type")
"""Filters of ``GET /scheduler-stats/get_pools``."""


def _versions(view: VolumeView) -> Json:
    """Return the list of versions, which contains only v3."""
    version = {
        "id": "v3.0",
        "status": "CURRENT",
        "version": text_of(MICROVERSIONS.maximum),
        "min_version": text_of(MICROVERSIONS.minimum),
        "updated": "2023-08-31T00:00:00Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": f"{endpoint(view.request, 'volume')}/"},
        ],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}],
    }
    return {"versions": [version]}


VERSIONS = document(VolumeView, "List the only version; 300, as in Cinder.", _versions, 300, microversions=None)
"""``GET /volume/``: all versions."""
V3 = document(VolumeView, "Answer with the version document.", _versions, microversions=None)
"""``GET /volume/v3/``: the version in detail."""


def _extensions(context: RequestContext) -> list[Json]:
    return [
        {
            "alias": alias,
            "name": name,
            "description": f"{name}, as in Cinder.",
            "updated": "2015-03-01T00:00:00+00:00",
            "links": [],
        }
        for alias, name in EXTENSIONS.items()
    ]


def _filters(view: VolumeView, resource: str | None) -> list[Json]:
    names = {name: _names(view, each) for name, each in LISTS.items()} | {"pool": [*POOL_FILTERS]}
    return [{"resource": name, "filters": each} for name, each in names.items() if resource in {None, name}]


def _names(view: VolumeView, lists: listing.Lists) -> list[str]:
    return [*schemas_of(lists.every_filter, view.microversion)]


_OPEN = "novella:get_block_storage"
PARTS = parts(
    VolumeView,
    "",
    {
        "GET extensions": Call(_extensions, _OPEN, "List the supported extensions of Cinder.", name="extensions"),
        "GET os-availability-zone": Call(
            lambda context: [{"zoneName": name, "zoneState": {"available": each}} for name, each in zones().items()],
            _OPEN,
            "List the zones of pools.",
            name="availabilityZoneInfo",
        ),
        "GET resource_filters": Call(
            lambda context, *, resource: resource,
            _OPEN,
            "List the filters of each list, or of the one in ``resource``.",
            name="resource_filters",
            shape=_filters,
            more=lambda view: {"resource": view.request.query_params.get("resource")},
            since=(3, 33),
        ),
    },
)
