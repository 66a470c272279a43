"""Tunnels to TCP ports of guests: permissions, targets and records.

A browser opens many connections, so connections of one user to one port within some minutes share an action record.
Each connection has its own notifications.
"""

import ipaddress
import uuid
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.models import Instance, InstanceActionEvent
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import instance_actions
from provisioning.compute.selectors.history import TUNNEL
from provisioning.compute.services.remote_consoles import check_running
from provisioning.compute.state_machine import state
from provisioning.identity import policy
from provisioning.network import selectors as network
from provisioning.network.selectors import PortAddress

RULE = "novella:servers:tunnel"
ACTION = TUNNEL
"""Name of the action record, its step and the notifications."""
LAST_PORT = 65_535
SAME_VISIT = timedelta(minutes=5)
"""A connection of the same user to the same port within this time belongs to the same action record."""


@dataclass(frozen=True, slots=True)
class TunnelTarget:
    """A TCP port at a fixed address of a server, as requested."""

    instance: Instance
    port_id: uuid.UUID
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Opening:
    """A tunnel that is open; ``step_id``: the event of the server's action that records it."""

    context: RequestContext
    target: TunnelTarget
    step_id: int
    first: bool


@dataclass(frozen=True, slots=True)
class Passed:
    """The bytes that a tunnel has transferred in each direction."""

    to_guest: int
    from_guest: int


def target_for(context: RequestContext, instance_id: uuid.UUID | str, port: str, address: str) -> TunnelTarget:
    """Return the target of a tunnel; an empty address selects the server's first one, IPv4 before IPv6.

    Raises NotFoundError for an unknown server or address, ForbiddenError, InvalidInputError for an invalid port or
    address, ConflictError without a running guest.
    """
    instance = _allowed(context, instance_id)
    number = int(port) if port.isascii() and port.isdigit() and len(port) < 6 else 0
    if not 0 < number <= LAST_PORT:
        raise InvalidInputError(f"The port must be a number from 1 to {LAST_PORT}.", field="port")
    check_running(instance)
    row = _address(instance, address)
    return TunnelTarget(instance, row.port_id, row.address, number)


def check_still_allowed(context: RequestContext, target: TunnelTarget) -> None:
    """Check whether a tunnel may stay open. Raises the errors of ``target_for``, and ConflictError when the guest was
    replaced.
    """
    instance = _allowed(context, target.instance.id)
    check_running(instance)
    if (instance.attempt, instance.host_id) != (target.instance.attempt, target.instance.host_id):
        raise ConflictError(f"The guest of instance {instance.id} was replaced or moved.")
    if not any((row.port_id, row.address) == (target.port_id, target.address) for row in _addresses(instance)):
        raise NotFoundError(f"Instance {instance.id} no longer has the address {target.address}.")


def record_opened(context: RequestContext, target: TunnelTarget) -> Opening:
    """Write the tunnel to the server's action records, and send a notification."""
    now = timezone.now()
    with transaction.atomic():
        step = _recent(context, target)
        first = step is None
        if step is None:
            action = instance_actions.begin(context, target.instance.id, ACTION, now)
            detail = {"address": target.address, "port": str(target.port), "connections": "0"}
            started = instance_actions.Step(ACTION, now, now, detail=detail)
            step = instance_actions.row_of(action, target.instance.attempt, started)
            instance_actions.close(action, None)
            state.announce_all(target.instance, [{}])
        step.detail = _more(step.detail, connections=1)
        step.finished_at = now
        step.save()
        opening = Opening(context, target, step.id, first)
        _notify(opening, "start")
    return opening


def record_closed(opening: Opening, passed: Passed) -> None:
    """Record the end of a tunnel and the transferred bytes; no effect when the action record was deleted."""
    now = timezone.now()
    with transaction.atomic():
        step = InstanceActionEvent.objects.select_for_update().filter(id=opening.step_id).first()
        if step is None:
            return
        step.detail = _more(step.detail, bytes_to_guest=passed.to_guest, bytes_from_guest=passed.from_guest)
        step.finished_at = now
        step.save(update_fields=["detail", "finished_at"])
        instance_actions.prolong(step.action_id, now)
        _notify(opening, "end", passed)
        if opening.first:
            state.announce_all(opening.target.instance, [{}])


def _allowed(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    instance = selectors.instance_for(context, instance_id)
    policy.enforce(context, RULE, {"project_id": str(instance.project_id), "user_id": str(instance.user_id)})
    return instance


def _addresses(instance: Instance) -> list[PortAddress]:
    return network.addresses_of([instance.id]).get(instance.id, [])


def _address(instance: Instance, requested: str) -> PortAddress:
    rows = _addresses(instance)
    if requested:
        try:
            requested = str(ipaddress.ip_address(requested))
        except ValueError:
            raise InvalidInputError("The address must be an IP address.", field="address") from None
        rows = [row for row in rows if row.address == requested]
        if not rows:
            raise NotFoundError(f"Instance {instance.id} has no address {requested}.")
    if not rows:
        raise ConflictError(f"Instance {instance.id} has no address.")
    return min(rows, key=lambda row: row.version)


def _recent(context: RequestContext, target: TunnelTarget) -> InstanceActionEvent | None:
    """Return the step of a recent action record that also covers a new connection; None if there is none."""
    rows = InstanceActionEvent.objects.select_for_update().filter(
        action__instance=target.instance,
        action__action=ACTION,
        action__user_id=context.user_id,
        name=ACTION,
        attempt=target.instance.attempt,
        finished_at__gt=timezone.now() - SAME_VISIT,
        detail__address=target.address,
        detail__port=str(target.port),
    )
    return rows.order_by("-id").first()


def _more(detail: dict[str, str], **amounts: int) -> dict[str, str]:
    return {**detail, **{name: str(int(detail.get(name, "0")) + amount) for name, amount in amounts.items()}}


def _notify(opening: Opening, phase: str, passed: Passed | None = None) -> None:
    target = opening.target
    more = {"address": target.address, "port": target.port, "bytes_to_guest": None, "bytes_from_guest": None}
    if passed is not None:
        more |= {"bytes_to_guest": passed.to_guest, "bytes_from_guest": passed.from_guest}
    notify(target.instance, f"{ACTION}.{phase}", Note(opening.context, service="nova-api", more=more))
