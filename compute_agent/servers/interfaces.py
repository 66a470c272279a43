"""Cards that come and go, and what is allowed on them, while the guest goes on."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from compute_agent.contract.commands import AttachInterfaceRequest, DetachInterfaceRequest, RefreshPortsRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    ATTACH_INTERFACE,
    DETACH_INTERFACE,
    PLUG_NETWORK,
    UNPLUG_NETWORK,
)
from compute_agent.engine.failures import LATE
from compute_agent.servers.context import CommandCancelledError, CommandContext
from compute_agent.servers.registry import handles
from compute_agent.servers.resize import LateError
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


class NotTakenBackError(HostError):
    """A card could not be plugged in, and it is not sure that the guest does not have it."""

    code = "not_taken_back"


@handles(AttachInterfaceRequest, undoes=True)
def attach(means: CommandContext, request: AttachInterfaceRequest) -> PowerState:
    """Give the network the card, with its filters, then the guest; when that fails neither has it.

    An order that goes on after its deadline is undone.  A guest that is being deleted is left as it is.
    """
    network, spec = means.parts.network, request.instance
    if means.stopped() and not means.cancelled.is_set():
        _take_back(means, request, LATE.message)
        raise LateError(LATE.message)
    means.driver.power_state(means.uuid)  # nothing is plugged for a guest that is not here
    try:
        with means.step(PLUG_NETWORK):
            network.plug(spec)
        with means.step(APPLY_FIREWALL):
            network.apply_firewall(spec)
        with means.step(ATTACH_INTERFACE):
            means.driver.attach_interface(spec, request.port)
        return means.driver.power_state(means.uuid)
    except CommandCancelledError:
        raise
    except Exception as error:
        said = error.message if isinstance(error, HostError) else "The host could not plug the card in."
        _take_back(means, request, said)
        raise


@handles(DetachInterfaceRequest, undoes=True)
def detach(means: CommandContext, request: DetachInterfaceRequest) -> PowerState:
    """Let the guest give the card back, then the network; a card that the guest does not give stays as it is."""
    with means.step(DETACH_INTERFACE):
        means.driver.detach_interface(request.instance, request.port)
    with means.step(UNPLUG_NETWORK):
        means.parts.network.unplug_card(request.instance, request.port)
    return means.driver.power_state(means.uuid)


@handles(RefreshPortsRequest)
def refresh(means: CommandContext, request: RefreshPortsRequest) -> PowerState:
    """Bring leases and filters to what the order says.

    The rules of other guests that name a group follow: they are rendered anew with the members that are here now.
    """
    power = means.driver.power_state(means.uuid)
    with means.step(PLUG_NETWORK):
        means.parts.network.plug(request.instance)
    with means.step(APPLY_FIREWALL):
        means.parts.network.apply_firewall(request.instance)
    return power


def _take_back(means: CommandContext, request: AttachInterfaceRequest, said: str) -> None:
    """Take the card from the guest and from the network; raises NotTakenBackError."""
    before = means.known or request.instance
    before = replace(before, ports=[port for port in before.ports if port.id != request.port.id])
    try:
        means.driver.detach_interface(before, request.port)
        means.parts.network.unplug_card(before, request.port)
    except Exception as error:
        log.exception("Instance %s: a card could not be taken back.", means.uuid)
        raise NotTakenBackError(f"{said} The card could not be taken back.") from error
