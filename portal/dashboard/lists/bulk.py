"""The actions on the selected rows of a list."""

from collections.abc import Callable, Sequence
from functools import cache

from django.urls import reverse

from portal.dashboard.lists.declaration import BulkAction
from provisioning.batches.kinds import KINDS
from provisioning.common.context import RequestContext
from provisioning.identity import policy


def bulk_actions(kind: str) -> Callable[[RequestContext], Sequence[BulkAction]]:
    """Return the function that lists the caller's actions on a kind of resources (``batches.kinds``)."""

    def allowed(context: RequestContext) -> Sequence[BulkAction]:
        return [action for rule, action in _actions(kind) if policy.allows(context, rule)]

    return allowed


@cache
def _actions(kind: str) -> list[tuple[str, BulkAction]]:
    """Return all actions on a kind of resources, with their policy rules."""
    return [
        (
            each.rule,
            BulkAction(
                each.name,
                each.label,
                each.icon,
                reverse("dashboard:bulk", args=[kind, each.name]),
                danger=each.danger,
                direct=bool(each.undone_by),
            ),
        )
        for each in KINDS[kind].actions
    ]
