"""What a request demands of its host beside room: a processor, what operators say of their hosts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence

from provisioning.scheduler.condition import HostFilter, are, have, hosts_in_words
from provisioning.scheduler.spec import HostState, RequestSpec

_SAME = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "i386": "i686"}
_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,  # as Nova reads it
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
    "<in>": operator.contains,
}


class ArchitectureFilter(HostFilter):
    """A processor that the image was made for; a host that has not said what it has is left alone."""

    name = "architecture"
    kept = ("has the processor", "have the processor")

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.architecture)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return not (spec.architecture and host.architecture) or _plain(host.architecture) == _plain(spec.architecture)

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        return f"{hosts_in_words(lost)} {have(lost)} another processor than the image needs ({spec.architecture})"


class AggregateSpecsFilter(HostFilter):
    """In aggregates whose metadata the flavor's ``aggregate_instance_extra_specs:`` ask for."""

    name = "aggregate_extra_specs"
    kept = ("is of the kind that the size asks for", "are of the kind that the size asks for")
    needs = frozenset({"aggregate_metadata"})

    def applies(self, spec: RequestSpec) -> bool:
        return bool(spec.aggregate_specs)

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return all(
            any(meets(value, wanted) for value in host.aggregate_metadata.get(key, ()))
            for key, wanted in spec.aggregate_specs.items()
        )

    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        keys = ", ".join(sorted(spec.aggregate_specs))
        return f"{hosts_in_words(lost)} {are(lost)} in no aggregate that the size asks for ({keys})"


def meets(value: str, wanted: str) -> bool:
    """Whether an aggregate's value is what an extra spec says: a text, or one of Nova's operators with its operand."""
    sign, *operands = wanted.split() or [""]
    if sign == "<or>":
        return value in _alternatives(operands)
    if len(operands) == 1 and sign in _TEXTS:
        return _TEXTS[sign](value, operands[0])
    if len(operands) == 1 and sign in _NUMBERS:
        try:
            return _NUMBERS[sign](float(value), float(operands[0]))
        except ValueError:
            return False
    return value == wanted


def _alternatives(words: Collection[str]) -> set[str]:
    """``<or> a <or> b`` → a, b."""
    return {word for word in words if word != "<or>"}


def _plain(architecture: str) -> str:
    name = architecture.strip().lower()
    return _SAME.get(name, name)
