"""Policies of the Identity API: texts with a type, which are only stored (deprecated since Queens)."""

from typing import Any

from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Policy
from provisioning.identity.services.checks import merged

Extra = dict[str, Any]


def create_policy(type_: str, blob: str, *, extra: Extra | None = None) -> Policy:
    """Create a policy.  Raises InvalidInputError for too many additional fields."""
    return Policy.objects.create(type=type_, blob=blob, extra=merged({}, extra))


def update_policy(policy: Policy, *, extra: Extra | None = None, **columns: str) -> Policy:
    """Update ``type`` and ``blob``, and merge additional fields.  Raises NotFoundError if it was deleted in the
    meantime.
    """
    values: dict[str, Any] = {**columns, "extra": merged(policy.extra, extra)}
    if not Policy.objects.filter(pk=policy.pk).update(**values):
        raise NotFoundError(f"Could not find policy: {policy.pk.hex}.")
    for name, value in values.items():
        setattr(policy, name, value)
    return policy


def delete_policy(policy: Policy) -> None:
    policy.delete()
