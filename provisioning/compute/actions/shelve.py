"""Shelve a server: stop it, copy its disk to an image, then remove it from its host, which releases its resources."""

import uuid
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest, SnapshotRequest
from provisioning.common.context import RequestContext, system_context
from provisioning.compute.actions.base import COULD_NOT, Ending, HostAction, Prepared, Stage
from provisioning.compute.actions.snapshot import NO_BITS, ImageAction, NewImage, judged
from provisioning.compute.actions.ways import Button
from provisioning.compute.disks.block_devices import boots_from_volume
from provisioning.compute.disks.snapshot_images import ServerImage, holds_ready, remove_image
from provisioning.compute.host_link import firmware_states
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.host_link.release import finish_offload, send_destroy
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine import state
from provisioning.compute.states import AT_REST, TaskState, VmState
from provisioning.hosts.selectors import is_alive
from provisioning.identity.policies.base import ADMIN

NO_FIRMWARE = "The host has not stored the server's UEFI variables and TPM."
SUFFIX = "-shelved"
LONGEST = 255


class Shelve(ImageAction[None]):
    """Shut a server down and store its root disk as image ``<name>-shelved``, from which it is unshelved. Its UEFI
    variables and its TPM are stored as its firmware state.
    """

    key = record = api = notification = "shelve"
    done = "Shelved"
    doing = "Shelving"
    rule = "os_compute_api:os-shelve:shelve"
    rule_description = "Shelve a server."
    from_states, task = AT_REST, TaskState.SHELVING
    stages = (Stage("upload_shelved", TaskState.SHELVING_IMAGE_UPLOADING, "Uploading its disk"),)
    ends = {"shelved": VmState.SHELVED}
    keeps_image = False
    button = Button(
        120,
        "shelve",
        "Shelve",
        "archive",
        "Shelve {name}?",
        "It is stopped and leaves its host; its disk is kept as an image. It still counts in the quota.",
        "{name} is being shelved.",
    )

    def new_image(self, instance: Instance, request: None) -> NewImage:
        return NewImage(ServerImage(uuid.uuid4(), instance.name[: LONGEST - len(SUFFIX)] + SUFFIX))

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Begin; a volume-backed server needs no image: it is stopped and then offloaded."""
        firmware_states.discard(instance)
        if boots_from_volume(instance):
            return self.carry_out(context, instance, Prepared(), started)
        return super().start(context, instance, request, started)

    def command(self, instance: Instance, prepared: Prepared) -> SnapshotRequest:
        """Copy the disk of the stopped guest, unless the server is volume-backed, and its firmware state."""
        return SnapshotRequest(
            image_id=prepared.image_id,
            stop=True,
            timeout=shutdown_seconds(instance),
            firmware_state=firmware_states.has_state(instance),
        )

    def finished(self, instance: Instance, body: SnapshotRequest, outcome: Outcome) -> Ending:
        """Store the id of the image from which the server is unshelved."""
        kept: dict[str, object] = {"shelved_at": timezone.now()}
        if body.image_id:
            kept["snapshot_image_id"] = body.image_id
        return Ending(columns=kept if outcome.well else {})

    def end(self, instance: Instance, body: SnapshotRequest, outcome: Outcome) -> Instance | None:
        """End the task; it succeeds only if the host reported success, and the image and the firmware state were
        stored. A volume-backed server is offloaded immediately.

        The image stays locked until the server's row refers to it, which then protects it from deletion.
        """
        older, lacks = instance.snapshot_image_id, self._lacks(instance, body, outcome)
        moved = HostAction.end(self, instance, body, judged(outcome, lacks))
        if lacks:
            remove_image(body.image_id, unless_ready=outcome.silent)  # the upload may have finished all the same
            firmware_states.discard(instance)
        elif older is not None:  # left over from a shelving that ended by a state reset
            remove_image(older)
        if moved is not None and not lacks and (not body.image_id or settings.SHELVED_OFFLOAD_TIME == 0):
            Offload().start(system_context(), moved, None, timezone.now())
        return moved

    @staticmethod
    def _lacks(instance: Instance, body: SnapshotRequest, outcome: Outcome) -> str:
        """Return why the shelving failed; empty if it succeeded."""
        if not outcome.well:
            return COULD_NOT
        if body.image_id and not holds_ready(body.image_id):
            return NO_BITS
        return NO_FIRMWARE if body.firmware_state and not firmware_states.is_stored(instance) else ""


class Offload(HostAction[None, DestroyRequest]):
    """Offload a shelved server: its guest and disks are deleted on the host; ports and addresses are kept.

    While the host is down, the server waits for it.
    """

    key, record, api = "offload", "shelveOffload", "shelveOffload"
    done = "Offloaded"
    doing = "Offloading"
    rule = "os_compute_api:os-shelve:shelve_offload"
    rule_description = "Offload a shelved server from its host."
    rule_check = ADMIN
    from_states, task = (VmState.SHELVED,), TaskState.SHELVING_OFFLOADING
    ends = {"offloaded": VmState.SHELVED_OFFLOADED}
    timeout = "DELETE_TIMEOUT"
    notification = "shelve_offload"
    body = DestroyRequest
    button = Button(
        125,
        "offload",
        "Offload",
        "box-arrow-right",
        "Offload {name} from its host?",
        "Its guest and disks are deleted on the host, which frees its resources. It can still be unshelved.",
        "{name} is being offloaded.",
    )

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Begin, inside the caller's transaction.

        The attempt is raised, so that a guest of an older attempt that appears later is an orphan.
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
        return DestroyRequest()

    def overdue(self, instance: Instance) -> None:
        """Send the destroy command again if the host is up; otherwise keep waiting."""
        allocation = Allocation.objects.select_related("host").filter(instance=instance).first()
        if allocation is None:
            finish_offload(instance)
            return
        state.extend_deadline(instance)
        if is_alive(allocation.host, timezone.now()):
            send_destroy(instance.id, allocation.host_id, instance.attempt)
