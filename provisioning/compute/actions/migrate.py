"""Migration of servers: requests are validated as in the API reference and then rejected.

There is no migration between hosts. Even with root disks in shared pools, no command transfers a disk to another host.
"""

import uuid
from collections.abc import Collection
from typing import NoReturn

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute import selectors
from provisioning.compute.actions.base import HOST_AWAY, check_lock
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive

NO_OTHER_HOST = (
    "No valid host was found. The server's disks are local to its host, and this cloud does not move servers between"
    " hosts."
)
_OFF = {VmState.ACTIVE, VmState.STOPPED}
_ON = {VmState.ACTIVE, VmState.PAUSED}


def migrate(context: RequestContext, instance_id: uuid.UUID | str, host_name: str | None = None) -> NoReturn:
    """Validate a cold migration, optionally to a named host, and reject it.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError, ConflictError when the server's host is down, and
    InvalidInputError in all other cases.
    """
    instance, host = _checked(context, instance_id, "migrate", _OFF)
    if host_name is not None:
        if host_name == host.name:
            raise InvalidInputError("Cannot migrate to the host where the server exists.", field="host")
        _known(host_name)
    _check_host(instance, host)
    raise InvalidInputError(NO_OTHER_HOST)


def migrate_live(
    context: RequestContext, instance_id: uuid.UUID | str, host_name: str | None, *, force: bool = False
) -> NoReturn:
    """Validate a live migration and reject it. ``force`` skips the scheduler and requires ``host_name``.

    Raises the errors of ``migrate``.
    """
    if force and not host_name:
        raise InvalidInputError("Can't force to a non-provided destination", field="host")
    instance, host = _checked(context, instance_id, "os-migrateLive", _ON)
    _check_host(instance, host)
    if host_name is not None:
        wanted = _known(host_name)
        if wanted.id == host.id:
            raise InvalidInputError(
                f"Unable to migrate instance ({instance.id}) to current host ({host_name}).", field="host"
            )
        if not is_alive(wanted, timezone.now()):
            raise InvalidInputError(f"Compute service of {host_name} is unavailable at this time.", field="host")
    raise InvalidInputError(NO_OTHER_HOST)


def end_live_migration(context: RequestContext, instance_id: uuid.UUID | str, action: str) -> NoReturn:
    """Reject force-completing or aborting a live migration, because no server has one. Raises NotFoundError,
    InstanceLockedError, InstanceBusyError.
    """
    instance = selectors.instance_for(context, instance_id)
    check_lock(context, instance)
    raise InstanceBusyError(action, instance.id, instance.vm_state, instance.task_state)


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
