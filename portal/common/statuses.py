"""Labels of the states of resources, the same on the pages of users and of operators."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from provisioning.compute.actions.registry import words_of_tasks
from provisioning.compute.models import Instance
from provisioning.compute.states import VmState, api_status
from provisioning.hosts.machines import SHOWN_FOR
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network.models import FloatingIP
from provisioning.volumes.selectors.pools import Condition
from provisioning.volumes.states import AttachStatus, BackupStatus, SnapshotStatus, VolumeStatus


@dataclass(frozen=True, slots=True)
class Status:
    """A status with its appearance: ``tone`` is one of ok, busy, warn, bad, off."""

    word: str
    tone: str
    icon: str


def _busy(word: str) -> Status:
    return Status(word, "busy", "arrow-repeat")


def _bad(word: str) -> Status:
    return Status(word, "bad", "exclamation-octagon-fill")


UNKNOWN = Status("Unknown", "off", "question-circle-fill")
INSTANCE_STATUS: Mapping[str, Status] = {
    "ACTIVE": Status("Active", "ok", "check-circle-fill"),
    "BUILD": Status("Building", "busy", "arrow-repeat"),
    "SHUTOFF": Status("Stopped", "off", "stop-circle-fill"),
    "ERROR": Status("Error", "bad", "exclamation-octagon-fill"),
    "REBOOT": Status("Rebooting", "busy", "arrow-repeat"),
    "HARD_REBOOT": Status("Resetting", "busy", "arrow-repeat"),
    "PASSWORD": Status("Setting password", "busy", "arrow-repeat"),
    "REBUILD": Status("Rebuilding", "busy", "arrow-repeat"),
    "RESIZE": Status("Resizing or moving", "busy", "arrow-repeat"),
    "VERIFY_RESIZE": Status("To be confirmed", "warn", "question-circle-fill"),
    "MIGRATING": Status("Migrating", "busy", "arrow-repeat"),
    "REVERT_RESIZE": Status("Reverting", "busy", "arrow-repeat"),
    "PAUSED": Status("Paused", "off", "pause-circle-fill"),
    "SUSPENDED": Status("Suspended", "off", "moon-fill"),
    "RESCUE": Status("In rescue", "warn", "life-preserver"),
    "SHELVED": Status("Shelved", "off", "archive-fill"),
    "SHELVED_OFFLOADED": Status("Shelved", "off", "archive-fill"),
    "SOFT_DELETED": Status("Deleted, can be restored", "off", "trash"),
    "DELETED": Status("Deleted", "off", "trash-fill"),
}
ROUTER_STATUS: Mapping[str, Status] = {
    "ACTIVE": Status("Active", "ok", "check-circle-fill"),
    "DOWN": Status("Switched off", "off", "stop-circle-fill"),
    "ERROR": Status("Error", "bad", "exclamation-octagon-fill"),
}
IMAGE_STATUS: Mapping[str, Status] = {
    "active": Status("Ready", "ok", "check-circle-fill"),
    "queued": Status("Waiting for data", "warn", "hourglass-split"),
    "saving": Status("Uploading", "busy", "arrow-repeat"),
    "uploading": Status("Staging", "busy", "arrow-repeat"),
    "importing": Status("Importing", "busy", "arrow-repeat"),
    "deactivated": Status("Deactivated", "warn", "slash-circle"),
    "killed": Status("Refused", "bad", "exclamation-octagon-fill"),
}
LAUNCHING = {
    "scheduling": "Choosing a host",
    "networking": "Allocating addresses",
    "block_device_mapping": "Preparing disks",
    "spawning": "Starting on its host",
    "evacuating": "Moving to another host",
}
"""Task states of a launch → label; other tasks have the labels of their actions."""
NETWORK_STATUS: Mapping[str, Status] = {
    "ACTIVE": Status("Active", "ok", "check-circle-fill"),
    "DOWN": Status("Down", "off", "stop-circle-fill"),
    "BUILD": Status("Being built", "busy", "arrow-repeat"),
    "ERROR": Status("Error", "bad", "exclamation-octagon-fill"),
}
OFF = Status("Switched off", "off", "stop-circle-fill")
UNUSED = Status("Not associated", "off", "dash-circle")
FREE = Status("Available", "ok", "check-circle-fill")
VOLUME_STATUS: Mapping[str, Status] = {
    VolumeStatus.CREATING: _busy("Being created"),
    VolumeStatus.DOWNLOADING: _busy("Copying its image"),
    VolumeStatus.AVAILABLE: FREE,
    VolumeStatus.RESERVED: Status("Reserved", "warn", "bookmark-fill"),
    VolumeStatus.ATTACHING: _busy("Being attached"),
    VolumeStatus.DETACHING: _busy("Being detached"),
    VolumeStatus.IN_USE: Status("In use", "ok", "link-45deg"),
    VolumeStatus.MAINTENANCE: Status("In maintenance", "warn", "cone-striped"),
    VolumeStatus.DELETING: _busy("Being deleted"),
    VolumeStatus.AWAITING_TRANSFER: Status("Awaiting transfer", "warn", "arrow-left-right"),
    VolumeStatus.ERROR: _bad("Error"),
    VolumeStatus.ERROR_DELETING: _bad("Could not be deleted"),
    VolumeStatus.BACKING_UP: _busy("Being backed up"),
    VolumeStatus.RESTORING_BACKUP: _busy("Being restored"),
    VolumeStatus.ERROR_BACKING_UP: _bad("Could not be backed up"),
    VolumeStatus.ERROR_RESTORING: _bad("Could not be restored"),
    VolumeStatus.UPLOADING: _busy("Copied to an image"),
    VolumeStatus.RETYPING: _busy("Changing its type"),
    VolumeStatus.EXTENDING: _busy("Growing"),
    VolumeStatus.ERROR_EXTENDING: _bad("Extending failed"),
    VolumeStatus.REVERTING: _busy("Reverting to a snapshot"),
}
SNAPSHOT_STATUS: Mapping[str, Status] = {
    SnapshotStatus.CREATING: _busy("Being taken"),
    SnapshotStatus.AVAILABLE: FREE,
    SnapshotStatus.DELETING: _busy("Being deleted"),
    SnapshotStatus.ERROR: _bad("Error"),
    SnapshotStatus.ERROR_DELETING: _bad("Could not be deleted"),
    SnapshotStatus.BACKING_UP: _busy("Being backed up"),
    SnapshotStatus.RESTORING: _busy("Being restored"),
    SnapshotStatus.UNMANAGING: _busy("Being unmanaged"),
}
BACKUP_STATUS: Mapping[str, Status] = {
    BackupStatus.CREATING: _busy("Being written"),
    BackupStatus.AVAILABLE: FREE,
    BackupStatus.RESTORING: _busy("Being restored"),
    BackupStatus.DELETING: _busy("Being deleted"),
    BackupStatus.ERROR: _bad("Error"),
    BackupStatus.ERROR_DELETING: _bad("Could not be deleted"),
}
ATTACHMENT_STATUS: Mapping[str, Status] = {
    AttachStatus.RESERVED: Status("Reserved", "off", "bookmark-fill"),
    AttachStatus.ATTACHING: _busy("Being attached"),
    AttachStatus.ATTACHED: Status("Attached", "ok", "link-45deg"),
    AttachStatus.DETACHING: _busy("Being detached"),
    AttachStatus.ERROR_ATTACHING: _bad("Could not be attached"),
    AttachStatus.ERROR_DETACHING: _bad("Could not be detached"),
}
FORCED_DOWN = Status("Forced down", "bad", "slash-circle")
TWO_MACHINES = Status("Two machines", "bad", "exclamation-octagon-fill")
HOST_SILENT = Status("Does not answer", "bad", "question-circle-fill")
MAINTENANCE = Status("In maintenance", "warn", "pause-circle-fill")
WARNS = Status("Up, with warnings", "warn", "exclamation-triangle-fill")
UP = Status("Up", "ok", "check-circle-fill")
POOL_STATUS: Mapping[Condition, Status] = {
    "unserved": Status("No host serves it", "bad", "question-circle-fill"),
    "silent": Status("Does not answer", "bad", "question-circle-fill"),
    "fault": Status("Has a fault", "bad", "exclamation-octagon-fill"),
    "frozen": Status("Frozen", "warn", "lock-fill"),
    "disabled": Status("Disabled", "warn", "pause-circle-fill"),
    "in service": Status("In service", "ok", "check-circle-fill"),
}

SILENT = Status("Unknown", "warn", "question-circle-fill")
"""The status of a server whose host is down, so that its state is unknown (``UNKNOWN`` in Nova's ``host_status``)."""
OF_KIND: Mapping[str, Mapping[str, Status]] = {
    "images.Image": IMAGE_STATUS,
    **{f"network.{kind}": NETWORK_STATUS for kind in ("FloatingIP", "Network", "Port", "Router")},
    "volumes.Attachment": ATTACHMENT_STATUS,
    "volumes.Backup": BACKUP_STATUS,
    "volumes.Snapshot": SNAPSHOT_STATUS,
    "volumes.Volume": VOLUME_STATUS,
}
"""Model → the labels of its column ``status``."""


def named(kind: str, word: str) -> Status:
    """Return the status ``word`` of a model; a word without a label is its own."""
    return OF_KIND[kind].get(word) or replace(UNKNOWN, word=word.replace("_", " ").capitalize())


def status_of(record: Any) -> Status:
    """Return the status of a record of any kind."""
    if isinstance(record, Instance):
        return server_status(record, timezone.now())
    if isinstance(record, FloatingIP):
        return floating_ip_status(record)
    if not getattr(record, "admin_state_up", True) and record.status != "ERROR":
        return OFF
    return named(record._meta.label, record.status)


def task_word(task_state: str | None) -> str:
    """Return the label of the current task; the API's name is shown next to it if there is space."""
    task = task_state or ""
    return LAUNCHING.get(task) or words_of_tasks.get(task, "")


def instance_status(api_status: str, task_state: str | None) -> Status:
    """Return the label of an instance's status. If the status itself shows no operation, the label of a running task is
    returned instead.
    """
    usual = INSTANCE_STATUS.get(api_status, UNKNOWN)
    if not task_state or usual.tone == "busy" or api_status == "DELETED":
        return usual
    word = {"powering-off": "Stopping"}.get(task_state) or task_word(task_state)
    return Status(word, "busy", "arrow-repeat") if word else usual


def server_status(instance: Instance, now: datetime) -> Status:
    """Return the current status of a server; ``instance.host`` must be prefetched."""
    if is_silent(instance, now):
        return SILENT
    return instance_status(api_status(instance.vm_state, instance.task_state), instance.task_state)


def is_silent(instance: Instance, now: datetime) -> bool:
    """Whether the server's host is down or was forced down by an operator."""
    return instance.host is not None and instance.vm_state != VmState.DELETED and not is_alive(instance.host, now)


def network_status(word: str, *, up: bool = True) -> Status:
    """Return the status of a network, router or port; ``up``: its administrative state."""
    return NETWORK_STATUS.get(word, UNKNOWN) if up or word == "ERROR" else OFF


def floating_ip_status(floating: FloatingIP) -> Status:
    """Return the status. A floating IP without an association is shown as unused, not as down."""
    if floating.fixed_port_id is None and not floating.port_forwardings.all() and floating.status != "ERROR":
        return UNUSED
    return network_status(floating.status)


def host_status(host: Host, now: datetime) -> Status:
    """Return the state of a host: the first that applies, worst first."""
    if host.forced_down:
        return FORCED_DOWN
    if is_claimed_twice(host, now):
        return TWO_MACHINES
    if not is_alive(host, now):
        return HOST_SILENT
    if not host.enabled:
        return MAINTENANCE
    return WARNS if host.warnings else UP


def is_claimed_twice(host: Host, now: datetime) -> bool:
    """Whether a second machine with a copy of the host's state directory was refused lately."""
    return host.second_machine_at is not None and host.second_machine_at > now - SHOWN_FOR


def volume_status(word: str) -> Status:
    return VOLUME_STATUS.get(word, UNKNOWN)


def snapshot_status(word: str) -> Status:
    return SNAPSHOT_STATUS.get(word, UNKNOWN)


def backup_status(word: str) -> Status:
    return BACKUP_STATUS.get(word, UNKNOWN)
