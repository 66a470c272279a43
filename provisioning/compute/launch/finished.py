"""End of a build: the server becomes active, or is rescheduled, or is set to ERROR."""

from typing import Any

from django.utils import timezone

from compute_agent.contract.commands import BuildRequest
from compute_agent.contract.power import PowerState
from provisioning.compute.disks import block_devices
from provisioning.compute.disks.snapshot_images import remove_image
from provisioning.compute.host_link import firmware_states
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.builds import EVACUATE, LAUNCH, BuildKind, build_kind_of
from provisioning.compute.launch.retry import fail, retry
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.records import instance_actions
from provisioning.compute.records.migration_records import evacuated
from provisioning.compute.services.hosts import build_succeeded
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState
from provisioning.network import services as network
from provisioning.quotas.services.ledger import commit

NO_HOST_CAN = frozenset({"build_failed", "image_unacceptable", "stopped"})
"""Error codes of failed builds that are not the fault of the host."""
OFF_THE_SHELF: dict[str, Any] = {
    "snapshot_image_id": None,
    "shelved_at": None,
    "excluded_hosts": [],
    "requested_host": "",
}


def is_spawning(instance: Instance, attempt: int) -> bool:
    """Whether a host is working on this attempt of a build."""
    return instance.attempt == attempt and instance.task_state == TaskState.SPAWNING


def finished(instance: Instance, body: BuildRequest, outcome: Outcome) -> None:
    """End the build that the instance waits for, inside the caller's transaction with the server locked."""
    kind = build_kind_of(instance)
    if kind is None or instance.task_state != TaskState.SPAWNING:
        return
    if outcome.well:
        _built(instance, kind, body, outcome)
    else:
        _not_built(instance, outcome)


def _built(instance: Instance, kind: BuildKind, body: BuildRequest, outcome: Outcome) -> None:
    """Set the server to active. An unshelving or an evacuation deletes the shelved image and the firmware state, if
    any.
    """
    build_succeeded(instance.host)
    changes: dict[str, Any] = {
        "launched_at": timezone.now(),
        "power_state": int(outcome.power or PowerState.RUNNING),
        "admin_password": "",
    }
    devices, image_id = block_devices.volumes_of(instance.id), instance.snapshot_image_id
    if kind is LAUNCH:
        state.apply(instance, kind.done, changes=changes, note=Note(ports=body.instance.ports, devices=devices))
        commit(instance.id)
    else:
        state.apply(instance, kind.done, changes={**changes, **OFF_THE_SHELF})
        firmware_states.discard(instance)
        if image_id is not None:
            remove_image(image_id)
    network.set_ports_status(instance.id, "ACTIVE")
    block_devices.plugged(devices)
    instance_actions.finish(instance.id, kind.action)
    if kind is EVACUATE:
        evacuated(instance.id)


def _not_built(instance: Instance, outcome: Outcome) -> None:
    """Reschedule the server, or set it to ERROR."""
    reason, host_id = outcome.message or "The host could not build the server.", instance.host_id
    if host_id is not None and outcome.retryable:
        retry(instance, host_id, reason, clean=True, ended=outcome.reported_end)
    else:
        at_fault = None if outcome.code in NO_HOST_CAN else host_id
        fail(
            instance,
            reason,
            details=f"error code {outcome.code}",
            at_fault=at_fault,
            ended=outcome.reported_end,
        )
