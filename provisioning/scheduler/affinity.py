"""Filters that keep servers together or apart: by hints that name servers, and by server groups."""

import uuid
from collections.abc import Sequence

from provisioning.scheduler.condition import HostFilter, have, hosts_in_words
from provisioning.scheduler.spec import GroupSpec, HostState, RequestSpec, raw_ids

AFFINITY, ANTI_AFFINITY = "affinity", "anti-affinity"
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = "soft-affinity", "soft-anti-affinity"


class SameHostFilter(HostFilter):
    """Hosts of the servers in the hint ``same_host``."""

    name = "SameHostFilter"
    kept = ("has one of the servers named", "have one of the servers named")

    def applies(self, spec: RequestSpec) -> bool:
        return spec.same_hosts is not None

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return spec.same_hosts is None or host.id in spec.same_hosts

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if spec.same_hosts is None:
            return list(hosts)
        named = raw_ids(spec.same_hosts)
        return [host for host in hosts if host.raw_id in named]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {have(lost)} no server that same_host names"


class DifferentHostFilter(HostFilter):
    """Hosts without the servers in the hint ``different_host``."""

    name = "DifferentHostFilter"
    kept = ("has none of the servers named", "have none of the servers named")

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.different_hosts)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.id not in spec.different_hosts

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        named = raw_ids(spec.different_hosts)
        return [host for host in hosts if host.raw_id not in named]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {have(lost)} a server that different_host names"


class ServerGroupAffinityFilter(HostFilter):
    """For the policy affinity: hosts with servers of the request's group; all hosts while the group is empty."""

    name = "ServerGroupAffinityFilter"
    kept = ("has the group's servers", "have the group's servers")

    def applies(self, spec: RequestSpec) -> bool:
        return spec.group is not None and spec.group.policy == AFFINITY

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not self.applies(spec) or spec.group is None or group_allows(spec.group, host.id)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if not self.applies(spec) or spec.group is None or not spec.group.members:
            return list(hosts)
        together = raw_ids(spec.group.members)
        return [host for host in hosts if host.raw_id in together]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {have(lost)} no server of the group, whose policy requires one host"


class ServerGroupAntiAffinityFilter(HostFilter):
    """For the policy anti-affinity: hosts with fewer servers of the request's group than the group's maximum."""

    name = "ServerGroupAntiAffinityFilter"
    kept = ("can run another of the group", "can run another of the group")

    def applies(self, spec: RequestSpec) -> bool:
        return spec.group is not None and spec.group.policy == ANTI_AFFINITY

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not self.applies(spec) or spec.group is None or group_allows(spec.group, host.id)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        if not self.applies(spec) or spec.group is None:
            return list(hosts)
        full = raw_ids(each for each, many in spec.group.members.items() if many >= spec.group.most)
        return [host for host in hosts if host.raw_id not in full]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        most = spec.group.most if spec.group else 1
        if most == 1:
            return f"{hosts_in_words(lost)} already {have(lost)} a server of the group"
        return f"{hosts_in_words(lost)} already {have(lost)} {most} servers of the group"


def group_allows(group: GroupSpec, host_id: uuid.UUID) -> bool:
    """Whether another server of the group may be on the host; soft policies allow every host."""
    if group.policy == AFFINITY:
        return not group.members or host_id in group.members
    if group.policy == ANTI_AFFINITY:
        return group.members.get(host_id, 0) < group.most
    return True
