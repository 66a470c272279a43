"""Checks whether servers can be evacuated, for one server and for all servers of a host."""

import uuid
from collections.abc import Sequence

from provisioning.common.errors import ConflictError, InvalidInputError, NovellaError
from provisioning.compute.actions.rescue import UNUSABLE_IMAGE, usable_images
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link import newer_guests
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.moves.returning import held_elsewhere
from provisioning.compute.selectors.root_pools import shared_pool
from provisioning.compute.states import VmState
from provisioning.volumes.models import StoragePool

NOT_IN_STATE = "It is {state}: only active and stopped servers, and those in error, are evacuated."
NEVER_BUILT = "It has never been built."
BUSY = "It has a task in progress ({task})."
EVACUATED_FROM = (VmState.ACTIVE, VmState.STOPPED, VmState.ERROR)


def may_be_evacuated(instance: Instance) -> bool:
    """Whether the state of a server allows an evacuation."""
    return instance.vm_state in EVACUATED_FROM and instance.task_state is None and instance.launched_at is not None


def obstacles(servers: Sequence[Instance]) -> dict[uuid.UUID, str]:
    """Return server → why it cannot be evacuated even to a host with enough resources, with a few queries for all."""
    reasons = {server.id: reason for server in servers if (reason := _state_prevents(server))}
    rest = [server for server in servers if server.id not in reasons]
    return reasons | {key: error.message for key, error in missing_parts(rest).items()}


def _state_prevents(server: Instance) -> str:
    if server.task_state is not None:
        return BUSY.format(task=server.task_state)
    if server.launched_at is None:
        return NEVER_BUILT
    return "" if may_be_evacuated(server) else NOT_IN_STATE.format(state=server.vm_state.replace("_", " "))


def missing_parts(servers: Sequence[Instance]) -> dict[uuid.UUID, NovellaError]:
    """Return server → the error for parts that another host could not get."""
    ids = [server.id for server in servers]
    undecided = newer_guests.undecided_among(ids)
    elsewhere = held_elsewhere(servers)
    kept_there = _volumes_on_host_only(servers)
    usable = usable_images({server.image_id for server in servers if server.image_id is not None})
    result: dict[uuid.UUID, NovellaError] = {}
    for server in servers:
        if server.id in undecided:
            result[server.id] = ConflictError(
                f"An operator has to decide about a newer guest of server {server.id} first."
            )
        elif server.id in elsewhere:
            result[server.id] = ConflictError(elsewhere[server.id])
        elif server.id in kept_there:
            volume, host = kept_there[server.id]
            result[server.id] = InvalidInputError(f"Volume {volume} is stored on host {host} only.")
        elif not (block_devices.boots_from_volume(server) or shared_pool(server)) and server.image_id not in usable:
            result[server.id] = InvalidInputError(UNUSABLE_IMAGE, field="imageRef")
    return result


def _volumes_on_host_only(servers: Sequence[Instance]) -> dict[uuid.UUID, tuple[uuid.UUID, str]]:
    """Return server → one of its volumes that only its own host stores, and the host's name."""
    rows = BlockDevice.objects.filter(instance__in=[server.id for server in servers], volume_id__isnull=False)
    owner = dict(rows.values_list("volume_id", "instance_id"))
    if not owner:
        return {}
    local = StoragePool.objects.filter(shared=False, volumes__in=list(owner), hosts__isnull=False)
    stored = set(local.values_list("volumes__id", "hosts__id"))
    hosts = {server.id: server.host for server in servers if server.host is not None}
    return {
        server: (volume, host.name)
        for volume, server in owner.items()
        if volume is not None and (host := hosts.get(server)) is not None and (volume, host.id) in stored
    }
