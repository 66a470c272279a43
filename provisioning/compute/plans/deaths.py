"""The effect of the death of each host on its servers."""

from collections import Counter
from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.plans.moves import Plan, plan_hosts
from provisioning.hosts.models import Host
from provisioning.identity import policy

WAY = Evacuate.key


@dataclass(frozen=True, slots=True)
class HostDeath:
    """The numbers of a host's servers that would be built on other hosts, could not, or would break their server group;
    ``reason`` is the most frequent one of those that could not.
    """

    host: Host
    going: int
    staying: int
    apart: int
    reason: str = ""

    @property
    def total(self) -> int:
        return self.going + self.staying + self.apart


def deaths_for(context: RequestContext) -> list[HostDeath]:
    """Return the answer for each host with servers, the worst first; each as if only this host died.

    Reads the records with a number of queries that does not grow with the hosts. Raises ForbiddenError.
    """
    policy.enforce(context, Evacuate.rule)
    hosts = list(Host.objects.filter(instances_allocated__gt=0).order_by("name"))
    plans = plan_hosts(hosts, [WAY], host_up=False)
    found = [_death(host, plans[host.id]) for host in hosts if plans[host.id].moves]
    return sorted(found, key=lambda each: (-each.staying, -each.apart, each.host.name))


def _death(host: Host, plan: Plan) -> HostDeath:
    reasons = Counter(move.reason for move in [*plan.staying, *plan.apart])
    [(reason, _)] = reasons.most_common(1) or [("", 0)]
    return HostDeath(host, len(plan.going), len(plan.staying), len(plan.apart), reason)
