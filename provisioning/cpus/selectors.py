"""Processors of guests and hosts, and the baseline."""

import uuid
from collections.abc import Collection

from django.db.models import QuerySet

from provisioning.cpus.models import GuestProcessor
from provisioning.hosts.models import Host
from provisioning.scheduler.cpu import GuestCpu, cpu_in


def processors_of(instance_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, GuestCpu]:
    """Return guest → the processor that it was started with, for guests that run and were reported."""
    rows = GuestProcessor.objects.filter(instance_id__in=instance_ids).select_related("processor")
    shared: dict[str, GuestCpu] = {}
    result = {}
    for row in rows:
        cpu = row.processor
        result[row.instance_id] = shared.setdefault(row.processor_id, GuestCpu(frozenset(cpu.features), cpu.vendor))
    return result


def offered_by(host: Host) -> GuestCpu:
    """Return the processor that a host can offer; without features if its agent does not report one."""
    return cpu_in(host.cpu_info)


def common_features(hosts: QuerySet[Host]) -> list[str] | None:
    """Return the features that all of these hosts offer, sorted. Hosts that do not report theirs are ignored; None if
    none reports them.
    """
    infos = hosts.exclude(cpu_info={}).order_by().values_list("cpu_info", flat=True)
    known = [features for info in infos if (features := cpu_in(info).features)]
    return sorted(frozenset.intersection(*known)) if known else None
