"""Queued and periodic jobs of the catalogue."""

from provisioning.catalogue.services import following, refreshing
from provisioning.jobs.registry import periodic


@periodic("catalogue.refresh", every=60.0)
def refresh_if_due() -> None:
    """Read the index when it is due."""
    if refreshing.is_due():
        refreshing.refresh()


@periodic("catalogue.remove_replaced", every=600.0)
def remove_replaced() -> int:
    """Delete replaced images that are no longer used."""
    return following.remove_replaced()
