"""The processor features that guests get from their next start (``NOVELLA_CPU_BASELINE``)."""

import uuid

from django.conf import settings

from provisioning.compute.models import AggregateHost
from provisioning.cpus.selectors import common_features
from provisioning.hosts.models import Host

MARK = "cpu_baseline"
"""Key of an aggregate's metadata: ``true`` if its hosts share a baseline."""


def baseline_of(host_id: uuid.UUID | None, zone: str) -> list[str] | None:
    """Return the features of a guest on a host in a zone, sorted; None: all that its host offers."""
    if settings.CPU_BASELINE == "host":
        return None
    hosts = Host.objects.all()
    if settings.CPU_BASELINE == "zone":
        hosts = hosts.filter(availability_zone=zone)
    elif settings.CPU_BASELINE == "aggregate":
        marked = _marked(host_id) if host_id is not None else []
        if not marked:
            return None
        hosts = hosts.filter(id__in=AggregateHost.objects.filter(aggregate__in=marked).values("host"))
    return common_features(hosts)


def _marked(host_id: uuid.UUID) -> list[int]:
    rows = AggregateHost.objects.filter(host=host_id).values_list("aggregate_id", "aggregate__metadata")
    return [key for key, metadata in rows if str(metadata.get(MARK, "")).lower() == "true"]
