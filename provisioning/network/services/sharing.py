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
    """Create the policies that let everybody use a record, or remove them; ``actions``: action → whether everybody may.

    A network that is not external any more is external for no single project either.
    """
    for action, wanted in actions.items():
        same = {
            "object_type": kind,
            "object_id": row.pk,
            "action": action,
            "target_project": RbacPolicy.EVERYBODY,
        }
        if not wanted and action == RbacPolicy.EXTERNAL:
            end(RbacPolicy.objects.filter(object_type=kind, object_id=row.pk, action=action))
        elif not wanted:
            RbacPolicy.objects.filter(**same).delete()
        elif not RbacPolicy.objects.filter(**same).exists():
            RbacPolicy.objects.create(project_id=row.project_id, **same)
