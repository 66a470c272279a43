"""Attach and detach network interfaces of an existing server, and add and remove addresses.

As in Nova, the server has no task state during these actions. They cannot conflict: the instance is locked while its
interfaces change, its host carries out the commands of one instance in order, and every later command contains the
interfaces that the guest should have.
"""

import logging
import uuid
from datetime import datetime, timedelta
from typing import Generic

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec, PortRef
from compute_agent.contract.commands import (
    AttachInterfaceRequest,
    CommandBody,
    DetachInterfaceRequest,
    RefreshPortsRequest,
)
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.compute import selectors
from provisioning.compute.actions.base import COULD_NOT, B, Prepared, R, check_lock
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.host_link.release import remove_interface, write_interfaces
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.network import selectors as network_selectors
from provisioning.network import services as network
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.records import guest_ports

log = logging.getLogger(__name__)

NOT_TAKEN_BACK = "not_taken_back"
"""Code of a host's report: the attach failed, and the interface may still be in the guest."""
_NOT_HANDED_OVER = {
    VmState.BUILDING: set(TaskState) - {TaskState.SPAWNING},
    VmState.SHELVED_OFFLOADED: {None, *TaskState} - {TaskState.SPAWNING},
}
"""vm_state → tasks (None: no task) during which no host has received a command to build the server."""


class InterfaceAction(TasklessAction[R, B], Generic[R, B]):
    """Base class of actions that change the interfaces of a server; they lock the server."""

    from_states = (VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED)
    timeout = "POWER_TIMEOUT"
    takes_request = True

    def find(self, context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
        """Lock the server and return its current state. Raises NotFoundError."""
        return locked_instance(context, instance_id)

    def row_of(self, instance: Instance, body: B) -> InstanceAction | None:
        """Return the action record of this interface."""
        port: PortRef = body.port  # type: ignore[union-attr] # both commands have a port
        row = instance_actions.of_port(instance.id, self.record, port.id)
        if row is None:
            state.announce_all(instance, [{}])
        return row


class AttachInterface(InterfaceAction[NetworkRequest, AttachInterfaceRequest]):
    """Attach an interface to a server.

    The request assigns the port to the server; the port is released if the host cannot plug it in. Also raises
    InvalidInputError, ConflictError for a network or port that is not available, and OverQuotaError.
    """

    key = record = "attach_interface"
    done = "Interface attached"
    notification = "interface_attach"
    body = AttachInterfaceRequest

    def prepare(self, context: RequestContext, instance: Instance, request: NetworkRequest) -> Prepared:
        """Allocate the port, inside the caller's transaction."""
        owner = context.in_project(instance.project_id)
        interface = network_selectors.interface_for(owner, request.network_id, request.port_id, request.fixed_ip)
        host, zone = (instance.host.name, instance.host.availability_zone) if instance.host else ("", "")
        try:
            port = network.add_interface(
                instance.id, instance.project_id, interface, host, zone, dns_name=instance.hostname.lower()
            )
        except OutOfAddressesError as error:
            raise InvalidInputError(error.message, field="net_id") from error
        tag = {"tag": request.tag} if request.tag else {}
        write_interfaces(instance, [*instance.requested_networks, {**interface, **tag}])
        return Prepared(value=port.id, detail={"port_id": str(port.id)})

    def command(self, instance: Instance, prepared: Prepared) -> AttachInterfaceRequest:
        spec = guest_spec(instance)
        port = next(interface for interface in spec.ports if interface.id == str(prepared.value))
        return AttachInterfaceRequest(instance=spec, port=port)

    def end(self, instance: Instance, body: AttachInterfaceRequest, outcome: Outcome) -> Instance | None:
        """Set the port active, or release it after a failure.

        If the guest may have the interface in spite of the failure, or a queued command would plug it in, a detach
        command is sent first. The port, and with it the address, is released only after that command.
        """
        port = body.port
        interfaces = {str(row.id): row for row in network_selectors.interfaces_of(instance.id)}
        if port.id not in interfaces:
            return None
        if outcome.well:
            network.set_interface_status(port.id, "ACTIVE")
        elif not (outcome.silent or outcome.code == NOT_TAKEN_BACK or host_commands.is_busy_with(instance.id)):
            remove_interface(instance, port.id)
        elif not interfaces[port.id].leaving:
            network.set_interface_status(port.id, "DOWN")
            send_detach(instance, port)
        return super().end(instance, body, outcome)


class DetachInterface(InterfaceAction[str, DetachInterfaceRequest]):
    """Detach an interface from a server; the request is the port's id. An interface that is already being detached
    stays unchanged.
    """

    key = record = "detach_interface"
    done = "Interface detached"
    notification = "interface_detach"
    body = DetachInterfaceRequest

    def start(self, context: RequestContext, instance: Instance, request: str, started: datetime) -> Instance:
        """Begin, unless the interface is already being detached; the server is then returned unchanged."""
        requested = str(read_id(request) or "")
        if self.offered(instance) and any(
            str(row.id) == requested and row.leaving for row in network_selectors.interfaces_of(instance.id)
        ):
            self.host_of(instance, started)
            return instance
        return super().start(context, instance, request, started)

    def prepare(self, context: RequestContext, instance: Instance, request: str) -> Prepared:
        """Mark the interface as being detached (``leaving``), so that later commands omit it. Raises NotFoundError."""
        port = _interface_of(instance, request)
        network.set_interface_leaving(port.id, leaving=True)
        return Prepared(value=port, detail={"port_id": port.id})

    def command(self, instance: Instance, prepared: Prepared) -> DetachInterfaceRequest:
        return DetachInterfaceRequest(instance=guest_spec(instance), port=prepared.value)

    def end(self, instance: Instance, body: DetachInterfaceRequest, outcome: Outcome) -> Instance | None:
        """Remove the interface and its port, or keep both after a failure.

        If the host may have unplugged the interface in spite of the failure, or a queued command would do so, an attach
        command is sent.
        """
        port = body.port
        if outcome.well:
            remove_interface(instance, port.id)
        else:
            network.set_interface_leaving(port.id, leaving=False)
            if outcome.silent or host_commands.is_busy_with(instance.id):
                send_attach(instance, port.id)
        return super().end(instance, body, outcome)


class RefreshPorts(TasklessAction[None, RefreshPortsRequest]):
    """Update the filters of a server's interfaces on its host; started by the system, so it has no action record."""

    key = record = "refresh_ports"
    timeout = "POWER_TIMEOUT"
    body = RefreshPortsRequest

    def command(self, instance: Instance, prepared: Prepared) -> RefreshPortsRequest:
        return RefreshPortsRequest(instance=guest_spec(instance))

    def end(self, instance: Instance, body: RefreshPortsRequest, outcome: Outcome) -> Instance | None:
        """Record a failure as a fault of the server. If the specification of the guest has changed in the meantime,
        send another refresh.
        """
        if not outcome.well:
            log.warning("The filters of instance %s were not updated: %s", instance.id, outcome.message)
            message = outcome.message or COULD_NOT
            record_fault(instance, message, details=f"{self.record}: {outcome.code}", host_name=instance.host_name)
        if _without_password(body.instance) != _without_password(guest_spec(instance)):
            send_refresh(instance)
        return instance


@when_broken_off
def attach_interface(context: RequestContext, instance_id: uuid.UUID | str, request: NetworkRequest) -> uuid.UUID:
    """Attach an interface to a server; returns the id of its port. Raises the errors of ``AttachInterface``."""
    with transaction.atomic():
        instance = AttachInterface.begin(context, instance_id, request)
        return network_selectors.interfaces_of(instance.id)[-1].id


def detach_interface(context: RequestContext, instance_id: uuid.UUID | str, port_id: str) -> None:
    """Detach an interface from a server; its port is removed when the host has unplugged it. Raises the errors of host
    actions.
    """
    DetachInterface.begin(context, instance_id, port_id)


@when_broken_off
def add_fixed_ip(context: RequestContext, instance_id: uuid.UUID | str, network_id: str) -> None:
    """Add an address to the server's first interface on a network; the guest must configure it itself.

    Raises NotFoundError, InvalidInputError when the network has no free address, InstanceLockedError.
    """
    with transaction.atomic():
        instance = locked_instance(context, instance_id)
        check_lock(context, instance)
        network_key = read_id(network_id)
        try:
            if network_key is None or not network.add_address(instance.id, network_key):
                raise NotFoundError(f"Network could not be found for instance {instance.id}.", field="networkId")
        except OutOfAddressesError as error:
            raise InvalidInputError(error.message, field="networkId") from error
        send_refresh(instance)


@when_broken_off
def remove_fixed_ip(context: RequestContext, instance_id: uuid.UUID | str, address: str) -> None:
    """Remove an address from a server; packets from it are dropped from then on.

    Raises NotFoundError, InstanceLockedError.
    """
    with transaction.atomic():
        instance = locked_instance(context, instance_id)
        check_lock(context, instance)
        if not network.remove_address(instance.id, address):
            raise NotFoundError(f"Instance {instance.id} does not have fixed IP '{address}'.", field="address")
        send_refresh(instance)


@when_broken_off
def inject_network_info(context: RequestContext, instance_id: uuid.UUID | str) -> None:
    """Send the server's interfaces to its host again; no effect for a server without a host.

    Raises NotFoundError, InstanceLockedError.
    """
    with transaction.atomic():
        instance = locked_instance(context, instance_id)
        check_lock(context, instance)
        send_refresh(instance)


# ----- inside the caller's transaction, with the instance locked -----------------------------------------------------


def locked_instance(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Lock a server and return its current state. Raises NotFoundError."""
    state.lock([selectors.instance_for(context, instance_id).id])
    return selectors.instance_for(context, instance_id)


def send_refresh(instance: Instance) -> None:
    """Send a refresh of the interfaces to the server's host, unless a later command will contain them.

    At most one refresh is queued. While the host carries one out, none is sent; the end of that refresh sends the next
    if it is needed.
    """
    tasks = _NOT_HANDED_OVER.get(VmState(instance.vm_state), set())
    if instance.host is None or instance.task_state in {*tasks, TaskState.DELETING}:
        return
    host_commands.withdraw_unsent(instance.host.id, instance.id, "refresh_ports_request")
    taken = host_commands.of_kind(instance, RefreshPortsRequest)
    if taken.filter(acknowledged_at__gte=timezone.now() - host_commands.LOST_AFTER).exists():
        return
    _send(instance, RefreshPorts().command(instance, Prepared()), None)


def _lock_guest(device_id: uuid.UUID) -> None:
    state.lock([device_id])


def _notify_host(device_id: uuid.UUID) -> None:
    for instance in Instance.objects.filter(pk=device_id).select_related("host"):
        send_refresh(instance)


GUESTS = guest_ports.Guests(_lock_guest, _notify_host)


def _without_password(spec: InstanceSpec) -> InstanceSpec:
    return replace(spec, admin_password=None)


def send_attach(instance: Instance, port_id: str) -> None:
    """Send the command to plug in an interface of the server."""
    spec = guest_spec(instance)
    port = next((interface for interface in spec.ports if interface.id == port_id), None)
    if port is not None:
        deadline = timezone.now() + timedelta(seconds=settings.POWER_TIMEOUT)
        _send(instance, AttachInterfaceRequest(instance=spec, port=port), deadline)


def send_detach(instance: Instance, port: PortRef) -> None:
    """Send the command to detach an interface, without a deadline.

    Commands that are sent later describe the server without the interface.
    """
    network.set_interface_leaving(port.id, leaving=True)
    _send(instance, DetachInterfaceRequest(instance=guest_spec(instance), port=port), None)


def _send(instance: Instance, body: CommandBody, deadline: datetime | None) -> None:
    if instance.host_id is not None:
        host_commands.send(instance.host_id, instance.id, instance.attempt, body, deadline, beside=True)


def _interface_of(instance: Instance, port_id: str) -> PortRef:
    requested = str(read_id(port_id) or "")
    for port in network_selectors.port_refs(instance.id, leaving=True):
        if port.id == requested:
            return port
    raise NotFoundError(f"Port id {port_id[:64]} could not be found.")
