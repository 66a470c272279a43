"""Keeps the policies that share a record with everybody equal to the columns that say the same; ends policies."""

from typing import Any

from django.db.models import QuerySet

from provisioning.network.models import RbacPolicy
from provisioning.quotas.services.ledger import release


def end(policies: QuerySet[RbacPolicy]) -> int:
    """Delete the policies of what goes, with their part of the quota; return how many there were."""
    for key in policies.exclude(target_project=RbacPolicy.EVERYBODY).order_by("pk").values_list("pk", flat=True):
        release(key)
    return policies.delete()[0]


def mirror(row: Any, kind: str, **actions: bool) -> None:
    """Make or remove the policies of everybody for a record; ``actions``: action → whether everybody may."""
    for action, wanted in actions.items():
        same = {
            "object_type": kind,
            "object_id": row.pk,
            "action": action,
            "target_project": RbacPolicy.EVERYBODY,
        }
        if not wanted:
            RbacPolicy.objects.filter(**same).delete()
        elif not RbacPolicy.objects.filter(**same).exists():
            RbacPolicy.objects.create(project_id=row.project_id, **same)
