"""Cold migration: a server is stopped and moves to another host."""

import uuid
from collections.abc import Collection

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.actions.base import HOST_AWAY, Prepared, ServerAction, check_lock, write_begin
from provisioning.compute.actions.resize import Resize
from provisioning.compute.actions.ways import DrainWay
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.launch.decisions import NO_VALID_HOST
from provisioning.compute.models import Instance
from provisioning.compute.moves.begin import begin_move, move_request, unfit_targets
from provisioning.compute.moves.estimates import COLD, estimates_of
from provisioning.compute.moves.obstacles import cold_obstacles
from provisioning.compute.records.migration_records import MIGRATION
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive

_OFF = {VmState.ACTIVE, VmState.STOPPED}


class Migrate(ServerAction[str]):
    """Move a server to another host with its data, by the steps of a resize on another host. The request is the name of
    a host; empty: the scheduler chooses.

    The server is stopped while it moves, and started again if it was running. It then waits for a confirmation, like a
    resized one.
    """

    key = record = "migrate"
    done = "Moved to another host"
    rule = "os_compute_api:os-migrate-server:migrate"
    takes_request = True
    way = DrainWay(
        "cold",
        20,
        "Migration",
        "A running server is stopped while it moves, and started again. It keeps its disks.",
        host_up=True,
        obstacles=cold_obstacles,
        request=str,
        estimates=estimates_of(COLD),
        unfit=unfit_targets,
    )

    def offered(self, instance: Instance) -> bool:
        return instance.vm_state in _OFF and instance.task_state is None and instance.host_id is not None

    @when_broken_off
    def perform(self, context: RequestContext, instance_id: uuid.UUID | str, request: str | None = None) -> Instance:
        """Begin the migration in one transaction.

        Raises NotFoundError, InstanceLockedError, InstanceBusyError, ConflictError when the server cannot leave its
        host now, and InvalidInputError for an unsuitable host, or when no host is suitable.
        """
        started = timezone.now()
        with transaction.atomic():
            instance, host = _checked(context, instance_id, self.record, _OFF)
            if request:
                if request == host.name:
                    raise InvalidInputError("Cannot migrate to the host where the server exists.", field="host")
                _known(request)
            _check_host(instance, host)
            state.lock([instance.id])
            size = dict(instance.flavor)
            prepared = Prepared({"old_flavor": size, "previous_vm_state": instance.vm_state})
            moved = Resize().enter(context, instance, prepared)
            write_begin(context, moved, self.record, started)
            moved_or_reason = begin_move(context, moved, move_request(moved, host=request or ""), MIGRATION)
            if not isinstance(moved_or_reason, Instance):
                raise InvalidInputError(NO_VALID_HOST + moved_or_reason, field="host" if request else None)
            return moved_or_reason


def migrate(context: RequestContext, instance_id: uuid.UUID | str, host_name: str | None = None) -> Instance:
    """Migrate a server, optionally to a named host. Raises the errors of ``Migrate.perform``."""
    return Migrate.begin(context, instance_id, host_name or "")


def _checked(
    context: RequestContext, instance_id: uuid.UUID | str, action: str, states: Collection[VmState]
) -> tuple[Instance, Host]:
    instance = selectors.instance_for(context, instance_id)
    check_lock(context, instance)
    if instance.vm_state not in states or instance.task_state is not None or instance.host is None:
        raise InstanceBusyError(action, instance.id, instance.vm_state, instance.task_state)
    return instance, instance.host


def _check_host(instance: Instance, host: Host) -> None:
    if not is_alive(host, timezone.now()):
        raise ConflictError(HOST_AWAY)


def _known(name: str) -> Host:
    host = Host.objects.filter(name=name).first()
    if host is None:
        raise InvalidInputError(f"Compute host {name} could not be found.", field="host")
    return host
