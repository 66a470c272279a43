"""Volumes in guests: the disks that hosts report for their guests, compared with the recorded attachments."""

from collections.abc import Iterator

from django.utils import timezone

from compute_agent.contract.messages import SERVER
from compute_agent.contract.volume import VOLUME, GuestVolumes, GuestVolumesCall
from provisioning.common.errors import UnavailableError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute.models import Instance
from provisioning.compute.upkeep import strange_disks
from provisioning.doctor.finding import Finding, check
from provisioning.hosts import calls
from provisioning.hosts.commands import unfinished
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import alive
from provisioning.volumes.models import Attachment, PoolHost
from provisioning.volumes.state_machine import state
from provisioning.volumes.states import AttachStatus

PATIENCE = 10.0
"""Seconds for a host to list its guests' disks."""
TAKEN_OUT = "Stop and start the server."
LEFT_ALONE = "It is not touched: the records may be lost. Detach it inside the guest, then stop and start the server."


@check("guest_volumes")
def guest_volumes() -> Iterator[Finding]:
    """Ask hosts for the volumes of their guests, and compare them with the attachments.

    Hosts that only use fake pools are skipped.
    """
    real = PoolHost.objects.exclude(pool__driver="fake")
    using = Attachment.objects.exclude(volume__pool__driver="fake").exclude(host=None)
    hosts = Host.objects.filter(id__in=real.values("host_id")) | Host.objects.filter(id__in=using.values("host_id"))
    for host in hosts.filter(alive(timezone.now()), connected=True).distinct().order_by("name"):
        try:
            answer = calls.call(host.id, GuestVolumesCall(), PATIENCE)
        except UnavailableError:
            continue
        if isinstance(answer, GuestVolumes):
            yield from _of_host(host, answer)


def _of_host(host: Host, reported: GuestVolumes) -> Iterator[Finding]:
    rows = Instance.objects.filter(host_id=host.id, id__in=[key for key in map(read_id, reported.guests) if key])
    for row in rows.filter(task_state=None).order_by("id"):
        if unfinished(SERVER, row.id).exists():
            continue
        attached = Attachment.objects.filter(instance_id=row.id).select_related("volume")
        by_volume = {str(each.volume_id): each for each in attached}
        has = set(reported.guests[str(row.id)])
        for key in sorted(has - by_volume.keys()):
            owner = Attachment.objects.filter(volume_id=read_id(key) or NOBODY).first()
            whose = (
                f"; according to the records it is attached to the server {owner.instance_id}"
                if owner is not None
                else ""
            )
            sentence = f"Its guest on host {host.name} has the volume {key} without an attachment{whose}."
            evidence = (key, str(owner.instance_id) if owner is not None else "")
            way = TAKEN_OUT if strange_disks.was_given(row, read_id(key) or NOBODY) else LEFT_ALONE
            yield Finding("error", f"instance {row.id}", f"{sentence} {way}", evidence=evidence)
        for key in sorted(by_volume.keys() - has):
            if _is_settled(by_volume[key]):
                sentence = f"Its guest on host {host.name} does not have the volume {key}, which is attached to it."
                yield Finding("error", f"instance {row.id}", f"{sentence} Detach and attach it again.", evidence=key)


def _is_settled(attachment: Attachment) -> bool:
    """Return whether the guest must have the disk: it is attached, and no operation on the volume is running."""
    if attachment.status != AttachStatus.ATTACHED or attachment.volume.status not in state.RESTING:
        return False
    return not unfinished(VOLUME, attachment.volume_id).exists()
