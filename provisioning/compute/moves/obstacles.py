"""Why servers cannot leave their hosts, with a few queries for all servers of a plan."""

import uuid
from collections.abc import Sequence

from django.db.models import F

from compute_agent.contract.commands import MOVES
from provisioning.compute.host_link import newer_guests
from provisioning.compute.models import Instance, MoveAllocation
from provisioning.compute.moves import volumes
from provisioning.compute.moves.fitness import NOT_LIVE_IN_POOL, OLD_IN_POOL, is_held_in_pool, is_held_live
from provisioning.compute.moves.live import NO_IMAGE
from provisioning.compute.selectors.root_pools import is_in_pool
from provisioning.compute.states import VmState
from provisioning.images.models import Image

BUSY = "It has a task in progress ({task})."
NOT_IN_STATE = "It is {state}: only active and stopped servers are migrated."
NOT_LIVE_IN_STATE = "It is {state}: only active and paused servers are migrated live."
UNCONFIRMED = "It waits for the confirmation of a resize or migration. Confirm or revert that first."
OLD_AGENT = "The agent of its host is too old to move servers. Upgrade it first."
UNDECIDED = "An operator has to decide about a newer guest of it first."
LEFTOVERS = "The other host of an earlier move has not confirmed yet that it has removed its data."
NOT_RUNNING = "It does not run, so it cannot be migrated live."
_LIVE_FROM = (VmState.ACTIVE, VmState.PAUSED)
_FROM = (VmState.ACTIVE, VmState.STOPPED)


def cold_obstacles(servers: Sequence[Instance]) -> dict[uuid.UUID, str]:
    """Return server → why it cannot be migrated cold to any host; the same conditions as ``begin.check_may_move``."""
    ids = [server.id for server in servers]
    undecided = newer_guests.undecided_among(ids)
    held = _held_by_second(ids)
    result = {}
    for server in servers:
        if server.task_state is not None:
            result[server.id] = BUSY.format(task=server.task_state)
        elif server.vm_state not in _FROM:
            result[server.id] = _in_state(server, NOT_IN_STATE)
        elif server.host is None or server.host.contract_version < MOVES:
            result[server.id] = OLD_AGENT
        elif is_held_in_pool(server):
            result[server.id] = OLD_IN_POOL
        elif server.id in undecided:
            result[server.id] = UNDECIDED
        elif server.id in held:
            result[server.id] = LEFTOVERS
    return result


def live_obstacles(servers: Sequence[Instance]) -> dict[uuid.UUID, str]:
    """Return server → why it cannot be migrated live to any host; the same conditions as ``LiveMigrate.start``."""
    ids = [server.id for server in servers]
    held = _held_by_second(ids)
    of_volumes = volumes.obstacles(ids)
    images = {server.image_id for server in servers if server.image_id is not None}
    usable = set(Image.objects.filter(id__in=images, status=Image.Status.ACTIVE).values_list("id", flat=True))
    result = {}
    for server in servers:
        if server.task_state is not None:
            result[server.id] = BUSY.format(task=server.task_state)
        elif server.vm_state not in _LIVE_FROM:
            result[server.id] = (
                NOT_RUNNING if server.vm_state == VmState.STOPPED else _in_state(server, NOT_LIVE_IN_STATE)
            )
        elif is_held_live(server):
            result[server.id] = NOT_LIVE_IN_POOL
        elif server.id in of_volumes:
            result[server.id] = of_volumes[server.id]
        elif server.image_id is not None and server.image_id not in usable and not is_in_pool(server):
            result[server.id] = NO_IMAGE
        elif server.id in held:
            result[server.id] = LEFTOVERS
    return result


def _held_by_second(ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Return the servers for which ``moves.hosts.is_held_by_second`` is true."""
    rows = MoveAllocation.objects.filter(instance__in=ids).exclude(host=F("instance__host"))
    return set(rows.values_list("instance_id", flat=True))


def _in_state(server: Instance, text: str) -> str:
    """Return why a server cannot move in its state."""
    return UNCONFIRMED if server.vm_state == VmState.RESIZED else text.format(state=server.vm_state.replace("_", " "))
