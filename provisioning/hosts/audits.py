"""What a host says it has and uses: measured amounts, images in its cache, guests, leftovers."""

import uuid
from collections.abc import Sequence
from itertools import islice

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.messages import GuestState, ResourceAudit
from provisioning.common.numbers import MAX_INTEGER
from provisioning.common.retry import when_broken_off
from provisioning.common.text import one_line
from provisioning.hosts import cached_images, leftovers
from provisioning.hosts.models import Host
from provisioning.hosts.subjects import handlers


def audit(host_id: uuid.UUID, report: ResourceAudit) -> None:
    """Record what the host has and uses, and compare its guests with the records."""
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
        host_ip=one_line(report.host_ip, 45),
        cpu_info={one_line(name, 40): one_line(said, 4096) for name, said in islice(report.cpu_info.items(), 50)},
        cached_images=[one_line(name, 255) for name in report.cached_images[:1000]],
        uptime=one_line(report.uptime, 255),
    )
    if known:
        cached_images.keep(host_id, report.cached_images)
    compare(host_id, report.guests, complete=False)
    if known:
        leftovers.take(host_id, report)


@when_broken_off
def compare(host_id: uuid.UUID, guests: Sequence[GuestState], *, complete: bool) -> None:
    """Let every service bring its records and what a host has together; ``complete`` as in ``SubjectHandler``."""
    with transaction.atomic():
        for handler in handlers():
            handler.compare(host_id, guests, complete=complete)


def _amount(value: int) -> int:
    return max(0, min(value, MAX_INTEGER))
