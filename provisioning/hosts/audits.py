"""Audits by hosts: resources, cached images, guests and leftovers."""

import re
import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice

from django.db import IntegrityError, transaction
from django.utils import timezone

from compute_agent.contract.cpu import Cpu, RunningCpu
from compute_agent.contract.messages import MOST_REPAIRS, GuestState, Owned, ResourceAudit, Tracking
from compute_agent.contract.volume import KnownVolume, PoolState
from provisioning.common.database.retry import when_broken_off
from provisioning.common.sqlite import remote_hosts
from provisioning.common.values.ids import read_id
from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.common.values.text import one_line
from provisioning.hosts import addresses, leftovers
from provisioning.hosts.models import CachedImage, Host
from provisioning.hosts.subjects import HANDLERS
from provisioning.scheduler.cpu import FEATURES, MODEL, VENDOR

MOST_WARNINGS = 20
MOST_TRAITS = 1000
TRAIT = re.compile(r"[A-Z0-9_]{1,255}")
"""The format of a trait's name."""

MOST_IMAGES = 1000
"""Limit of recorded images for each host."""

MOST_FEATURES = 1000
_CPU_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def audit(host_id: uuid.UUID, report: ResourceAudit, link: str = "") -> None:
    """Record a host's audit, and compare its guests, volumes and documents with the records.

    ``link`` is the source address of the agent's connection, empty if unknown.
    """
    address = addresses.record(host_id, report.host_ip, link)
    remote_hosts.note_remote_host(report.host_ip)
    known = Host.objects.filter(id=host_id).update(
        last_seen_at=timezone.now(),
        vcpus_total=_amount(report.vcpus),
        memory_mb_total=_amount(report.memory_mb),
        disk_gb_total=_amount(report.disk_gb),
        memory_mb_used=_amount(report.memory_mb_used),
        disk_gb_used=_amount(report.disk_gb_used),
        running_vms=_amount(report.running_vms),
        hypervisor_type=one_line(report.hypervisor_type, 40),
        hypervisor_version=_amount(report.hypervisor_version),
        hypervisor_hostname=one_line(report.hypervisor_hostname, 255),
        architecture=one_line(report.architecture, 40),
        cpu_info=_cpu_info(report),
        cached_images=[one_line(name, 255) for name in report.cached_images[:1000]],
        uptime=one_line(report.uptime, 255),
        tracking=_tracking(report.tracking),
        **_condition(report, address.warnings),
        **_traits(report.traits),
    )
    if known:
        record_images(host_id, report.cached_images)
    if known and report.volumes is not None:  # first, as in Hello
        compare_volumes(host_id, report.volumes)
    compare(host_id, report.guests, complete=False)
    if address.moved:
        with transaction.atomic():
            for handler in HANDLERS:
                handler.moved(host_id)
    if known and report.documents is not None:
        compare_documents(host_id, report.documents, complete=False)
    if known and report.pools is not None:
        record_pools(host_id, report.pools)
    if known and report.cpus is not None:
        record_cpus(host_id, report.cpus)
    if known:
        leftovers.record_audit(host_id, report)


def _condition(report: ResourceAudit, more: Sequence[str]) -> dict[str, object]:
    """Return the columns for the host's warnings (warnings in ``more`` come first) and repairs.

    If the agent reports neither, return no column, or only the warnings in ``more``.
    """
    if report.warnings is None:
        return {"warnings": [*more]} if more else {}
    repairs = [{"at": _amount(each.at), "what": one_line(each.what, 255)} for each in report.repairs[-MOST_REPAIRS:]]
    warnings = [one_line(text, 500) for text in [*more, *report.warnings][:MOST_WARNINGS]]
    return {"warnings": warnings, "repairs": repairs}


def _traits(traits: Sequence[str] | None) -> dict[str, object]:
    """Return the column for the host's traits, sorted; no column if its agent does not report them."""
    if traits is None:
        return {}
    return {"traits": sorted({name for name in traits[:MOST_TRAITS] if TRAIT.fullmatch(name)})}


def _cpu_info(report: ResourceAudit) -> dict[str, str]:
    """Return the host's processor, and the processor that it can offer to guests."""
    result = {one_line(name, 40): one_line(value, 4096) for name, value in islice(report.cpu_info.items(), 50)}
    if report.guest_cpu is None:
        return result
    cpu = plausible_cpu(report.guest_cpu)
    return result | {MODEL: cpu.model, VENDOR: cpu.vendor, FEATURES: ",".join(cpu.features)}


def _tracking(tracking: Tracking | None) -> dict[str, object]:
    """Return the host's connection tracking (``Host.tracking``); empty if its agent does not report it."""
    if tracking is None:
        return {}
    amounts = {name: _amount(getattr(tracking, name)) for name in ("entries", "limit", "share", "largest")}
    return {**amounts, "port": str(read_id(tracking.port) or "")}


@when_broken_off
def record_pools(host_id: uuid.UUID, pools: Sequence[PoolState]) -> None:
    """Pass the pools that a host serves to the handlers."""
    with transaction.atomic():
        for handler in HANDLERS:
            handler.record_pools(host_id, pools)


@when_broken_off
def record_cpus(host_id: uuid.UUID, cpus: Sequence[RunningCpu]) -> None:
    """Pass the processors of a host's running guests to the handlers."""
    with transaction.atomic():
        for handler in HANDLERS:
            handler.record_cpus(host_id, cpus)


@when_broken_off
def compare(host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
    """Let every handler reconcile its records with a host's guests; ``complete`` as in ``SubjectHandler``."""
    with transaction.atomic():
        for handler in HANDLERS:
            handler.compare(host_id, guests, complete=complete)


@when_broken_off
def compare_documents(host_id: uuid.UUID, documents: Sequence[Owned], *, complete: bool) -> None:
    """Let every handler check that the host has the newest documents that were sent to it."""
    by_kind: defaultdict[str, dict[uuid.UUID, Owned]] = defaultdict(dict)
    for each in documents:
        key = read_id(each.subject_id)
        if key is not None:
            by_kind[each.subject_kind][key] = each
    with transaction.atomic():
        for handler in HANDLERS:
            handler.compare_documents(host_id, by_kind[handler.kind], complete=complete)


@when_broken_off
def compare_volumes(host_id: uuid.UUID, volumes: Sequence[KnownVolume]) -> None:
    """Let the handlers check whether the host has seen newer changes of volumes than the records."""
    with transaction.atomic():
        for handler in HANDLERS:
            handler.compare_volumes(host_id, volumes)


def _amount(value: int) -> int:
    return max(0, min(value, MAX_INTEGER))


def record_images(host_id: uuid.UUID, names: Iterable[str]) -> None:
    """Record a host's cached images; names that are not image ids are ignored, and so is a host that was deleted."""
    has = {parsed for text in islice(names, MOST_IMAGES) if (parsed := read_id(text)) is not None}
    rows = CachedImage.objects.filter(host_id=host_id)
    known = set(rows.values_list("image_id", flat=True))
    gone, new = known - has, has - known
    if gone:
        rows.filter(image_id__in=gone).delete()
    if new:
        try:
            with transaction.atomic():
                CachedImage.objects.bulk_create(
                    [CachedImage(host_id=host_id, image_id=image_id) for image_id in sorted(new)],
                    ignore_conflicts=True,
                )
        except IntegrityError:
            return


def plausible_cpu(cpu: Cpu) -> Cpu:
    """Return a reported processor without names that no libvirt reports."""
    features = sorted({name for name in cpu.features[:MOST_FEATURES] if _CPU_NAME.fullmatch(name)})
    model, vendor = (text if _CPU_NAME.fullmatch(text) else "" for text in (cpu.model, cpu.vendor))
    return Cpu(model, vendor, features)
