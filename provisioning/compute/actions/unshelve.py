"""Unshelve a server: start it on its host, or build it from its image on any suitable host."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compute_agent.contract.commands import PowerRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.common.values.unset import UNSET, Unset
from provisioning.compute import selectors
from provisioning.compute.actions.base import FAILED, Ending, HostAction, Prepared
from provisioning.compute.actions.ways import Button
from provisioning.compute.disks.snapshot_images import remove_image
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.host_link import firmware_states
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.retry import cast_schedule
from provisioning.compute.models import Instance
from provisioning.compute.states import TaskState, Transition, VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import availability_zones
from provisioning.identity import policy


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a server. ``zone`` unset: the server's current zone; None: any zone. ``host`` is for
    operators.
    """

    zone: str | Unset | None = UNSET
    host: str = ""

    @property
    def is_specified(self) -> bool:
        """Whether the caller specified a zone or a host."""
        return bool(self.host) or self.zone is not UNSET


ANYWHERE = Destination()


class Unshelve(HostAction[Destination | None, PowerRequest]):
    """Start a shelved server on its host, or build it from its image on any suitable host."""

    key = record = api = notification = "unshelve"
    done = "Unshelved"
    doing = "Unshelving"
    rule = "os_compute_api:os-shelve:unshelve"
    rule_description = "Unshelve a server."
    takes_request = True
    from_states, task = (VmState.SHELVED, VmState.SHELVED_OFFLOADED), TaskState.UNSHELVING
    ends = {"unshelved": VmState.ACTIVE}
    timeout, heavy_io = "POWER_TIMEOUT", True
    body = PowerRequest
    button = Button(
        130,
        "unshelve",
        "Unshelve",
        "box-arrow-up",
        "Unshelve {name}?",
        "It is built again from the disk it had, with its addresses.",
        "{name} is being unshelved.",
    )

    def transitions(self) -> Iterable[Transition]:
        """Return the transitions of a start on the same host, and of a build on another host."""
        yield from super().transitions()
        away, waiting = VmState.SHELVED_OFFLOADED, TaskState.UNSHELVING
        yield Transition("allocate_network", (away, waiting), (away, waiting))
        yield Transition("unshelve_spawn", (away, waiting), (away, TaskState.SPAWNING))
        for task in (waiting, TaskState.SPAWNING):
            yield Transition("reschedule", (away, task), (away, waiting))
        yield Transition("unshelved", (away, TaskState.SPAWNING), (VmState.ACTIVE, None))
        yield Transition(FAILED, (away, TaskState.SPAWNING), (away, None))

    def notified_tasks(self) -> tuple[TaskState, ...]:
        """Include the task of the build, because a failed build is also a failed unshelve."""
        return TaskState.UNSHELVING, TaskState.SPAWNING

    def start(
        self, context: RequestContext, instance: Instance, request: Destination | None, started: datetime
    ) -> Instance:
        """Start the guest on its host, or schedule it.

        Raises InvalidInputError for an unknown zone or host, ForbiddenError if another user than an operator requests a
        host, ConflictError for a destination of a server that is not offloaded, and for a host outside the zone.
        """
        to = request or ANYWHERE
        check_demands(instance.image_properties, instance.flavor)
        if instance.vm_state == VmState.SHELVED_OFFLOADED:
            return self._schedule(context, instance, _destination_columns(instance, to), started)
        return super().start(context, instance, to, started)

    def prepare(self, context: RequestContext, instance: Instance, request: Destination | None) -> Prepared:
        """Reject a destination for a server that is still on its host."""
        if instance.vm_state == VmState.SHELVED and request is not None and request.is_specified:
            raise ConflictError(
                f"Specifying an availability zone or a host when unshelving server {instance.id} with status"
                f" {instance.vm_state} is not supported: it must be {VmState.SHELVED_OFFLOADED.value}."
            )
        return Prepared()

    def command(self, instance: Instance, prepared: Prepared) -> PowerRequest:
        return PowerRequest(action="start")

    def finished(self, instance: Instance, body: PowerRequest, outcome: Outcome) -> Ending:
        return Ending(columns={"snapshot_image_id": None, "shelved_at": None} if outcome.well else {})

    def end(self, instance: Instance, body: PowerRequest, outcome: Outcome) -> Instance | None:
        """End the task and delete the server's image and firmware state, which are no longer needed."""
        image_id = instance.snapshot_image_id
        back = super().end(instance, body, outcome)
        if back is not None and outcome.well:
            firmware_states.discard(back)
            if image_id is not None:
                remove_image(image_id)
        return back

    def _schedule(
        self, context: RequestContext, instance: Instance, requested: dict[str, Any], started: datetime
    ) -> Instance:
        """Schedule the server in a new attempt; destroy commands of earlier attempts are not withdrawn."""
        moved = self.enter(
            context, instance, Prepared({**requested, "attempt": instance.attempt + 1, "excluded_hosts": []})
        )
        self.write_begin(context, moved, started)
        cast_schedule(moved)
        return moved


def unshelve(context: RequestContext, instance_id: uuid.UUID | str, to: Destination = ANYWHERE) -> Instance:
    """Unshelve a server. Raises the errors of host actions and of ``Unshelve.start``."""
    if to.host:
        selectors.instance_for(context, instance_id)
        policy.enforce(context, "os_compute_api:os-shelve:unshelve_to_host")
    return Unshelve.begin(context, instance_id, to)


def _destination_columns(instance: Instance, to: Destination) -> dict[str, Any]:
    """Return the columns with the destination."""
    zone = instance.availability_zone if to.zone is UNSET else to.zone or ""
    if to.zone is not UNSET and zone and zone not in availability_zones():
        raise InvalidInputError("The requested availability zone is not available", field="availability_zone")
    if to.host:
        host = Host.objects.filter(name=to.host).first()
        if host is None:
            raise InvalidInputError(f"Compute host {to.host} could not be found.", field="host")
        if zone and host.availability_zone != zone:
            raise ConflictError(f"Host {to.host} is not in the availability zone {zone}.", field="host")
    return {"availability_zone": zone, "requested_host": to.host}
