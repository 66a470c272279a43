"""Which servers are to be near each other and which apart: hints that name servers, and groups of servers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from provisioning.scheduler.condition import Filter, have, hosts_in_words
from provisioning.scheduler.spec import GroupSpec, HostState, RequestSpec
from provisioning.scheduler.weighers import Weigher

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = "soft-affinity", "soft-anti-affinity"


class SameHostFilter(Filter):
    """On a host of one of the servers that the hint ``same_host`` names."""

    name = "same_host"

    def applies(self, spec: RequestSpec) -> bool:
        return spec.same_hosts is not None

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return spec.same_hosts is None or host.id in spec.same_hosts

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        lost = self.lost(hosts, spec)
        return f"{hosts_in_words(lost)} {have(lost)} none of the servers that same_host names"


class DifferentHostFilter(Filter):
    """On no host of the servers that the hint ``different_host`` names."""

    name = "different_host"

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.different_hosts)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.id not in spec.different_hosts

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        lost = self.lost(hosts, spec)
        return f"{hosts_in_words(lost)} {have(lost)} a server that different_host names"


class GroupAffinityFilter(Filter):
    """With the servers of its group, once there are any."""

    name = "group_affinity"

    def applies(self, spec: RequestSpec) -> bool:
        return spec.group is not None and spec.group.policy == AFFINITY

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not self.applies(spec) or spec.group is None or group_allows(spec.group, host.id)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        lost = self.lost(hosts, spec)
        return f"{hosts_in_words(lost)} {have(lost)} no server of the group, which wants them on one host"


class GroupAntiAffinityFilter(Filter):
    """Apart from the servers of its group: no more on one host than the group's rule says."""

    name = "group_anti_affinity"

    def applies(self, spec: RequestSpec) -> bool:
        return spec.group is not None and spec.group.policy == ANTI_AFFINITY

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not self.applies(spec) or spec.group is None or group_allows(spec.group, host.id)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        lost, most = self.lost(hosts, spec), spec.group.most if spec.group else 1
        if most == 1:
            return f"{hosts_in_words(lost)} already {have(lost)} a server of the group"
        return f"{hosts_in_words(lost)} already {have(lost)} {most} servers of the group"


def group_allows(group: GroupSpec, host_id: uuid.UUID) -> bool:
    """Whether one more server of the group may be on the host; the soft policies forbid nothing."""
    if group.policy == AFFINITY:
        return not group.members or host_id in group.members
    if group.policy == ANTI_AFFINITY:
        return group.members.get(host_id, 0) < group.most
    return True


class SoftGroupWeigher(Weigher):
    """Prefers hosts with servers of a soft-affine group, and hosts without those of a soft-anti-affine one.

    It weighs more than all others together, so that the policy gives way to a lack of room and to nothing less.
    """

    name = "soft_group"
    multiplier = 2.0

    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        if spec.group is None:
            return 0.0
        members = float(spec.group.members.get(host.id, 0))
        return {SOFT_AFFINITY: members, SOFT_ANTI_AFFINITY: -members}.get(spec.group.policy, 0.0)
