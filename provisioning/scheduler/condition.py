"""The base classes of filters, and helpers for the wording of their reasons."""

import abc
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from provisioning.scheduler.spec import HostState, RequestSpec


class Amounts(NamedTuple):
    """What was asked for, the most that a host has to give, and of what."""

    asked: int
    most: int
    unit: str
    """``MiB``, ``GiB`` or empty."""


class Filter(abc.ABC):
    """A condition that a host must meet to be given a guest.

    An operator's own filter defines ``passes`` and ``reason``.
    """

    name: str
    """What settings, decisions and operators' pages call it: for Novella's own filters the name of the class."""
    kept: ClassVar[tuple[str, str]] = ("is left", "are left")
    """Wording for one host, and for several, that passed: ``1 is left``, ``2 are left``."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """The fields of Facts that it reads."""
    independent: ClassVar[bool] = False
    """Whether a ``select`` of the filter's own judges each host without regard to the others."""

    def applies(self, spec: RequestSpec) -> bool:
        """Whether the request asks for anything that this filter checks; else it is neither run nor recorded."""
        return True

    def kept_by(self, spec: RequestSpec) -> tuple[str, str]:
        """Return ``kept``, or wording that suits what this request asks for."""
        return self.kept

    @abc.abstractmethod
    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        """Whether the host meets the condition."""

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        """Return the hosts that pass, in their order."""
        return [host for host in hosts if self.passes(host, spec)]

    @abc.abstractmethod
    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        """Say why ``lost`` of ``hosts`` did not pass, without naming a host."""

    def amounts(self, hosts: Sequence[HostState], spec: RequestSpec) -> Amounts | None:
        """Return what was asked for and the most that one of ``hosts`` has; None if it is not about an amount."""
        return None


class HostFilter(Filter):
    """A filter of Novella's own; it defines ``select``, since one comprehension is quick even for 10,000 hosts.

    Only where looking up one host is much cheaper does it define ``passes`` too.
    """

    independent = True

    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        return bool(self.select([host], spec))

    @abc.abstractmethod
    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        """Return the hosts that pass, in their order."""


def hosts_in_words(count: int) -> str:
    """``1 host`` or ``2 hosts``."""
    return "1 host" if count == 1 else f"{count} hosts"


def are(count: int) -> str:
    """``is`` or ``are``."""
    return "is" if count == 1 else "are"


def do(count: int) -> str:
    """``does`` or ``do``."""
    return "does" if count == 1 else "do"


def have(count: int) -> str:
    """``has`` or ``have``."""
    return "has" if count == 1 else "have"
