"""Which host bears a router's own external address."""

from collections.abc import Sequence

from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network.marks import mark
from provisioning.network.models import Router


def bearer(router: Router, hosts: Sequence[Host]) -> str:
    """Return the name of the host: the one that did, while it is among ``hosts`` and alive or no other is.

    Recorded at the router, whose floating IPs are marked when it changes.  Empty when there are no hosts.
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
