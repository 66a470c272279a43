"""Values that EC2 clients have specified and that no other record of the cloud has, such as the metadata options of a
server."""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import CharField, Model, QuerySet, UUIDField

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.common.wired import Wired
from provisioning.ec2.models import GivenValue, MetadataOptions

DEVICE = "device"
"""The device name of a block device."""
VOLUME_TYPE = "volume type"
"""The EC2 volume type and its attributes that were requested for a volume, or for the block device from which the
volume is created: ``{"VolumeType": "gp3", "Iops": 3000}``.
"""
MODIFICATION = "modification"
"""The volume types before and after a volume's last modification: ``{"OriginalVolumeType": "gp2", …}``."""
INSTANCE_TYPE = "instance type"
"""An instance's [EC2 name of its flavor, the flavor's name]."""
IMAGE = "image"
"""The image, as 32 hexadecimal digits, of an instance that boots from a volume."""
AFTER_RESIZE = "after resize"
"""The next step after an instance's resize, which is confirmed automatically: ``stop``, or ``start`` if a client has
requested the start during the resize.
"""
ROUTES = "routes"
"""The destinations of an internet gateway's routes."""

OWNERS = Wired[type[Model]]("The owners of values of EC2")
"""Models whose rows may have values. Values of deleted rows are purged."""

DEFAULT_TOKENS, REQUIRED, DEFAULT_HOPS = "optional", "required", 1

_OPTIONS = Prepared(lambda ids: MetadataOptions.objects.filter(Among("instance_id", ids)), ids=Ids())


def keep(project_id: uuid.UUID, resource_id: uuid.UUID, values: Mapping[str, Any]) -> None:
    """Store values of a resource by name, replacing stored values with the same names."""
    rows = [
        GivenValue(project_id=project_id, resource_id=resource_id, name=name, value=value)
        for name, value in values.items()
    ]
    if not rows:
        return
    GivenValue.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["resource_id", "name"], update_fields=["value"]
    )


def values_of(resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, dict[str, Any]]:
    """Return resource → its values by name; resources without values are omitted."""
    result: dict[uuid.UUID, dict[str, Any]] = defaultdict(dict)
    needed = set(resources)
    for row in _VALUES(ids=needed) if needed else ():
        result[row.resource_id][row.name] = row.value
    return dict(result)


def value_of(resource_id: uuid.UUID, name: str) -> Any:
    """Return one value, or None."""
    row = _VALUE.first(resource_id=resource_id, name=name)
    return row.value if row is not None else None


def resources_with(name: str) -> QuerySet[GivenValue, uuid.UUID]:
    """Return the ids of resources that have a value of this name, for use in queries."""
    return GivenValue.objects.filter(name=name).values_list("resource_id", flat=True)


def forget(resource_id: uuid.UUID, *specified: str) -> None:
    GivenValue.objects.filter(resource_id=resource_id, name__in=specified).delete()


def pass_on(source: uuid.UUID, target: uuid.UUID, name: str) -> None:
    """Copy a value to a resource that was created from another one."""
    row = _VALUE.first(resource_id=source, name=name)
    if row is not None:
        keep(row.project_id, target, {name: row.value})


_VALUES = Prepared(lambda ids: GivenValue.objects.filter(Among("resource_id", ids)), ids=Ids())
_VALUE = Prepared(
    lambda resource_id, name: GivenValue.objects.filter(resource_id=resource_id, name=name),
    resource_id=UUIDField(),
    name=CharField(),
)


def write(project_id: uuid.UUID, instances: Iterable[uuid.UUID], columns: Mapping[str, Any]) -> None:
    """Set options of instances; options that are not in ``columns`` are not changed."""
    defaults = {"project_id": project_id, "http_tokens": DEFAULT_TOKENS, "hop_limit": DEFAULT_HOPS}
    for instance_id in instances if columns else ():
        MetadataOptions.objects.update_or_create(
            instance_id=instance_id, defaults=columns, create_defaults={**defaults, **columns}
        )


def options_of(instances: Iterable[uuid.UUID]) -> dict[uuid.UUID, MetadataOptions]:
    """Return instance → its options; instances without options are omitted."""
    return {row.instance_id: row for row in _OPTIONS(ids=list(instances))}
