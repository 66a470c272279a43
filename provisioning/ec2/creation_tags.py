"""Tags that a launch specifies for resources which are created for its instances later, once a host is chosen."""

import uuid
from collections.abc import Iterable, Mapping

from django.db.models import CharField, UUIDField

from provisioning.common.database.prepared import Prepared
from provisioning.ec2 import tags
from provisioning.ec2.kinds import KINDS
from provisioning.ec2.models import CreationTags

_ASKED = Prepared(
    lambda instance_id, resource_type: CreationTags.objects.filter(
        instance_id=instance_id, resource_type=resource_type
    ).order_by("pk")[:1],
    instance_id=UUIDField(),
    resource_type=CharField(),
)


def keep(project_id: uuid.UUID, instance_ids: Iterable[uuid.UUID], requested: Mapping[str, Mapping[str, str]]) -> None:
    """Store tags by resource type (``volume``), in the transaction of the launch."""
    CreationTags.objects.bulk_create(
        CreationTags(project_id=project_id, instance_id=instance_id, resource_type=resource_type, tags=dict(each))
        for instance_id in instance_ids
        for resource_type, each in requested.items()
        if each
    )


def apply(instance_id: uuid.UUID, resource_type: str, resources: Iterable[uuid.UUID]) -> None:
    """Tag resources that were created for an instance as its launch specified."""
    row = _ASKED.first(instance_id=instance_id, resource_type=resource_type)
    if row is None:
        return
    prefix = next(kind.prefix for kind in KINDS if kind.resource_type == resource_type)
    tags.write(row.project_id, [(prefix, resource) for resource in resources], row.tags)
