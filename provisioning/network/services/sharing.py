"""Keeps the policies that share a record with everybody equal to the columns that say the same."""

from typing import Any

from provisioning.network.models import RbacPolicy


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
