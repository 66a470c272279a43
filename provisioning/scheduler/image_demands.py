"""What an image demands of its host: a processor, a hypervisor, a version of it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from provisioning.scheduler.condition import HostFilter, do, have, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec

_SAME = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "i386": "i686"}
_ALSO = {"kvm": frozenset({"qemu"})}
"""Hypervisors that run what is made for others too."""
_CONDITION = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d{1,6}(?:\.\d{1,6}){0,3})\s*", re.ASCII)
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class ArchitectureFilter(HostFilter):
    """A processor that the image was made for; a host that has not said what it has is left alone."""

    name = "architecture"
    kept = ("has the processor", "have the processor")
    needs = frozenset({"hardware"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.architecture)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not (spec.architecture and host.architecture) or _plain(host.architecture) == _plain(spec.architecture)

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        wanted = _plain(spec.architecture)
        return [host for host in hosts if _plain(host.architecture) in ("", wanted)] if wanted else list(hosts)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {have(lost)} another processor than the image needs ({spec.architecture})"


class HypervisorFilter(HostFilter):
    """A hypervisor that the image was made for, in a version that it works with; a host that has not said which it has
    is left alone.
    """

    name = "hypervisor"
    kept = ("has the hypervisor", "have the hypervisor")
    needs = frozenset({"hardware"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.hypervisor_type or spec.hypervisor_versions)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return is_hypervisor(host.hypervisor_type, spec.hypervisor_type) and (
            not (spec.hypervisor_versions and host.hypervisor_version)
            or is_version(host.hypervisor_version, spec.hypervisor_versions)
        )

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        wanted = f"{spec.hypervisor_type} {spec.hypervisor_versions}".strip()
        return f"{hosts_in_words(lost)} {do(lost)} not have the hypervisor that the image needs ({wanted})"


@lru_cache(maxsize=1024)
def is_hypervisor(has: str, wanted: str) -> bool:
    """Whether a hypervisor runs what is made for another, which may be itself; what is not said stands for any."""
    plain, asked = has.strip().lower(), wanted.strip().lower()
    return not (plain and asked) or asked == plain or asked in _ALSO.get(plain, ())


@lru_cache(maxsize=1024)
def is_version(number: int, wanted: str) -> bool:
    """Whether a version as libvirt says it (8002000 is 8.2.0) is what ``>=6.0,<9`` says; no, when that says nothing."""
    version = (number // 1_000_000, number // 1_000 % 1_000, number % 1_000, 0)
    for part in wanted.split(","):
        found = _CONDITION.fullmatch(part)
        if found is None:
            return False
        numbers = [int(text) for text in found[2].split(".")]
        if not _COMPARE[found[1]](version, (*numbers, 0, 0, 0)[:4]):
            return False
    return True


@lru_cache(maxsize=256)
def _plain(architecture: str) -> str:
    name = architecture.strip().lower()
    return _SAME.get(name, name)
