"""Chooses the host that holds a router's external address."""

from collections.abc import Sequence

from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network.models import Router
from provisioning.network.records.marks import mark


def bearer(router: Router, hosts: Sequence[Host]) -> str:
    """Choose the host that has a router's external address; return its name, or "" if there are no hosts.

    The previous host is kept while it is in ``hosts``, unless it is down and another host is up. A change is written to
    ``router.host``, and the router's floating IPs are marked.
    """
    now = timezone.now()
    alive = [host.name for host in hosts if is_alive(host, now)]
    names = alive or [host.name for host in hosts]
    chosen = router.host if router.host in names else min(names, default="")
    if chosen != router.host:
        Router.objects.filter(id=router.id).update(host=chosen)
        router.host = chosen
        mark(FLOATING_IP, router.floating_ips.values_list("id", flat=True))
    return chosen
