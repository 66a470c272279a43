"""Keeps policies for all projects consistent with the columns ``shared`` and ``external``, and deletes policies."""

from typing import Any

from django.db.models import QuerySet

from provisioning.network.models import RbacPolicy
from provisioning.quotas.services.ledger import release


def end(policies: QuerySet[RbacPolicy]) -> int:
    """Delete the policies of records that are deleted, with their quota; return their number."""
    for key in policies.exclude(target_project=RbacPolicy.EVERYBODY).order_by("pk").values_list("pk", flat=True):
        release(key)
    return policies.delete()[0]


def mirror(row: Any, kind: str, **actions: bool) -> None:
    """Create or delete the policies that share a record with all projects; ``actions``: action → whether it is shared.

    For a network that is no longer external, policies for single projects are deleted as well.
    """
    for action, is_shared in actions.items():
        same = {
            "object_type": kind,
            "object_id": row.pk,
            "action": action,
            "target_project": RbacPolicy.EVERYBODY,
        }
        if not is_shared and action == RbacPolicy.EXTERNAL:
            end(RbacPolicy.objects.filter(object_type=kind, object_id=row.pk, action=action))
        elif not is_shared:
            RbacPolicy.objects.filter(**same).delete()
        elif not RbacPolicy.objects.filter(**same).exists():
            RbacPolicy.objects.create(project_id=row.project_id, **same)
