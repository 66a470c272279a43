"""Hosts that no longer send samples, and samples that were rejected."""

from collections.abc import Iterator
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.doctor.finding import Finding, check
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import alive
from provisioning.measures.models import Rejection
from provisioning.measures.selectors import stale_hosts

STALE_AFTER = 300
"""Seconds without samples of a host that is up."""
SHOWN_FOR = timedelta(hours=1)
_REJECTED = Prepared(lambda: Rejection.objects.order_by("host_id"))


@check("samples")
def samples() -> Iterator[Finding]:
    """Find hosts that are up and have stopped sending samples, and hosts whose samples were rejected recently."""
    if not settings.MEASURES:
        return
    now = timezone.now()
    names = dict(Host.objects.filter(alive(now)).order_by("name").values_list("id", "name"))
    stale = stale_hosts(names, now.timestamp(), STALE_AFTER)
    for host_id, name in names.items():
        if host_id in stale:
            sentence = "It is up, but has sent no samples for five minutes: its graphs have a gap."
            yield Finding("warning", f"host {name}", sentence)
    for rejection in _REJECTED():
        if rejection.at >= now - SHOWN_FOR and rejection.host_id in names:
            sentence = f"Samples that it sent were rejected: {rejection.reason}"
            yield Finding("warning", f"host {names[rejection.host_id]}", sentence, evidence=rejection.reason)
