"""Values that clients of EC2 have given and that nothing else of this cloud keeps: they are shown again as they came.

A client compares what it has asked for with what it is shown, and replaces what differs.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import CharField, Model, QuerySet, UUIDField

from provisioning.common.lookups import Among, Ids
from provisioning.common.prepared import Prepared
from provisioning.common.wired import Wired
from provisioning.ec2.models import GivenValue

DEVICE = "device"
"""The name of a disk, of a block device."""
VOLUME_TYPE = "volume type"
"""One of Amazon's types of volumes with what belongs to it, of a volume, or of the block device that it is created for:
``{"VolumeType": "gp3", "Iops": 3000}``."""
MODIFICATION = "modification"
"""Of a volume: the types that EC2 shows of its last modification, ``{"OriginalVolumeType": "gp2", …}``."""
INSTANCE_TYPE = "instance type"
"""Of an instance: [a name of its flavor, the flavor's own name]."""
IMAGE = "image"
"""The image, as 32 hexadecimal digits, of an instance that boots from a volume."""
AFTER_RESIZE = "after resize"
"""Of an instance whose resize is confirmed when it is done: ``stop``, or ``start`` when it is to run then."""
ROUTES = "routes"
"""Of an internet gateway: the destinations that are routed through it."""

OWNERS = Wired[type[Model]]("The owners of values of EC2")
"""Models whose rows have values; the values of deleted rows are purged."""


def keep(project_id: uuid.UUID, resource_id: uuid.UUID, values: Mapping[str, Any]) -> None:
    """Keep values of a resource by their names, in the place of earlier ones."""
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
    """Return resource → its values by their names, of those that have some."""
    found: dict[uuid.UUID, dict[str, Any]] = defaultdict(dict)
    wanted = set(resources)
    for row in _VALUES(ids=wanted) if wanted else ():
        found[row.resource_id][row.name] = row.value
    return dict(found)


def value_of(resource_id: uuid.UUID, name: str) -> Any:
    """Return one value, None without one."""
    row = _VALUE.first(resource_id=resource_id, name=name)
    return row.value if row is not None else None


def resources_with(name: str) -> QuerySet[GivenValue, uuid.UUID]:
    """Return the resources that have a value of this name, for conditions of queries."""
    return GivenValue.objects.filter(name=name).values_list("resource_id", flat=True)


def forget(resource_id: uuid.UUID, *given: str) -> None:
    GivenValue.objects.filter(resource_id=resource_id, name__in=given).delete()


def pass_on(source: uuid.UUID, target: uuid.UUID, name: str) -> None:
    """Give what was created for something a value that was given for that."""
    row = _VALUE.first(resource_id=source, name=name)
    if row is not None:
        keep(row.project_id, target, {name: row.value})


_VALUES = Prepared(lambda ids: GivenValue.objects.filter(Among("resource_id", ids)), ids=Ids())
_VALUE = Prepared(
    lambda resource_id, name: GivenValue.objects.filter(resource_id=resource_id, name=name),
    resource_id=UUIDField(),
    name=CharField(),
)
