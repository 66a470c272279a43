"""The kinds of resources that batches can act on, and their actions."""

from provisioning.batches.kinds.declaration import BatchAction, Kind
from provisioning.batches.kinds.images import IMAGES, KEY_PAIRS
from provisioning.batches.kinds.instances import INSTANCES, SERVERS
from provisioning.batches.kinds.networks import FLOATING_IPS, NETWORKS, ROUTERS, SECURITY_GROUPS
from provisioning.batches.kinds.volumes import BACKUPS, SNAPSHOTS, VOLUMES

KINDS = {
    kind.name: kind
    for kind in (
        *(INSTANCES, SERVERS, VOLUMES, SNAPSHOTS, BACKUPS),
        *(FLOATING_IPS, NETWORKS, ROUTERS, SECURITY_GROUPS),
        *(IMAGES, KEY_PAIRS),
    )
}
"""Name of a kind → its declaration; the name is that of its list in the dashboard."""


def action_named(kind: str, name: str) -> tuple[Kind, BatchAction] | None:
    """Return the declarations of a kind and its action; None if there is no such action."""
    declared = KINDS.get(kind)
    action = declared.action(name) if declared else None
    return (declared, action) if declared and action else None
