"""Deletes servers whose lease has ended, and announces the end to their projects."""

from provisioning.jobs.registry import periodic
from provisioning.launches.services.leases import announce_ending, delete_ended


@periodic("launches.leases", every=60.0)
def keep_leases() -> None:
    """Announce the leases that end soon, and delete the servers whose lease has ended."""
    announce_ending()
    delete_ended()
