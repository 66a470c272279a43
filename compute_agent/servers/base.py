"""The parts that the handlers of commands for servers share."""

from __future__ import annotations

import abc
from typing import ClassVar, get_args

from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import spec_of
from compute_agent.contract.power import PowerState
from compute_agent.engine.context import CommandContext
from compute_agent.engine.handlers import B, CommandHandler
from compute_agent.engine.outcomes import Outcome
from compute_agent.servers.power_tracker import PowerTracker
from compute_agent.servers.records import ServerRecords, described
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import Guest


class ServerHandler(CommandHandler[B]):
    """A handler with the services of its host. ``ServerHandler[PowerRequest]`` executes commands with this type of
    body.
    """

    body: ClassVar[type]
    """The type of the command's body, from the brackets."""

    def __init_subclass__(cls) -> None:
        bodies = [body for base in cls.__dict__.get("__orig_bases__", ()) for body in get_args(base)]
        for body in bodies:
            if isinstance(body, type):
                cls.body = body

    def __init__(self, host: HostServices, records: ServerRecords, powers: PowerTracker) -> None:
        self.host = host
        self.driver = host.driver
        self.network = host.network
        self.records = records
        self.powers = powers

    def owner(self, context: CommandContext, body: B) -> str:
        """Return the server's project."""
        spec = spec_of(body) or self.records.spec(context.subject.id)
        return spec.project_id if spec is not None else ""

    async def power_state(self, context: CommandContext) -> PowerState:
        """Ask the hypervisor for the guest's power state.  Raises InstanceNotFoundError."""
        return await context.work(lambda: self.driver.power_state(context.subject.id))


class GuestHandler(ServerHandler[B]):
    """A handler of a command that changes an existing guest, and reports the guest's power state at its end."""

    replaces_image = False
    """Whether the command creates the guest again. The guest's disk is then based on the command's image, and the guest
    has only the command's interfaces.
    """

    @abc.abstractmethod
    async def change(self, context: CommandContext, request: B) -> PowerState:
        """Execute the command, and return the guest's power state; see ``CommandHandler.run``."""

    def leaves_out(self, request: B) -> str | None:
        """Return the id of the port that the command detaches; None if the guest keeps every interface."""
        return None

    async def run(self, context: CommandContext, request: B) -> Outcome:
        spec = spec_of(request)
        if spec is not None and not self.replaces_image:
            spec = await self._whole(context, spec, self.leaves_out(request))
            request = replace(request, instance=spec)
        power = await self.change(context, request)
        self.powers.reported(Guest(context.subject.id, context.generation, power))
        description = None if spec is None else described(self._made_of(spec))
        return Outcome(power_state=power, description=description)

    async def _whole(self, context: CommandContext, spec: InstanceSpec, without: str | None) -> InstanceSpec:
        """Return the spec, completed with known interfaces that the guest has and the command does not name, except the
        port ``without``.

        If a command does not name an interface, the database has lost it. Only the command that detaches an interface
        may remove it from the guest.
        """
        known, named = self.records.spec(spec.uuid), {port.id for port in spec.ports}
        kept = [port for port in (known.ports if known else ()) if port.id not in named and port.id != without]
        if not kept:
            return spec
        has = (await context.work(self.driver.interfaces)).get(spec.uuid, ())
        kept = [port for port in kept if port.mac_address.lower() in has]
        return replace(spec, ports=[*spec.ports, *kept])

    def _made_of(self, spec: InstanceSpec) -> InstanceSpec:
        known = self.records.spec(spec.uuid)
        return spec if known is None or self.replaces_image else replace(spec, image=known.image)
