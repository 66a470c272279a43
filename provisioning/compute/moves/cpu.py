"""The processor of a server that moves while it runs.

A guest keeps the processor with which it was started, so a live migration needs a host that has all its features. A
guest that is started on the other host gets that host's processor and needs nothing.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from provisioning.compute.models import Instance
from provisioning.cpus.selectors import offered_by, processors_of
from provisioning.scheduler import RequestSpec
from provisioning.scheduler.cpu import UNKNOWN, GuestCpu


def cpu_of(instance: Instance, known: Mapping[uuid.UUID, GuestCpu] | None = None) -> GuestCpu:
    """Return the processor that the running guest was started with.

    If its host has not reported it yet, return the processor that the host offers to guests. ``known``: the processors
    of several servers (``processors_of``), if the caller has read them.
    """
    processors = processors_of([instance.id]) if known is None else known
    if instance.id in processors:
        return processors[instance.id]
    return offered_by(instance.host) if instance.host is not None else UNKNOWN


def with_cpu(spec: RequestSpec, instance: Instance, known: Mapping[uuid.UUID, GuestCpu] | None = None) -> RequestSpec:
    """Return the request with the processor of the running guest, which ``CpuFeaturesFilter`` requires of hosts."""
    cpu = cpu_of(instance, known)
    return replace(spec, cpu_features=cpu.features, cpu_vendor=cpu.vendor)


def with_cpus(servers: Sequence[Instance]) -> Callable[[RequestSpec, Instance], RequestSpec]:
    """Return ``with_cpu`` for several running servers, with one query for all."""
    known = processors_of([server.id for server in servers])
    return lambda spec, server: with_cpu(spec, server, known)
