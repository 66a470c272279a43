"""Records the processors of running guests."""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping

from compute_agent.contract.cpu import MOST_CPUS, Cpu, RunningCpu
from provisioning.common.values.ids import read_id
from provisioning.cpus.models import GuestProcessor, Processor
from provisioning.hosts.audits import plausible_cpu

UNPURGED = {
    "cpus.Processor": "Deleted with its last guest.",
    "cpus.GuestProcessor": "At most one for each running guest.",
}
UNLIMITED = {
    "cpus.Processor": "At most one for each running guest.",
    "cpus.GuestProcessor": "At most one for each running guest.",
}


def by_guest(reported: Iterable[RunningCpu]) -> dict[uuid.UUID, Cpu]:
    """Return guest → its reported processor."""
    result: dict[uuid.UUID, Cpu] = {}
    for each in [*reported][:MOST_CPUS]:
        cpu = plausible_cpu(each.cpu)
        result |= {key: cpu for text in each.guests if (key := read_id(text)) is not None}
    return result


def record(host_id: uuid.UUID, guests: Mapping[uuid.UUID, Cpu]) -> None:
    """Record the processors of a host's running guests, inside the caller's transaction. One query if none changed."""
    digests = {key: _digest(cpu) for key, cpu in guests.items()}
    known = dict(GuestProcessor.objects.filter(host_id=host_id).values_list("instance_id", "processor_id"))
    if known == digests:
        return
    changed = {key: digest for key, digest in digests.items() if known.get(key) != digest}
    rows = {
        digests[key]: Processor(digest=digests[key], model=cpu.model, vendor=cpu.vendor, features=cpu.features)
        for key, cpu in guests.items()
        if key in changed
    }
    Processor.objects.bulk_create(rows.values(), ignore_conflicts=True)
    GuestProcessor.objects.filter(host_id=host_id, instance_id__in=known.keys() - digests.keys()).delete()
    GuestProcessor.objects.bulk_create(
        [GuestProcessor(instance_id=key, host_id=host_id, processor_id=digest) for key, digest in changed.items()],
        update_conflicts=True,
        unique_fields=["instance_id"],
        update_fields=["host_id", "processor"],
    )
    Processor.objects.filter(guests=None).exclude(digest__in=set(digests.values())).delete()


def _digest(cpu: Cpu) -> str:
    return hashlib.sha256(json.dumps([cpu.model, cpu.vendor, cpu.features]).encode()).hexdigest()
