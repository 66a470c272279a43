"""Filters hosts by the requirements of an image or flavor: required traits, and features that no host offers."""

from collections.abc import Sequence

from provisioning.scheduler.condition import HostFilter, do, have, hosts_in_words
from provisioning.scheduler.spec import HostNeed, HostState, RequestSpec


class HostNeedsFilter(HostFilter):
    """Hosts that meet the requirements of the image and the flavor and have no forbidden traits."""

    name = "HostNeedsFilter"
    kept = ("offers what the image and the size need", "offer what the image and the size need")
    needs = frozenset({"traits"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.host_needs)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        left = list(hosts)
        for need in spec.host_needs:
            left = [host for host in left if offers(host, need)]
        return left

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        left, reasons = list(hosts), []
        for need in spec.host_needs:
            staying = [host for host in left if offers(host, need)]
            if len(staying) < len(left):
                reasons.append(_why(need, len(left) - len(staying)))
            left = staying
        return ", ".join(reasons)


def offers(host: HostState, need: HostNeed) -> bool:
    """Whether a host meets a requirement: it has the trait, or does not have a forbidden one."""
    return (need.trait in host.traits) is not need.forbidden


def _why(need: HostNeed, lost: int) -> str:
    if need.forbidden:
        return f"{hosts_in_words(lost)} {have(lost)} {need.words}, which is forbidden ({need.asked})"
    return f"{hosts_in_words(lost)} {do(lost)} not offer {need.words} ({need.asked})"
