"""Volumes, attachments and pools: the records compared with each other."""

import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from django.db.models import Count, Model, Q, QuerySet
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.common.tasks import TASKS
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.states import VmState
from provisioning.doctor.finding import Finding, check, number
from provisioning.doctor.repairs import alone
from provisioning.volumes.models import Attachment, PoolClaim, PoolHost, StoragePool, Volume
from provisioning.volumes.pools import placement
from provisioning.volumes.selectors.gauges import by_project
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.state_machine import state

BATCH = 1000
"""Volumes that are compared with their attachments in one step."""
LONG_PAST = timedelta(minutes=5)
"""Time after its deadline at which the reaper must have ended a task."""
MOST_LISTED = 20
"""Maximum number of unknown volumes that are listed for one pool."""


@check("volumes")
def volumes() -> Iterator[Finding]:
    """Find volumes whose status does not match their attachments, and tasks without a deadline or long past it."""
    resting = Volume.objects.filter(status__in=state.RESTING).order_by("id").iterator(chunk_size=BATCH)
    while batch := list(islice(resting, BATCH)):
        yield from _unsettled(batch)
    for model in TASKS.models():
        yield from _endless(model, timezone.now() - LONG_PAST)


def _endless(model: type[Model], late: datetime) -> Iterator[Finding]:
    """Find records with a task that has no deadline, or that is long past it."""
    busy = model._default_manager.filter(status__in=TASKS.statuses(model))
    rows = busy.filter(Q(deadline=None) | Q(deadline__lt=late)).order_by("pk")
    for key, status, deadline in rows.values_list("pk", "status", "deadline"):
        over = "without a deadline" if deadline is None else f"past {deadline:%Y-%m-%d %H:%M:%S}"
        evidence = (status, deadline)
        yield Finding("error", f"{model._meta.verbose_name} {key}", f"It is {status}, {over}.", evidence=evidence)


def _unsettled(batch: Sequence[Volume]) -> Iterator[Finding]:
    should_be = state.at_rest_of([volume.id for volume in batch])
    for volume in batch:
        should = should_be[volume.id]
        if volume.status != should:
            sentence = f"It is {volume.status}, but by its attachments it should be {should}."
            repair = alone(lambda key=volume.id: _settle(key))  # type: ignore[misc]
            yield Finding("error", as_subject(volume), sentence, "Correct the status.", repair, volume.version)


def _settle(volume_id: uuid.UUID) -> str | None:
    volume = state.lock([volume_id]).get(volume_id)
    if volume is None or volume.status not in state.RESTING or volume.status == state.at_rest(volume):
        return None
    state.settle(volume)
    return f"It is now {volume.status}."


@check("attachments")
def lost_attachments() -> Iterator[Finding]:
    """Find attachments to deleted servers that no longer have an allocation on a host."""
    there = Instance.objects.exclude(vm_state=VmState.DELETED, allocation=None).values("id")
    rows = Attachment.objects.exclude(instance_id=None).exclude(instance_id__in=there).select_related("volume")
    for row in rows.order_by("id"):
        sentence = f"It is {row.status} for the server {row.instance_id}, which was deleted."
        repair = alone(lambda row=row: _release(row))  # type: ignore[misc]
        yield Finding("error", as_subject(row.volume), sentence, "Delete the attachment.", repair, (row.id, row.status))


def _release(row: Attachment) -> str | None:
    there = Instance.objects.filter(id__in=[row.instance_id]).exclude(vm_state=VmState.DELETED, allocation=None)
    over = not there.exists()
    if not over or not Attachment.objects.filter(id=row.id).exists():
        return None
    attachments.release(row.id)
    return "The attachment was deleted."


@check("block_devices")
def block_devices() -> Iterator[Finding]:
    """Find block devices whose attachment is missing, and attachments without a block device of their server.

    Attachments that were created with the Block Storage API have a connector and no block device.
    """
    for disk in LOOSE():
        sentence = f"Its disk {disk.device_name or disk.volume_id} has an attachment that no longer exists. Detach it."
        yield Finding("error", f"instance {disk.instance_id}", sentence, evidence=disk.attachment_id)
    for row in DISKLESS():
        sentence = f"It is {row.status} for the server {row.instance_id}, which has no such disk."
        repair = alone(lambda key=row.id: _release_diskless(key))  # type: ignore[misc]
        yield Finding("error", as_subject(row.volume), sentence, "Delete the attachment.", repair, (row.id, row.status))


def _diskless() -> QuerySet[Attachment]:
    """Return attachments of existing servers without a block device, unless a volume migration needs them."""
    rows = Attachment.objects.filter(instance_id__in=Instance.objects.values("id"), host__isnull=False, connector={})
    rows = rows.filter(volume__migration_of=None)
    mine = BlockDevice.objects.exclude(attachment_id=None).values("attachment_id")
    coming = BlockDevice.objects.exclude(swap_attachment_id=None).values("swap_attachment_id")
    return rows.exclude(id__in=mine).exclude(id__in=coming)


LOOSE = Prepared(
    lambda: (
        BlockDevice.objects.exclude(attachment_id=None)
        .exclude(attachment_id__in=Attachment.objects.values("id"))
        .order_by("id")
    )
)
DISKLESS = Prepared(lambda: _diskless().select_related("volume").order_by("id"))


def _release_diskless(attachment_id: uuid.UUID) -> str | None:
    if not _diskless().filter(id=attachment_id).exists():
        return None
    attachments.release(attachment_id)
    return "The attachment was deleted."


@check("pool_counters")
def pool_counters() -> Iterator[Finding]:
    """Find pools whose counter differs from the sum of their volumes."""
    pools = list(StoragePool.objects.order_by("name", "id"))
    sums = placement.sums([pool.id for pool in pools])
    for pool in pools:
        if pool.allocated_gb != sums[pool.id]:
            sentence = (
                f"It counts {pool.allocated_gb} GiB; its volumes, deleted ones included, have {sums[pool.id]} GiB."
            )
            repair = alone(lambda key=pool.id: _recount(key))  # type: ignore[misc]
            evidence = (pool.allocated_gb, sums[pool.id])
            yield Finding("error", f"pool {pool.name}", sentence, "Count again.", repair, evidence)


def _recount(pool_id: uuid.UUID) -> str | None:
    pool = StoragePool.objects.select_for_update().filter(id=pool_id).first()
    if pool is None or pool.allocated_gb == (should := placement.sums([pool_id])[pool_id]):
        return None
    StoragePool.objects.filter(id=pool_id).update(allocated_gb=should)
    return f"It now counts {should} GiB."


@check("deleted_volumes")
def deleted_volumes() -> Iterator[Finding]:
    """Report how much data of deleted volumes each pool keeps, for each project."""
    for pool in StoragePool.objects.filter(deleted_data__size_gb__gt=0).distinct().order_by("name", "id"):
        amounts = by_project(pool)
        whose = [
            f"project {key.hex} {gb} GiB" if key else f"of unknown projects {gb} GiB" for key, gb in amounts.items()
        ]
        more = f", and {len(whose) - MOST_LISTED} more" if len(whose) > MOST_LISTED else ""
        sentence = (
            f"It keeps {sum(amounts.values())} GiB of deleted volumes that clones need, counted in their quotas:"
            f" {', '.join(whose[:MOST_LISTED])}{more}."
        )
        yield Finding("note", f"pool {pool.name}", sentence, evidence=tuple(amounts.items()))


@check("pools", at_once=True)
def pools() -> Iterator[Finding]:
    """Find pools with volumes that no host serves, and the warnings of hosts about their pools."""
    served: dict[uuid.UUID, list[PoolHost]] = {}
    for each in PoolHost.objects.select_related("host").order_by("host__name"):
        served.setdefault(each.pool_id, []).append(each)
    for pool in StoragePool.objects.annotate(many=Count("volumes")).order_by("name", "id"):
        if pool.warning:
            yield Finding("warning", f"pool {pool.name}", pool.warning, evidence=pool.warning)
        if pool.doubt:
            sentence = f"It is disabled. {pool.doubt} To use it for volumes: manage.py storage_pools {pool.id} --enable"
            yield Finding("warning", f"pool {pool.name}", sentence, evidence=str(pool.id))
        yield from _hosts(pool, served.get(pool.id, []), pool.many)
    for claim in PoolClaim.objects.select_related("pool", "host").order_by("pool__name", "host__name"):
        sentence = (
            f"Host {claim.host.name} claims it, but cannot prove that it reaches its storage. To let that host serve"
            f" it: manage.py storage_pools {claim.pool_id} --admit {claim.host.name}"
        )
        yield Finding("warning", f"pool {claim.pool.name}", sentence, evidence=str(claim.host_id))


def _hosts(pool: StoragePool, served: Sequence[PoolHost], many: int) -> Iterator[Finding]:
    """Find faults of the hosts that serve a pool with ``many`` volumes."""
    subject, names = f"pool {pool.name}", ", ".join(each.host.name for each in served)
    for each in served:
        if each.warning not in ("", pool.warning):
            text = f"{each.host.name} reports: {each.warning}"
            yield Finding("warning", subject, f"Host {text}", evidence=text)
    if not many:
        return
    volumes = f"{number(many, 'volume')} {'is' if many == 1 else 'are'} in it"
    if not served:
        yield Finding("error", subject, f"No host serves it; {volumes}.", evidence="nobody")
    elif all(each.host.forced_down for each in served):
        sentence = f"It is on host {names}, which is forced down: {number(many, 'volume')} cannot be reached."
        yield Finding("warning", subject, sentence, evidence="forced down")
    elif not any(each.serving for each in served):
        sentence = f"Host {names} does not serve it now; {volumes}. Its directory may not be mounted there."
        yield Finding("error", subject, sentence, evidence="not served")


def as_subject(volume: Volume) -> str:
    return f"volume {volume.id}"
