"""The effect of the death of each host on its servers."""

import threading
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from django.db.models import Count, Max, Sum

from provisioning.common.context import RequestContext
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.models import Aggregate, AggregateHost, BlockDevice, Instance, ServerGroup
from provisioning.compute.plans.moves import Plan, plan_hosts
from provisioning.compute.selectors.host_rows import host_states
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.volumes.models import StoragePool

WAY = Evacuate.key
CACHED_FOR = 300.0
"""Seconds after which an answer is computed again although no change was seen."""


@dataclass(frozen=True, slots=True)
class HostDeath:
    """The effect of a host's death: the number of its servers that would be built on other hosts, that would not, and
    that would break the policy of their server group. ``reason`` is the most frequent reason of those that would not.
    """

    host: Host
    going: int
    staying: int
    apart: int
    reason: str = ""

    @property
    def total(self) -> int:
        return self.going + self.staying + self.apart


def deaths_for(context: RequestContext) -> Sequence[HostDeath]:
    """Return for each host that has servers the effect of its death, the worst first. Each effect is computed as if
    only this host died.

    An answer is kept in this process until hosts, servers, images or attachments change, for at most ``CACHED_FOR``
    seconds. Reads the records with a number of queries that does not grow with the hosts. Raises ForbiddenError.
    """
    policy.enforce(context, Evacuate.rule)
    return _answer.get()


class _Answer:
    """The last answer, with the state of the records from which it was computed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._from: Hashable = None
        self._until = 0.0
        self._found: Sequence[HostDeath] = ()

    def get(self) -> Sequence[HostDeath]:
        """Return the answer, computed again if necessary; concurrent callers wait for one computation."""
        with self._lock:
            now, seen = time.monotonic(), _seen()
            if self._from != seen or now > self._until:
                self._found = _computed()
                self._from, self._until = seen, now + CACHED_FOR
            return self._found


_answer = _Answer()


def _seen() -> Hashable:
    """Return the state that the answer depends on: the hosts as the scheduler sees them, and the changes of all other
    records.
    """
    servers = Instance.objects.filter(deleted_at=None)
    parts = (
        servers.aggregate(Count("id"), Sum("version"), Max("updated_at")),
        ServerGroup.objects.aggregate(Count("id")),
        AggregateHost.objects.aggregate(Count("id"), Max("id")),
        Image.objects.aggregate(Count("id"), Max("updated_at")),
        BlockDevice.objects.aggregate(Count("id"), Max("id")),
        list(StoragePool.objects.order_by("id", "hosts").values_list("id", "hosts")),
    )
    hardware = list(Host.objects.order_by("id").values_list("id", "traits", "custom_traits", "cpu_info"))
    zones = list(Aggregate.objects.order_by("id").values_list("id", "availability_zone", "metadata"))
    return repr(([host[:-1] for host in host_states()], hardware, zones, parts))


def _computed() -> Sequence[HostDeath]:
    hosts = list(Host.objects.filter(instances_allocated__gt=0).order_by("name"))
    plans = plan_hosts(hosts, [WAY], host_up=False)
    deaths = [_death(host, plans[host.id]) for host in hosts if plans[host.id].moves]
    return tuple(sorted(deaths, key=lambda each: (-each.staying, -each.apart, each.host.name)))


def _death(host: Host, plan: Plan) -> HostDeath:
    reasons = Counter(move.reason for move in [*plan.staying, *plan.apart])
    [(reason, _)] = reasons.most_common(1) or [("", 0)]
    return HostDeath(host, len(plan.going), len(plan.staying), len(plan.apart), reason)
