"""Setting several limits at once."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from django.db import transaction

from provisioning.quotas.models import QuotaLimit
from provisioning.quotas.services import set_limit


@transaction.atomic
def set_limits(project_id: uuid.UUID | None, limits: Mapping[str, int | None]) -> None:
    """Set each limit as ``services.set_limit`` does, all of them or, when one is refused, none."""
    for resource, limit in limits.items():
        set_limit(project_id, resource, limit)


def reset_limits(project_id: uuid.UUID | None) -> None:
    """Give the project the default limits again; for None give all projects Nova's defaults."""
    QuotaLimit.objects.filter(project_id=project_id).delete()
