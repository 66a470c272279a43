"""Hosts that are at work, and those that a request names: that will not do, or that alone will."""

from __future__ import annotations

from collections.abc import Sequence

from provisioning.scheduler.condition import HostFilter, are, do, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec, raw_ids


class AliveFilter(HostFilter):
    """Enabled by the operators, and heard of lately."""

    name = "enabled_and_alive"
    kept = ("is at work", "are at work")

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.enabled and host.alive

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        return [host for host in hosts if host.enabled and host.alive]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        silent, total = len([host for host in hosts if not host.alive]), hosts_in_words(len(hosts))
        disabled = lost - silent
        if not silent:
            return f"{disabled} of {total} {are(disabled)} disabled"
        said = f"{silent} of {total} {do(silent)} not answer"
        return f"{said}, {disabled} {are(disabled)} disabled" if disabled else said


class RequestedHostFilter(HostFilter):
    """The host that an operator asked for."""

    name = "requested_host"
    kept = ("is the host that was asked for", "are the host that was asked for")

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.requested_host)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not spec.requested_host or host.name == spec.requested_host

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {are(lost)} not the host that was asked for"


class IgnoredHostsFilter(HostFilter):
    """None of the hosts that an operator leaves out of this request."""

    name = "ignored_hosts"
    kept = ("is not left out", "are not left out")

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.ignored_hosts)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.name not in spec.ignored_hosts

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {are(lost)} left out by the request"


class AvailabilityZoneFilter(HostFilter):
    """In the zone that was asked for."""

    name = "availability_zone"
    kept = ("is in the zone", "are in the zone")

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not spec.availability_zone or host.availability_zone == spec.availability_zone

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        zone = spec.availability_zone
        return [host for host in hosts if host.availability_zone == zone] if zone else list(hosts)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {are(lost)} outside availability zone {spec.availability_zone}"


class ZoneSaidFilter(HostFilter):
    """Nowhere, unless the request says a zone: for clouds whose driver wants one."""

    name = "availability_zone"
    kept = ("is in the zone", "are in the zone")

    def applies(self, spec: RequestSpec) -> bool:
        return not spec.availability_zone

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return bool(spec.availability_zone)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return "this cloud needs to be told an availability zone, and the request names none"


class RetryFilter(HostFilter):
    """Not a host that failed this very request."""

    name = "not_tried_before"
    kept = ("has not failed it", "have not failed it")

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return host.id not in spec.excluded_hosts

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        tried = raw_ids(spec.excluded_hosts)
        return [host for host in hosts if host.raw_id not in tried] if tried else list(hosts)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} failed to build this server"
