"""End of a build: the server becomes active, or is rescheduled, or is set to ERROR."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, CommandBody
from compute_agent.contract.power import PowerState
from provisioning.compute.disks import block_devices
from provisioning.compute.disks.snapshot_images import remove_image
from provisioning.compute.host_link import firmware_states
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch import attempts
from provisioning.compute.launch.builds import EVACUATE, UNSHELVE, BuildKind, build_kind_of
from provisioning.compute.launch.retry import fail, retry
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.records import instance_actions
from provisioning.compute.records.migration_records import evacuated
from provisioning.compute.services.hosts import build_failed, build_succeeded
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
    return (
        instance.attempt == attempt
        and instance.task_state == TaskState.SPAWNING
        and build_kind_of(instance) is not None
    )


def finished(instance: Instance, body: CommandBody, outcome: Outcome, ended: datetime) -> None:
    """End the build that the instance waits for; ``ended`` is the host's time of the end."""
    if outcome.well:
        _built(instance, body, outcome)
    else:
        _not_built(instance, outcome, ended)


def _built(instance: Instance, body: CommandBody, outcome: Outcome) -> None:
    build_succeeded(instance.host)
    power = outcome.power or PowerState.RUNNING
    changes = {"launched_at": timezone.now(), "power_state": int(power), "admin_password": ""}
    kind = build_kind_of(instance)
    if kind is UNSHELVE or kind is EVACUATE:
        _end_return(instance, kind, changes)
        return
    devices = block_devices.volumes_of(instance.id)
    note = Note(ports=body.instance.ports, devices=devices) if isinstance(body, BuildRequest) else None
    if state.advance(instance, "activate", attempt=instance.attempt, changes=changes, note=note) is None:
        return
    commit(instance.id)
    network.set_ports_status(instance.id, "ACTIVE")
    block_devices.plugged(devices)
    instance_actions.finish(instance.id, "create")


def _end_return(instance: Instance, kind: BuildKind, changes: Mapping[str, Any]) -> None:
    """End an unshelving or an evacuation, and delete the shelved image and the firmware state, if any."""
    image_id = instance.snapshot_image_id
    back = state.advance(instance, kind.done, attempt=instance.attempt, changes={**changes, **OFF_THE_SHELF})
    if back is None:
        return
    network.set_ports_status(back.id, "ACTIVE")
    block_devices.plugged(block_devices.volumes_of(back.id))
    instance_actions.finish(back.id, kind.action)
    if kind is EVACUATE:
        evacuated(back.id)
    firmware_states.discard(back)
    if image_id is not None:
        remove_image(image_id)


def _not_built(instance: Instance, outcome: Outcome, ended: datetime) -> None:
    """Record the failed step; then reschedule the server, or set it to ERROR."""
    reason, host_id = outcome.message or "The host could not build the server.", instance.host_id
    kind = build_kind_of(instance)
    action = instance_actions.current(instance.id, kind.action) if kind else None
    if action is not None:
        failure = attempts.Failure(instance.attempt, instance.host_name, reason)
        attempts.record(action, failure, instance, ended)
    if host_id is not None and outcome.retryable:
        retry(instance, host_id, reason, clean=True)
        return
    failed = fail(instance, reason, details=f"error code {outcome.code}")
    if host_id is not None and failed is not None and outcome.code not in NO_HOST_CAN:
        build_failed(host_id)
