"""Checks of a new flavor before a resize, and the resources that the change of the flavor needs (Compute API reference,
"Resize server (resize action)")."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from compute_agent.contract.commands import ConfirmResizeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.flavors.sizes import GIB, Room, flavor_copy, larger_room, quota_held, room_of, root_gb
from provisioning.compute.host_link.allocations import lower_room, raise_room, second_of
from provisioning.compute.launch.decisions import NO_VALID_HOST, SchedulingAttempt, rank_one_host, record_decision
from provisioning.compute.launch.flavor_and_image import check_fit
from provisioning.compute.models import Flavor, Instance
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.records.migration_records import OPEN, close_migration, set_migration
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.quotas.services.sizes import shrink
from provisioning.scheduler import HostState, RequestSpec, explain

FIELD = "flavorRef"
NOTHING = Room(0, 0, 0)
NOT_RESIZED = "Server disk was unable to be resized because: {reason}"

STAYS = "The host of the server"


def requested_size(context: RequestContext, instance: Instance, ref: str) -> dict[str, Any]:
    """Return the copy of the flavor that the server will have.

    Raises InvalidInputError for a flavor that the caller cannot use, that the server already has, that is too small for
    the image, or that has less disk than the server.
    """
    image = Image.objects.filter(id=instance.image_id).first() if instance.image_id else None
    return resized_flavor(instance, _flavor(context, ref), image, local_root=not boots_from_volume(instance))


def resized_flavor(instance: Instance, flavor: Flavor, image: Image | None, *, local_root: bool) -> dict[str, Any]:
    """Return the copy of a flavor for ``requested_size``; ``image`` is the server's image, if it still exists."""
    if local_root and instance.flavor["root_gb"] and not flavor.root_gb:
        raise _disk("Resize to zero disk flavor is not allowed.")
    if flavor.flavorid == instance.flavor["flavorid"]:
        raise InvalidInputError("When resizing, instances must change flavor!", field=FIELD)
    if image is not None:
        check_fit(flavor, image)
    check_demands(instance.image_properties, flavor)
    copy = flavor_copy(flavor, root_gb(instance.flavor) * GIB, local_root=local_root)
    _check_disks(instance.flavor, copy)
    return copy


def _flavor(context: RequestContext, ref: str) -> Flavor:
    try:
        return selectors.flavor_for(context, ref)
    except NotFoundError as error:
        raise InvalidInputError(error.message, field=FIELD) from error


def _check_disks(old: dict[str, Any], new: dict[str, Any]) -> None:
    for name, has, gets in (
        ("root", root_gb(old), root_gb(new)),
        ("ephemeral", old["ephemeral_gb"], new["ephemeral_gb"]),
    ):
        if gets < has:
            raise _disk(f"Its {name} disk has {has} GiB and cannot shrink to {gets} GiB.")


def _disk(reason: str) -> InvalidInputError:
    return InvalidInputError(NOT_RESIZED.format(reason=reason), field=FIELD)


def rank_here(instance: Instance, host: Host, flavor: Mapping[str, Any]) -> SchedulingAttempt:
    """Ask the scheduler whether the flavor fits on the server's host; see ``request_here``."""
    return rank_one_host(host.id, *request_here(spec_of(instance, flavor=flavor), instance, host, flavor))


def request_here(
    spec: RequestSpec, instance: Instance, host: Host, flavor: Mapping[str, Any]
) -> tuple[RequestSpec, Callable[[HostState], HostState]]:
    """Return the request for a flavor on the server's host, and the host as the request sees it: without the server's
    current allocation.

    Only resources that grow are requested; if none grows, a disabled host is accepted. Zone, hints, server group and
    excluded hosts of the launch are ignored.
    """
    room = larger_room(instance.flavor, flavor)
    grows = _growth(room, room_of(instance.flavor))
    specs = replace(
        spec,
        vcpus=grows.vcpus,
        memory_mb=grows.memory_mb,
        disk_gb=grows.disk_gb,
        availability_zone=host.availability_zone,
        excluded_hosts=frozenset(),
        requested_host="",
        same_hosts=None,
        different_hosts=frozenset(),
        group=None,
        ignored_hosts=frozenset(),
        query=None,
    )

    def without(state: HostState) -> HostState:
        held = room_of(instance.flavor)
        return state._replace(
            enabled=state.enabled or grows == NOTHING,
            vcpus_allocated=state.vcpus_allocated - held.vcpus,
            memory_mb_allocated=state.memory_mb_allocated - held.memory_mb,
            disk_gb_allocated=state.disk_gb_allocated - held.disk_gb,
            instances=0,
        )

    return specs, without


def _growth(room: Room, before: Room) -> Room:
    """Return the full amount of each resource that grows, and 0 for the others."""
    return Room(
        room.vcpus if room.vcpus > before.vcpus else 0,
        room.memory_mb if room.memory_mb > before.memory_mb else 0,
        room.disk_gb if room.disk_gb > before.disk_gb else 0,
    )


def discard_earlier(instance: Instance, host: Host) -> None:
    """Discard an earlier resize that ended by a state reset; the guest keeps its current disks."""
    if instance.old_flavor is None:
        return
    if second_of(instance.id) is None:
        host_commands.send(host.id, instance.id, instance.attempt, ConfirmResizeRequest(), None)
    else:
        leave_second(instance)
    shrink(instance.id, quota_held(instance.flavor))
    lower_room(instance.id, room_of(instance.flavor))
    close_migration(instance.id)


def claim_on_host(instance: Instance, host: Host) -> str:
    """Raise the server's allocation on its host. Returns the reason of a refusal, empty on success."""
    flavor = instance.old_flavor or instance.flavor
    attempt = rank_here(instance, host, flavor)
    why = explain(attempt.decision)
    suits = not why or attempt.decision.filters[-1].asked is not None  # the claim checks the resources itself
    room = larger_room(instance.flavor, flavor)
    claimed = suits and raise_room(instance.id, room)
    record_decision(instance, "resize", attempt, attempt.hosts[0] if claimed else None, flavor=flavor)
    if claimed:
        return ""
    if not suits:
        return f"{STAYS} does not suit the flavor. {why}"
    cores = "vCPU" if room.vcpus == 1 else "vCPUs"
    return f"{STAYS} has not got {room.vcpus} {cores}, {room.memory_mb} MiB of memory and {room.disk_gb} GiB of disk."


def refuse(instance: Instance, why: str) -> Instance:
    """Fail a resize for which the host lacks the resources; the server stays unchanged."""
    message = NO_VALID_HOST + why
    undo_resize(instance)
    back = state.advance(
        instance,
        "action_failed",
        attempt=instance.attempt,
        changes={"old_flavor": None, "previous_vm_state": ""},
        note=Note(fault=message, cause="NoValidHost"),
    )
    if back is None:
        raise InstanceBusyError("resize", instance.id, instance.vm_state, instance.task_state)
    set_migration(back.id, "error")
    record_fault(back, message, details="resize", host_name=back.host_name)
    instance_actions.finish(back.id, "resize", message=message)
    return back


def undo_resize(instance: Instance) -> None:
    """Release the resources beyond the server's current flavor, inside the caller's transaction."""
    shrink(instance.id, quota_held(instance.flavor))
    lower_room(instance.id, room_of(instance.flavor))


def is_elsewhere(instance: Instance) -> bool:
    """Whether a resized server waits for its confirmation on another host than before."""
    second = second_of(instance.id)
    return second is not None and second.migration.status in OPEN and second.host_id != instance.host_id
