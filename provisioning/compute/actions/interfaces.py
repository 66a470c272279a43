"""Network cards of a server that is there: one more, one less, further addresses.

No task stands in the records meanwhile, as in Nova.  What keeps it in order: the instance is locked while its cards
change; its host carries out orders of one instance one after the other; and every order that follows tells the cards
as they are to be then.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.build import PortRef
from compute_agent.contract.commands import (
    AttachInterfaceRequest,
    CommandBody,
    DetachInterfaceRequest,
    RefreshPortsRequest,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from provisioning.common.ids import read_id
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.actions.base import HOST_AWAY, check_lock
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.guest_spec import guest_spec
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note, notify
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts.selectors import is_alive
from provisioning.network import selectors as network_selectors
from provisioning.network import services as network
from provisioning.network.errors import OutOfAddressesError

ATTACH, DETACH = "attach_interface", "detach_interface"
NOTIFICATIONS = {ATTACH: "interface_attach", DETACH: "interface_detach"}
_CHANGE_IN = {VmState.ACTIVE, VmState.PAUSED, VmState.STOPPED}
_NOT_HANDED_OVER = {
    VmState.BUILDING: set(TaskState) - {TaskState.SPAWNING},
    VmState.SHELVED_OFFLOADED: {None, *TaskState} - {TaskState.SPAWNING},
}
"""Where a host knows nothing of a server yet, or no more."""


@when_broken_off
def attach_interface(context: RequestContext, instance_id: uuid.UUID | str, wanted: NetworkRequest) -> uuid.UUID:
    """Give a server one more card and order it of its host, in one transaction; returns the id of its port.

    The port is the server's from now on; a host that cannot plug it in gives it back (``take_card``).

    Raises NotFoundError, InvalidInputError, ConflictError for what cannot be had, OverQuotaError, InstanceBusyError,
    InstanceLockedError, UnavailableError when the server's host is down.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = _at_rest(context, instance_id, ATTACH, started)
        owner = context.in_project(instance.project_id)
        card = network_selectors.card_for(owner, wanted.network_id, wanted.port_id, wanted.fixed_ip)
        host, zone = (instance.host.name, instance.host.availability_zone) if instance.host else ("", "")
        try:
            port = network.add_card(instance.id, instance.project_id, card, host, zone)
        except OutOfAddressesError as error:
            raise InvalidInputError(error.message, field="net_id") from error
        _write_cards(instance, [*instance.requested_networks, {**card, **({"tag": wanted.tag} if wanted.tag else {})}])
        _begin(context, instance, ATTACH, str(port.id), started)
        order_attach(instance, str(port.id))
    return port.id


@when_broken_off
def detach_interface(context: RequestContext, instance_id: uuid.UUID | str, port_id: str) -> None:
    """Order of a server's host to take a card out of it, in one transaction; the port goes when that is done.

    One that is being taken out already is left alone.  Raises as ``attach_interface``.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = _at_rest(context, instance_id, DETACH, started)
        port = _card_of(instance, port_id)
        ports = network_selectors.cards_of(instance.id)
        if any(str(row.id) == port.id and row.leaving for row in ports):
            return
        _begin(context, instance, DETACH, port.id, started)
        order_detach(instance, port, timeout=settings.POWER_TIMEOUT)


@when_broken_off
def add_fixed_ip(context: RequestContext, instance_id: uuid.UUID | str, network_id: str) -> None:
    """Give the first card of a server on a network one more address; the guest has to use it by itself.

    Raises NotFoundError, InvalidInputError when the network has none left, InstanceLockedError.
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
        order_refresh(instance)


@when_broken_off
def remove_fixed_ip(context: RequestContext, instance_id: uuid.UUID | str, address: str) -> None:
    """Take an address from a server: packets with it are dropped from then on.

    Raises NotFoundError, InstanceLockedError.
    """
    with transaction.atomic():
        instance = locked_instance(context, instance_id)
        check_lock(context, instance)
        if not network.remove_address(instance.id, address):
            raise NotFoundError(f"Instance {instance.id} does not have fixed IP '{address}'.", field="address")
        order_refresh(instance)


# ----- what conductor and services share, inside the caller's transaction with the instance locked --------------------


def locked_instance(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Return a server as it is now that nobody else changes it; NotFoundError."""
    state.lock([selectors.instance_for(context, instance_id).id])
    return selectors.instance_for(context, instance_id)


def take_card(instance: Instance, port_id: str) -> None:
    """Take a card from the records: the port that was made for it goes, with its address and its quota."""
    place = network.remove_card(instance.id, port_id)
    if place is not None:
        cards = list(instance.requested_networks)
        del cards[place : place + 1]
        _write_cards(instance, cards)


def order_attach(instance: Instance, port_id: str) -> None:
    """Order of a server's host to plug in a card that the records have."""
    spec = guest_spec(instance)
    port = next((card for card in spec.ports if card.id == port_id), None)
    if port is not None:
        deadline = timezone.now() + timedelta(seconds=settings.POWER_TIMEOUT)
        _order(instance, AttachInterfaceRequest(instance=spec, port=port), deadline)


def order_detach(instance: Instance, port: PortRef, *, timeout: int | None) -> None:
    """Order of a server's host to take a card out, within ``timeout`` seconds or whenever it can (None).

    No order that is given from now on has the card.
    """
    network.set_card_leaving(port.id, leaving=True)
    deadline = timezone.now() + timedelta(seconds=timeout) if timeout is not None else None
    _order(instance, DetachInterfaceRequest(instance=guest_spec(instance), port=port), deadline)


def order_refresh(instance: Instance) -> None:
    """Let a server's host know what its cards may do now, unless it will be told by an order to come."""
    tasks = _NOT_HANDED_OVER.get(VmState(instance.vm_state), set())
    if instance.host is None or instance.task_state in {*tasks, TaskState.DELETING}:
        return
    host_commands.withdraw_unsent(instance.host.id, instance.id, "refresh_ports_request")
    _order(instance, RefreshPortsRequest(instance=guest_spec(instance)), None)


def _order(instance: Instance, body: CommandBody, deadline: datetime | None) -> None:
    if instance.host_id is not None:
        host_commands.send(instance.host_id, instance.id, instance.attempt, body, deadline, beside=True)


def _at_rest(context: RequestContext, instance_id: uuid.UUID | str, action: str, now: datetime) -> Instance:
    """Return a server whose cards may change now."""
    instance = locked_instance(context, instance_id)
    check_lock(context, instance)
    if instance.task_state is not None or instance.vm_state not in _CHANGE_IN or instance.host is None:
        raise InstanceBusyError(action, instance.id, instance.vm_state, instance.task_state)
    if not is_alive(instance.host, now):
        raise UnavailableError(HOST_AWAY)
    return instance


def _card_of(instance: Instance, port_id: str) -> PortRef:
    wanted = str(read_id(port_id) or "")
    for port in network_selectors.port_refs(instance.id, leaving=True):
        if port.id == wanted:
            return port
    raise NotFoundError(f"Port id {port_id[:64]} could not be found.")


def _begin(context: RequestContext, instance: Instance, action: str, port_id: str, started: datetime) -> None:
    notify(instance, f"{NOTIFICATIONS[action]}.start", Note(context))
    row = instance_actions.begin(context, instance.id, action, started)
    span, detail = instance_actions.since(started), {"port_id": port_id}
    instance_actions.write([instance_actions.step(row, f"api_{action}", span, attempt=instance.attempt, detail=detail)])


def _write_cards(instance: Instance, cards: list[dict[str, object]]) -> None:
    """Let ``requested_networks`` follow the cards, and tell the project's pages."""
    if not state.update(instance, {"requested_networks": cards}):
        raise ConflictError("The server is changing too quickly; try again.")
