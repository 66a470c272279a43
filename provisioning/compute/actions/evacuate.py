"""Evacuate a server from a host that is down: build it again on another host, with its ports, addresses and volumes."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, NovellaError
from provisioning.compute import selectors
from provisioning.compute.actions.base import ServerAction
from provisioning.compute.actions.rescue import UNUSABLE_IMAGE, usable_images
from provisioning.compute.actions.ways import DrainWay
from provisioning.compute.disks import block_devices
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.flavors.sizes import quota_held
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.release import GUEST, leave_host
from provisioning.compute.launch.decisions import NO_VALID_HOST, rank_hosts
from provisioning.compute.launch.retry import cast_schedule
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.moves.estimates import EVACUATE, estimates_of
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.moves.returning import FENCE_FIRST, held_elsewhere
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.migration_records import close_migration, open_evacuation
from provisioning.compute.records.passwords import sealed
from provisioning.compute.selectors.request_specs import spec_of
from provisioning.compute.selectors.root_pools import shared_pool
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, Transition, VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.quotas.services.sizes import shrink
from provisioning.scheduler import explain
from provisioning.volumes.models import StoragePool

LEFT = "The server was evacuated from its host before the host had reported the end."
_TO = (VmState.ACTIVE, VmState.STOPPED)

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


@dataclass(frozen=True, slots=True)
class Evacuation:
    """Parameters of an evacuation: a host to move to, a password to set, and whether the guest is started."""

    host: str = ""
    admin_password: str | None = None
    start: bool = True
    """Whether the server is started afterwards. A server that was stopped is never started."""


class Evacuate(ServerAction[Evacuation]):
    """Build a server again on another host, because its own host is down.

    Volumes and root disks in a pool keep their data and are connected to the new host; disks on the old host are
    created again from the image. The old host removes its guest when it is up again. The resources of the new host are
    claimed before any command is sent, so that an evacuation without a suitable host changes nothing.
    """

    key = record = "evacuate"
    done = "Evacuated"
    doing = "Moving to another host"
    notification = "evacuate"
    rule = "os_compute_api:os-evacuate"
    takes_request = True
    way = DrainWay(
        "evacuate",
        30,
        "Evacuation",
        "The server is built again on another host; its disks on this host are created again from its image.",
        host_up=False,
        obstacles=obstacles,
        request=lambda target: Evacuation(target),
        estimates=estimates_of(EVACUATE),
        new_disks=lambda server: not (block_devices.boots_from_volume(server) or shared_pool(server)),
    )

    def transitions(self) -> Iterable[Transition]:
        """Return the transitions of an evacuation; during its tasks the server already has the vm_state in which the
        evacuation ends.
        """
        for vm in EVACUATED_FROM:
            yield Transition("evacuate", (vm, None), (VmState.ACTIVE, TaskState.EVACUATING))
            yield Transition("evacuate_stopped", (vm, None), (VmState.STOPPED, TaskState.EVACUATING))
        for vm in _TO:
            waiting, building = (vm, TaskState.EVACUATING), (vm, TaskState.SPAWNING)
            yield Transition("allocate_network", waiting, waiting)
            yield Transition("evacuate_spawn", waiting, building)
            yield Transition("evacuated", building, (vm, None))
            for source in (waiting, building):
                yield Transition("reschedule", source, waiting)
                yield Transition("evacuation_failed", source, (VmState.ERROR, None))

    @when_broken_off
    def perform(
        self, context: RequestContext, instance_id: uuid.UUID | str, request: Evacuation | None = None
    ) -> Instance:
        """Begin the evacuation in one transaction.

        Raises NotFoundError, also for an unknown host, InstanceBusyError, ConflictError for volumes that the host may
        have open, and InvalidInputError when the host is up, when no other host is suitable, or when a volume or the
        image is not available.
        """
        started, requested = timezone.now(), request or Evacuation()
        with transaction.atomic():
            instance = selectors.instance_for(context, instance_id)
            source = _source(instance, requested)
            _check(instance, source, requested)
            guest, resized = instance.guest_attempt or instance.attempt, instance.old_flavor is not None
            stops = not requested.start or instance.vm_state == VmState.STOPPED
            state.lock_volumes([instance.id])
            if close_migration(instance.id):
                leave_second(instance)  # with the attempt before this one: the server may be built on that host
            moved = state.advance(
                instance,
                "evacuate_stopped" if stops else "evacuate",
                attempt=instance.attempt,
                changes={
                    "attempt": instance.attempt + 1,
                    "host": None,
                    "excluded_hosts": [],
                    "requested_host": requested.host,
                    "power_state": int(PowerState.NOSTATE),
                    "admin_password": sealed(requested.admin_password),
                    "rescue_image_id": None,
                    "old_flavor": None,
                    "resized_at": None,
                    "password": "",
                },
                note=Note(context),
            )
            if moved is None:
                raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
            host_commands.withdraw(moved.id, moved.attempt)
            instance_actions.finish_all(moved.id, message=LEFT)
            if resized:
                shrink(moved.id, quota_held(moved.flavor))
            leave_host(moved)
            open_evacuation(context, moved, source)
            row = instance_actions.begin(context, moved.id, self.record, started)
            detail = {"from": source.name, GUEST: str(guest)}
            step = instance_actions.Step("api_evacuate", started, detail=detail)
            instance_actions.record(row, moved.attempt, step)
            notify(moved, self.notification, Note(context))
            cast_schedule(moved)
            return moved


def _source(instance: Instance, requested: Evacuation) -> Host:
    """Return the host that the server leaves, after the checks of hosts and states."""
    if requested.host:
        if not Host.objects.filter(name=requested.host).exists():
            raise NotFoundError(f"Compute host {requested.host} not found.", field="host")
        if instance.host is not None and instance.host.name == requested.host:
            raise InvalidInputError("The target host can't be the same one.", field="host")
    if instance.host is None or not may_be_evacuated(instance):
        raise InstanceBusyError("evacuate", instance.id, instance.vm_state, instance.task_state)
    if is_alive(instance.host, timezone.now()):
        raise InvalidInputError(f"Compute service of {instance.host.name} is still in use.")
    return instance.host


def _check(instance: Instance, source: Host, requested: Evacuation) -> None:
    """Raise the errors of ``perform`` if the build would fail, before anything changes."""
    if not source.forced_down and (shared_pool(instance, source) or block_devices.volumes_of(instance.id)):
        raise ConflictError(FENCE_FIRST.format(id=instance.id, host=source.name))
    for error in missing_parts([instance]).values():
        raise error
    spec = spec_of(instance, excluded=[source.id], root_pool=shared_pool(instance, source))
    spec = replace(spec, requested_host=requested.host)
    decision = rank_hosts(spec).decision
    if not decision.ranked:
        raise InvalidInputError(NO_VALID_HOST + explain(decision))
