"""The records that quotas limit, as ``provisioning.wiring`` connects them."""

from provisioning.quotas import registry


def limited() -> dict[str, tuple[str, ...]]:
    """Return model (``compute.Instance``) → the resources that limit it."""
    declared = (*registry.IN_LEDGER, *registry.MEASURED)
    return {label: resources for each in declared for label, resources in each.models.items()}


def unlimited() -> dict[str, str]:
    """Return model → why no quota limits it."""
    return {label: reason for reasons in registry.UNLIMITED for label, reason in reasons.items()}
