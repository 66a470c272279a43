"""Attaches, detaches and filters interfaces while the guest keeps running."""

import logging
from functools import partial

from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import AttachInterfaceRequest, DetachInterfaceRequest, RefreshPortsRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    ATTACH_INTERFACE,
    DETACH_INTERFACE,
    PLUG_NETWORK,
    UNPLUG_NETWORK,
)
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import LateError
from compute_agent.servers.base import GuestHandler
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


class NotTakenBackError(HostError):
    """An interface could not be attached, and the guest may still have it."""

    code = "not_taken_back"


class AttachInterface(GuestHandler[AttachInterfaceRequest]):
    """Adds the interface to the network, with its filters, then to the guest. After a failure it is removed from both.

    A command that is still running after its deadline is undone. A guest that is being deleted is left unchanged.
    """

    resumes_late = True

    async def change(self, context: CommandContext, request: AttachInterfaceRequest) -> PowerState:
        spec, power = request.instance, PowerState.NOSTATE
        before = self.records.spec(spec.uuid) or spec
        before = replace(before, ports=[port for port in before.ports if port.id != request.port.id])

        async def undo(error: Exception) -> None:
            await context.work(lambda: self._detach_again(before, request, error))

        def plug_in() -> None:
            nonlocal power
            self.driver.attach_interface(spec, request.port)
            power = self.driver.power_state(spec.uuid)

        if context.late and not context.cancelled:
            late = LateError()
            await undo(late)
            raise late
        await self.power_state(context)  # nothing is plugged for a guest that is not here
        await context.run_steps(
            [
                Step(PLUG_NETWORK, partial(self.network.plug, spec), undo=undo),
                Step(APPLY_FIREWALL, partial(self.network.apply_firewall, spec)),
                Step(ATTACH_INTERFACE, plug_in),
            ]
        )
        return power

    def _detach_again(self, before: InstanceSpec, request: AttachInterfaceRequest, error: Exception) -> None:
        """Detach the interface from the guest and remove it from the network. Raises NotTakenBackError if
        this fails.
        """
        try:
            self.driver.detach_interface(before, request.port)
            self.network.unplug_interface(before, request.port)
        except Exception as failure:
            log.exception("Server %s: an interface could not be detached again.", before.uuid)
            reason = error.message if isinstance(error, HostError) else "The host could not plug the interface in."
            raise NotTakenBackError(f"{reason} The interface could not be detached again.") from failure


class DetachInterface(GuestHandler[DetachInterfaceRequest]):
    """Detaches the interface from the guest, then removes it from the network. An interface that the guest does not
    release is left unchanged.
    """

    resumes_late = True

    def leaves_out(self, request: DetachInterfaceRequest) -> str:
        return request.port.id

    async def change(self, context: CommandContext, request: DetachInterfaceRequest) -> PowerState:
        await context.run_steps(
            [
                Step(DETACH_INTERFACE, partial(self.driver.detach_interface, request.instance, request.port)),
                Step(UNPLUG_NETWORK, partial(self.network.unplug_interface, request.instance, request.port)),
            ]
        )
        return await self.power_state(context)


class RefreshPorts(GuestHandler[RefreshPortsRequest]):
    """Updates leases and filters according to the command.

    If rules of other guests refer to a group, they are rendered again with the group's current members on this host.
    """

    async def change(self, context: CommandContext, request: RefreshPortsRequest) -> PowerState:
        power = await self.power_state(context)
        await context.run_steps(
            [
                Step(PLUG_NETWORK, partial(self.network.plug, request.instance)),
                Step(APPLY_FIREWALL, partial(self.network.apply_firewall, request.instance)),
            ]
        )
        return power
