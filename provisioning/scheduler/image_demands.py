"""Filters for the requirements of an image: processor architecture, hypervisor and its version, traits and features."""

import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from provisioning.scheduler.condition import HostFilter, do, have, hosts_in_words
from provisioning.scheduler.spec import HostNeed, HostState, RequestSpec

_SAME = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "i386": "i686"}
_ALSO = {"kvm": frozenset({"qemu"})}
"""Hypervisor → other hypervisors whose images it also runs."""
_CONDITION = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d{1,6}(?:\.\d{1,6}){0,3})\s*", re.ASCII)
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class ImagePropertiesFilter(HostFilter):
    """Hosts with the processor architecture, hypervisor and version that the image requires.

    A value that the host has not reported is not compared.
    """

    name = "ImagePropertiesFilter"
    kept = ("has what the image needs", "have what the image needs")
    needs = frozenset({"hardware"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.architecture or _hypervisor(spec))

    def kept_by(self, spec: RequestSpec) -> tuple[str, str]:
        if not _hypervisor(spec):
            return "has the processor", "have the processor"
        return self.kept if spec.architecture else ("has the hypervisor", "have the hypervisor")

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        left = _with_processor(hosts, spec)
        if not _hypervisor(spec):
            return left
        required, versions = spec.hypervisor_type, spec.hypervisor_versions
        return [
            host
            for host in left
            if is_hypervisor(host.hypervisor_type, required)
            and (not (versions and host.hypervisor_version) or is_version(host.hypervisor_version, versions))
        ]

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        processor = len(hosts) - len(_with_processor(hosts, spec))
        hypervisor = lost - processor
        reasons = []
        if processor:
            have_other = f"{hosts_in_words(processor)} {have(processor)} another processor"
            reasons.append(f"{have_other} than the image needs ({spec.architecture})")
        if hypervisor:
            do_not_have = f"{hosts_in_words(hypervisor)} {do(hypervisor)} not have the hypervisor"
            reasons.append(f"{do_not_have} that the image needs ({_hypervisor(spec)})")
        return ", ".join(reasons)


def _with_processor(hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
    required = _plain(spec.architecture)
    return [host for host in hosts if _plain(host.architecture) in ("", required)] if required else list(hosts)


def _hypervisor(spec: RequestSpec) -> str:
    """Return the image's requirement as text, like ``kvm >=6.0``; empty if the image has none."""
    return f"{spec.hypervisor_type} {spec.hypervisor_versions}".strip()


@lru_cache(maxsize=1024)
def is_hypervisor(has: str, required: str) -> bool:
    """Whether the hypervisor ``has`` runs images for the hypervisor ``required``; True if one of them is empty."""
    plain, requested = has.strip().lower(), required.strip().lower()
    return not (plain and requested) or requested == plain or requested in _ALSO.get(plain, ())


@lru_cache(maxsize=1024)
def is_version(number: int, required: str) -> bool:
    """Whether libvirt's version number (8002000 is 8.2.0) meets ``>=6.0,<9``; False for a malformed condition."""
    version = (number // 1_000_000, number // 1_000 % 1_000, number % 1_000, 0)
    for part in required.split(","):
        match = _CONDITION.fullmatch(part)
        if match is None:
            return False
        numbers = [int(text) for text in match[2].split(".")]
        if not _COMPARE[match[1]](version, (*numbers, 0, 0, 0)[:4]):
            return False
    return True


@lru_cache(maxsize=256)
def _plain(architecture: str) -> str:
    name = architecture.strip().lower()
    return _SAME.get(name, name)


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
    """Whether a host meets a requirement: it has a required trait, or does not have a forbidden trait."""
    return (need.trait in host.traits) is not need.forbidden


def _why(need: HostNeed, lost: int) -> str:
    if need.forbidden:
        return f"{hosts_in_words(lost)} {have(lost)} {need.words}, which is forbidden ({need.asked})"
    return f"{hosts_in_words(lost)} {do(lost)} not offer {need.words} ({need.asked})"
