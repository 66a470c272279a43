"""The ends of orders about single cards: they belong to no task, and each closes its own action."""

from __future__ import annotations

import logging

from compute_agent.contract.commands import AttachInterfaceRequest, DetachInterfaceRequest, RefreshPortsRequest
from provisioning.compute import host_commands, instance_actions, state
from provisioning.compute.actions.ends.ordinary import COULD_NOT
from provisioning.compute.actions.ends.outcome import Outcome
from provisioning.compute.actions.ends.registry import end_of
from provisioning.compute.actions.interfaces import (
    ATTACH,
    DETACH,
    NOTIFICATIONS,
    order_attach,
    order_detach,
    take_card,
)
from provisioning.compute.faults import record_fault
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note, notify
from provisioning.network import selectors as network_selectors
from provisioning.network import services as network

log = logging.getLogger(__name__)

NOT_TAKEN_BACK = "not_taken_back"
"""What a host says when a card could not be plugged in, and may be there all the same."""


@end_of(AttachInterfaceRequest)
def attached(instance: Instance, body: AttachInterfaceRequest, outcome: Outcome) -> None:
    """The card is in, or its port is given back.

    Where the guest may have it all the same, or an order that follows would plug it in, the host is told to take it out
    first, however long that takes: no other guest gets its address before.
    """
    port = body.port
    cards = {str(row.id): row for row in network_selectors.cards_of(instance.id)}
    if port.id not in cards:
        return
    if outcome.well:
        network.set_card_status(port.id, "ACTIVE")
    elif not (outcome.silent or outcome.code == NOT_TAKEN_BACK or host_commands.is_busy_with(instance.id)):
        take_card(instance, port.id)
    elif not cards[port.id].leaving:
        network.set_card_status(port.id, "DOWN")
        order_detach(instance, port, timeout=None)
    _close(instance, ATTACH, port.id, outcome)


@end_of(DetachInterfaceRequest)
def detached(instance: Instance, body: DetachInterfaceRequest, outcome: Outcome) -> None:
    """The card is out, and its port goes; or the guest keeps it, also after orders that were given meanwhile."""
    port = body.port
    if outcome.well:
        take_card(instance, port.id)
    else:
        network.set_card_leaving(port.id, leaving=False)
        if host_commands.is_busy_with(instance.id):
            order_attach(instance, port.id)
    _close(instance, DETACH, port.id, outcome)


@end_of(RefreshPortsRequest)
def refreshed(instance: Instance, body: RefreshPortsRequest, outcome: Outcome) -> None:
    """What the cards may do is as the order says; a host that failed keeps it in mind and says so."""
    if not outcome.well:
        log.warning("The filters of instance %s were not brought up to date: %s", instance.id, outcome.message)
        _record(instance, "refresh_ports", outcome)


def _close(instance: Instance, action: str, port_id: str, outcome: Outcome) -> None:
    if not outcome.well:
        _record(instance, action, outcome)
    phase, said = ("end", "") if outcome.well else ("error", outcome.message or COULD_NOT)
    notify(instance, f"{NOTIFICATIONS[action]}.{phase}", Note(fault=said, cause=outcome.code))
    row = instance_actions.of_port(instance.id, action, port_id)
    if row is None:
        state.announce_all(instance, [{}])
        return
    failure = None if outcome.well else outcome.message or COULD_NOT
    span = instance_actions.Span(max(outcome.begun_at, row.started_at), outcome.ended_at)
    host = instance.host.name if instance.host else ""
    step = instance_actions.step(row, f"compute_{action}", span, attempt=instance.attempt, host=host, failure=failure)
    instance_actions.write([step])
    instance_actions.close(row, failure)
    state.announce_all(instance, [{"step": instance_actions.shown(step)}])


def _record(instance: Instance, action: str, outcome: Outcome) -> None:
    host = instance.host.name if instance.host else ""
    record_fault(instance, outcome.message or COULD_NOT, details=f"{action}: {outcome.code}", host_name=host)
