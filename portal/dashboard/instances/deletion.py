"""The volumes of instances that are about to be deleted, as sentences of the confirmation."""

from collections.abc import Iterable

from provisioning.compute.models import BlockDevice


def volumes_left(devices: Iterable[BlockDevice]) -> str:
    """Return how many volumes are deleted with their instances, and how many are kept; empty without volumes."""
    rows, found = list(devices), []
    for fate, is_deleted in (("deleted with {}", True), ("kept", False)):
        if number := sum(each.delete_on_termination is is_deleted for each in rows):
            owners = "it" if len({each.instance_id for each in rows}) == 1 else "them"
            found.append(f"{number} volume{' is' if number == 1 else 's are'} {fate.format(owners)}.")
    return " ".join(found)
