"""Filters for hosts in service, and for the hosts and the zone that a request names or excludes."""

from collections.abc import Sequence

from provisioning.scheduler.condition import HostFilter, are, do, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec, raw_ids


class ComputeFilter(HostFilter):
    """Hosts that are enabled and whose agent has reported recently."""

    name = "ComputeFilter"
    kept = ("is up", "are up")

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        return [host for host in hosts if host.enabled and host.alive]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        silent, total = len([host for host in hosts if not host.alive]), hosts_in_words(len(hosts))
        disabled = lost - silent
        if not silent:
            return f"{disabled} of {total} {are(disabled)} disabled"
        text = f"{silent} of {total} {do(silent)} not answer"
        return f"{text}, {disabled} {are(disabled)} disabled" if disabled else text


class RequestedHostFilter(HostFilter):
    """The host that an operator requested."""

    name = "RequestedHostFilter"
    kept = ("is the requested host", "are the requested host")

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.requested_host)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        required = spec.requested_host
        return [host for host in hosts if host.name == required] if required else list(hosts)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {are(lost)} not the requested host"


class IgnoredHostsFilter(HostFilter):
    """Hosts that an operator has not excluded from this request."""

    name = "IgnoredHostsFilter"
    kept = ("is not excluded", "are not excluded")

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.ignored_hosts)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        return [host for host in hosts if host.name not in spec.ignored_hosts]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {are(lost)} excluded by the request"


class AvailabilityZoneFilter(HostFilter):
    """Hosts in the requested zone."""

    name = "AvailabilityZoneFilter"
    kept = ("is in the zone", "are in the zone")

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        zone = spec.availability_zone
        return [host for host in hosts if host.availability_zone == zone] if zone else list(hosts)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {are(lost)} outside availability zone {spec.availability_zone}"


class RequireZoneFilter(HostFilter):
    """Rejects all hosts if the request names no zone; only ``AvailabilityZoneDriver`` runs it."""

    name = "RequireZoneFilter"
    kept = ("is in the zone", "are in the zone")

    def applies(self, spec: RequestSpec) -> bool:
        return not spec.availability_zone

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        return list(hosts) if spec.availability_zone else []

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return "this cloud requires an availability zone, and the request names none"


class RetryFilter(HostFilter):
    """Hosts on which this request has not failed."""

    name = "RetryFilter"
    kept = ("has not failed it", "have not failed it")

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.id not in spec.excluded_hosts

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        tried = raw_ids(spec.excluded_hosts)
        return [host for host in hosts if host.raw_id not in tried] if tried else list(hosts)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} failed to build this server"
