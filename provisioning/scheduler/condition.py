"""The base classes of filters, and helpers for the wording of their reasons."""

import abc
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from provisioning.scheduler.spec import HostState, RequestSpec


class Amounts(NamedTuple):
    """The requested amount, the most that a host has available, and the unit."""

    asked: int
    most: int
    unit: str
    """``MiB``, ``GiB`` or empty."""


class Filter(abc.ABC):
    """A condition that a host must meet to get a guest.

    Custom filters define ``passes`` and ``reason``.
    """

    name: str
    """Name in settings, decisions and operators' pages; for built-in filters the name of the class."""
    kept: ClassVar[tuple[str, str]] = ("is left", "are left")
    """Verb phrases for one host that passed and for several hosts: ``1 is left``, ``2 are left``."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """The fields of ``Facts`` that the filter reads."""
    independent: ClassVar[bool] = False
    """Whether the filter's own ``select`` judges each host independently of the others."""

    def applies(self, spec: RequestSpec) -> bool:
        """Whether the request contains anything that the filter checks. If not, the filter is neither run nor
        recorded.
        """
        return True

    def kept_by(self, spec: RequestSpec) -> tuple[str, str]:
        """Return ``kept``, or a more exact pair of phrases for this request."""
        return self.kept

    @abc.abstractmethod
    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        """Whether the host meets the condition."""

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        """Return the hosts that pass, in their order."""
        return [host for host in hosts if self.passes(host, spec)]

    @abc.abstractmethod
    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        """Return why ``lost`` of ``hosts`` did not pass, without names of hosts."""

    def amounts(self, hosts: Sequence[HostState], spec: RequestSpec) -> Amounts | None:
        """Return the requested amount and the most that one of ``hosts`` has; None for filters without an amount."""
        return None


class HostFilter(Filter):
    """A built-in filter. Subclasses define ``select``, because one comprehension is fast even for 10,000 hosts.

    They define ``passes`` as well only where looking up a single host is much cheaper.
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
