"""Chooses the host that holds a router's external address."""

from collections.abc import Sequence

from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network.marks import mark
from provisioning.network.models import Router


def bearer(router: Router, hosts: Sequence[Host]) -> str:
    """Return the host's name: the previous one while it is in ``hosts`` and either is alive or no other host is.

    A change is written to ``router.host``, and the router's floating IPs are marked.  Empty if there are no hosts.
    """
    now = timezone.now()
    alive = [host.name for host in hosts if is_alive(host, now)]
    names = alive or [host.name for host in hosts]
    wanted = router.host if router.host in names else min(names, default="")
    if wanted != router.host:
        Router.objects.filter(id=router.id).update(host=wanted)
        router.host = wanted
        mark(FLOATING_IP, router.floating_ips.values_list("id", flat=True))
    return wanted
