"""Putting a server on the shelf: stopped and copied, then taken off its host, which gets its room back."""

import uuid
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.commands import VARIABLES, CommandBody, DestroyRequest, PowerRequest, SnapshotRequest
from provisioning.common.context import RequestContext, system_context
from provisioning.common.errors import ConflictError
from provisioning.compute import host_commands, state
from provisioning.compute.actions.base import Button, Ending, HostAction, Prepared, Stage
from provisioning.compute.actions.registry import action
from provisioning.compute.actions.snapshot import ImageAction, NewImage, judged
from provisioning.compute.block_devices import boots_from_volume
from provisioning.compute.device_names import hardware_of
from provisioning.compute.graceful_stop import seconds_of
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.outcome import Outcome
from provisioning.compute.release import finish_offload, send_destroy
from provisioning.compute.snapshot_images import MadeImage, holds_ready, keep_variables, remove_image
from provisioning.compute.states import AT_REST, TaskState, VmState
from provisioning.hosts.selectors import is_alive
from provisioning.identity.policies.base import ADMIN

SUFFIX = "-shelved"
LONGEST = 255


@action
class Shelve(ImageAction[None]):
    """Stop a server, gracefully, and keep its root disk as an image ``<name>-shelved``, from which it comes back."""

    key = record = api = notification = "shelve"
    done = "Shelved"
    doing = "Shelving"
    rule = "os_compute_api:os-shelve:shelve"
    rule_description = "Shelve a server."
    from_states, task = AT_REST, TaskState.SHELVING
    stages = (Stage("upload_shelved", TaskState.SHELVING_IMAGE_UPLOADING, "Sending its disk away"),)
    ends = {"shelved": VmState.SHELVED}
    keeps_image = False
    button = Button(
        120,
        "shelve",
        "Shelve",
        "archive",
        "Shelve {name}?",
        "It is stopped and leaves its host; its disk is kept as an image. It still counts.",
        "{name} is being shelved.",
    )

    def new_image(self, instance: Instance, request: None) -> NewImage:
        """Name the image after the server."""
        return NewImage(MadeImage(uuid.uuid4(), instance.name[: LONGEST - len(SUFFIX)] + SUFFIX))

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Begin; a server that boots from a volume needs no copy: it is stopped, and leaves its host at once.

        Raises ConflictError for a server with a TPM, whose secrets its host keeps to itself.
        """
        if hardware_of(instance.image_properties, instance.flavor).tpm_version:
            raise ConflictError(f"Instance {instance.id} has a TPM, whose state does not leave its host: no shelving.")
        if boots_from_volume(instance):
            return self.carry_out(context, instance, Prepared(), started)
        return super().start(context, instance, request, started)

    def awaits(self, body: CommandBody) -> bool:
        return isinstance(body, SnapshotRequest | PowerRequest)

    def command(self, instance: Instance, prepared: Prepared) -> SnapshotRequest:
        """Ask for the copy of a stopped guest."""
        if not prepared.image_id:
            return PowerRequest(action="stop", timeout=seconds_of(instance))  # type: ignore[return-value] # it has no copy
        return SnapshotRequest(image_id=prepared.image_id, stop=True, timeout=seconds_of(instance))

    def finished(self, instance: Instance, body: SnapshotRequest, outcome: Outcome) -> Ending:
        """Keep the image that the server comes back from."""
        kept: dict[str, object] = {"shelved_at": timezone.now()}
        if isinstance(body, SnapshotRequest):
            kept["snapshot_image_id"] = body.image_id
        return Ending(columns=kept if outcome.well else {})

    def end(self, instance: Instance, body: SnapshotRequest, outcome: Outcome) -> Instance | None:
        """End the task: the server is on its shelf only when its host says so and the image has its data.

        The image stays locked until the server's row names it: from then on it is not deleted.
        """
        if isinstance(body, PowerRequest):
            return self._end_stop(instance, body, outcome)
        ready = outcome.well and holds_ready(body.image_id)
        older = instance.snapshot_image_id
        if ready and VARIABLES in outcome.detail:
            keep_variables(body.image_id, outcome.detail[VARIABLES])
        moved = HostAction.end(self, instance, body, judged(outcome, ready=ready, well=ready))
        if not ready:
            remove_image(body.image_id, unless_ready=outcome.silent)  # a host whose word is lost may have gone on
        elif older is not None:  # it was taken off its shelf by hand
            remove_image(older)
        if ready and moved is not None and settings.SHELVED_OFFLOAD_TIME == 0:
            Offload().start(system_context(), moved, None, timezone.now())
        return moved

    def _end_stop(self, instance: Instance, body: PowerRequest, outcome: Outcome) -> Instance | None:
        """End the task of a server that boots from a volume; one that comes to its shelf leaves its host."""
        moved = HostAction[None, Any].end(self, instance, body, outcome)
        if moved is not None and outcome.well:
            Offload().start(system_context(), moved, None, timezone.now())
        return moved


@action
class Offload(HostAction[None, DestroyRequest]):
    """Take a shelved server off its host: guest and disks go there, ports and addresses stay the server's.

    With the host down it waits for it.
    """

    key, record, api = "offload", "shelveOffload", "shelveOffload"
    done = "Taken from its host"
    doing = "Leaving its host"
    rule = "os_compute_api:os-shelve:shelve_offload"
    rule_description = "Take a shelved server off its host."
    rule_check = ADMIN
    from_states, task = (VmState.SHELVED,), TaskState.SHELVING_OFFLOADING
    ends = {"offloaded": VmState.SHELVED_OFFLOADED}
    timeout = "DELETE_TIMEOUT"
    notification = "shelve_offload"
    body = DestroyRequest

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Begin, inside the caller's transaction.

        The attempt rises: a guest of an older one that turns up later is nobody's.
        """
        raised = instance.attempt + 1
        moved = self.enter(context, instance, Prepared({"attempt": raised}))
        self.write_begin(context, moved, started)
        host_commands.withdraw(moved.id, raised)
        if moved.host_id is None:
            finish_offload(moved)
        else:
            send_destroy(moved.id, moved.host_id, raised)
        return moved

    def command(self, instance: Instance, prepared: Prepared) -> DestroyRequest:
        """Ask for the removal."""
        return DestroyRequest()

    def overdue(self, instance: Instance) -> None:
        """Ask the host again when it can be asked; else the server waits for its host."""
        allocation = Allocation.objects.select_related("host").filter(instance=instance).first()
        if allocation is None:
            finish_offload(instance)
            return
        state.extend_deadline(instance)
        if is_alive(allocation.host, timezone.now()):
            send_destroy(instance.id, allocation.host_id, instance.attempt)
