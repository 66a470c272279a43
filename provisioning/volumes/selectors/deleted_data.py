"""The size of deleted volumes' data that clones need."""

import uuid

from django.db.models import F, Sum

from provisioning.volumes.models import DeletedData, StoragePool


def by_project(pool: StoragePool) -> dict[uuid.UUID | None, int]:
    """Return project → GiB in a pool, the largest first; None: an unknown project."""
    rows = DeletedData.objects.filter(pool=pool, size_gb__gt=0).values_list("project_id")
    records = rows.annotate(gb=Sum("size_gb")).order_by("-gb", F("project_id").asc(nulls_last=True))
    return dict(records)


def of_project(project_id: uuid.UUID) -> int:
    """Return the GiB of deleted volumes' data of a project."""
    return DeletedData.objects.filter(project_id=project_id).aggregate(gb=Sum("size_gb"))["gb"] or 0
