"""The disks of a server with their transfer rates."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from compute_agent.contract.calls import DiskDiagnostics
from portal.common import statuses
from portal.common.statuses import Status
from portal.dashboard.frame.pages import Page
from portal.dashboard.instances.dialogs.guest_disks import Guide, guide_for
from portal.dashboard.instances.lists.rows import can
from portal.dashboard.words.names import bdi
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute import selectors as compute
from provisioning.compute.actions.attach_volume import AttachVolume
from provisioning.compute.actions.guest_disks import GuestWork, MountVolume, recent_work
from provisioning.compute.disks import block_devices
from provisioning.compute.disks.device_names import root_device
from provisioning.compute.flavors.sizes import root_gb
from provisioning.compute.host_link.guest_agent import has_guest_agent
from provisioning.compute.launch.mounts import SHOWN_SERIAL, mounted_disks
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.services.console import diagnostics
from provisioning.compute.services.file_systems import RULE as LISTS_FILE_SYSTEMS
from provisioning.compute.states import VmState
from provisioning.identity import policy
from provisioning.volumes import selectors as volumes
from provisioning.volumes.models import Volume
from provisioning.volumes.states import AttachStatus

SEES = "os_compute_api:os-volumes-attachments:index"
NO_AGENT = {"asks_agent": False, "works_in_guest": False, "finished": 0}
NEW_FOR = timedelta(minutes=15)
"""Time for which the commands of the volume that was attached last are unfolded."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A row of the disk table; without a ``volume`` the disk is local to the host and deleted with the server."""

    device: str
    what: str
    size: str
    volume: Volume | None = None
    status: Status | None = None
    goes: bool = True
    can_detach: bool = False
    target: str = ""
    guide: Guide | None = None
    work: GuestWork | None = None
    """The last work on it in the guest."""

    @property
    def ident(self) -> str:
        return str(self.volume.id) if self.volume else ""


def disks_for(context: RequestContext, instance: Instance) -> dict[str, Any]:
    """Return the context of the disk section; empty if the caller may not see the server's volumes."""
    own = {"project_id": instance.project_id, "user_id": instance.user_id}
    if not policy.allows(context, SEES, own):
        return {"seen": False, "rows": [], "guided": [], "can_attach": False, **NO_AGENT}
    devices = block_devices.devices_of(instance.id)
    known = _volumes(context, devices)
    taken = {str(each.id): each.status for each in volumes.attachments_of(instance.id)}
    detaches = policy.allows(context, "os_compute_api:os-volumes-attachments:delete", own)
    newest = max((device.created_at for device in devices if device.is_volume and not device.is_root), default=None)
    mounted = mounted_disks(instance.user_data)
    names = Counter(volume.name for volume in known.values())
    agent = instance.vm_state == VmState.ACTIVE and has_guest_agent(instance)
    works = recent_work(instance.id) if agent and known else {}
    rows = [] if any(device.is_root for device in devices if device.is_volume) else [_root(instance)]
    rows += _of_flavor(instance) if all(device.is_volume for device in devices) else []
    for device in devices:
        volume = known.get(device.volume_id or uuid.UUID(int=0))
        if not device.is_volume:
            rows.append(_local(device))
            continue
        attached = taken.get(str(device.attachment_id)) == AttachStatus.ATTACHED
        row = _of_volume(device, volume, can_detach=detaches and attached and not device.is_root)
        if volume is not None and device.plugged and not device.leaving and device.device_type in {"", "disk"}:
            is_new = device.created_at == newest and timezone.now() - device.created_at < NEW_FOR
            unique = names[volume.name] == 1
            guide = _guide(device, volume, unique=unique, is_new=is_new, mounted=mounted)
            row = replace(row, guide=guide, work=works.get(str(volume.id)))
        rows.append(row)
    attaches = policy.allows(context, "os_compute_api:os-volumes-attachments:create", own)
    return {
        "seen": True,
        "rows": rows,
        "guided": [row for row in rows if row.guide],
        "can_attach": attaches and can(instance, AttachVolume()),
        "asks_agent": agent and policy.allows(context, LISTS_FILE_SYSTEMS, own),
        "works_in_guest": agent and policy.allows(context, MountVolume.rule, own) and can(instance, MountVolume()),
        "finished": sum(not work.running for work in works.values()),
    }


def _root(instance: Instance) -> Disk:
    size = root_gb(instance.flavor)
    return Disk(
        root_device(instance),
        f"created from {bdi(instance.image_name or 'its image')}",
        f"{size} GiB" if size else "",
        target=root_device(instance).removeprefix("/dev/"),
    )


def _of_flavor(instance: Instance) -> list[Disk]:
    """Return the ephemeral and swap disks of the flavor."""
    rows = []
    if instance.flavor.get("ephemeral_gb"):
        rows.append(Disk("", "empty disk of its size", f"{instance.flavor['ephemeral_gb']} GiB"))
    if instance.flavor.get("swap_mb"):
        rows.append(Disk("", "swap space", f"{instance.flavor['swap_mb']} MiB"))
    return rows


def _local(device: BlockDevice) -> Disk:
    swap = device.guest_format == "swap"
    size = f"{device.size} {'MiB' if swap else 'GiB'}" if device.size else ""
    name = device.device_name
    return Disk(name, "swap space" if swap else "empty disk on its host", size, target=name.removeprefix("/dev/"))


def _of_volume(device: BlockDevice, volume: Volume | None, *, can_detach: bool) -> Disk:
    return Disk(
        device=device.device_name,
        what=str(volume) if volume else "a volume",
        size=f"{volume.size_gb} GiB" if volume else "",
        volume=volume,
        status=statuses.volume_status(volume.status) if volume else None,
        goes=device.delete_on_termination,
        can_detach=can_detach and volume is not None and not device.leaving,
        target=device.device_name.removeprefix("/dev/"),
    )


def _guide(device: BlockDevice, volume: Volume, *, unique: bool, is_new: bool, mounted: Mapping[str, str]) -> Guide:
    """Return the commands for the disk; ``unique``: no other volume of the server has its name; ``mounted``: serial
    number → directory where the user data mounts it.
    """
    directory = mounted.get(str(volume.id)[:SHOWN_SERIAL], "")
    name = volume.name if unique else f"{volume.name[:20]}-{str(volume.id)[:8]}"
    bus = device.disk_bus or "virtio"
    return guide_for(str(volume.id), name, bus, is_root=device.is_root, is_new=is_new, directory=directory)


def _volumes(context: RequestContext, devices: Iterable[BlockDevice]) -> Mapping[uuid.UUID, Volume]:
    ids = [device.volume_id for device in devices if device.volume_id]
    if not ids:
        return {}
    return {row.id: row for row in volumes.visible_volumes(context, all_projects=True).filter(id__in=ids)}


class DiskFigures(Page):
    """The hypervisor's current counters of a server's disks, for the open page; empty if they are unavailable."""

    section = "instances"
    rule = SEES

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        """Return the policy target of the server, which must be in this project. Raises NotFoundError."""
        instance = compute.instance_for(self.context, kwargs["instance_id"])
        return {"project_id": instance.project_id, "user_id": instance.user_id}

    def get(self, request: HttpRequest, instance_id: uuid.UUID) -> HttpResponse:
        try:
            disks: list[DiskDiagnostics] = diagnostics(self.context, instance_id).disks
        except NovellaError:
            disks = []
        return self.part("dashboard/instances/_disk_figures.html", {"disks": [disk for disk in disks if disk.target]})
