"""The metadata options of instances, if a client has set any."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from provisioning.common.database.lookups import Among, Ids
from provisioning.common.database.prepared import Prepared
from provisioning.ec2.models import MetadataOptions

DEFAULT_TOKENS, REQUIRED, DEFAULT_HOPS = "optional", "required", 1


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


_OPTIONS = Prepared(lambda ids: MetadataOptions.objects.filter(Among("instance_id", ids)), ids=Ids())
