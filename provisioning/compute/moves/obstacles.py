"""Why servers cannot leave their hosts, with a few queries for all servers of a plan."""

import uuid
from collections.abc import Sequence

from compute_agent.contract.commands import MOVES
from provisioning.compute.host_link import newer_guests
from provisioning.compute.models import Instance, MoveAllocation
from provisioning.compute.states import VmState

BUSY = "It has a task in progress ({task})."
NOT_IN_STATE = "It is {state}: only active and stopped servers are migrated."
OLD_AGENT = "The agent of its host is too old to move servers. Upgrade it first."
UNDECIDED = "An operator has to decide about a newer guest of it first."
LEFTOVERS = "The other host of an earlier move has not confirmed yet that it has removed its data."
SECONDS, SECONDS_FOR_GIB = 20.0, 5.0
"""Estimated duration of a cold move: stop and start, and the copy of a GiB of local disk."""
_FROM = (VmState.ACTIVE, VmState.STOPPED)


def cold_obstacles(servers: Sequence[Instance]) -> dict[uuid.UUID, str]:
    """Return server → why it cannot be migrated cold to any host; the same conditions as ``cold.check_may_move``."""
    ids = [server.id for server in servers]
    undecided = newer_guests.undecided_among(ids)
    held = set(MoveAllocation.objects.filter(instance__in=ids).values_list("instance_id", flat=True))
    found = {}
    for server in servers:
        if server.task_state is not None:
            found[server.id] = BUSY.format(task=server.task_state)
        elif server.vm_state not in _FROM:
            found[server.id] = NOT_IN_STATE.format(state=server.vm_state.replace("_", " "))
        elif server.host is None or server.host.contract_version < MOVES:
            found[server.id] = OLD_AGENT
        elif server.id in undecided:
            found[server.id] = UNDECIDED
        elif server.id in held:
            found[server.id] = LEFTOVERS
    return found


def cold_seconds(server: Instance) -> float:
    """Return the estimated duration of a cold move."""
    return SECONDS + SECONDS_FOR_GIB * int(server.flavor["disk_gb"])
