"""What a filter is, and the words that their reasons share."""

from __future__ import annotations

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
    """One condition.  ``name`` is what decisions and pages call it."""

    name: str
    kept: ClassVar[tuple[str, str]] = ("is left", "are left")
    """What is said of one host, and of several, that passed."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """The fields of Facts that it looks at."""
    alone: ClassVar[bool] = False
    """Whether ``select``, where a filter has its own, judges each host without a look at the others."""

    def applies(self, spec: RequestSpec) -> bool:
        """Whether the request says anything that this filter looks at; else it is not run, and not told of."""
        return True

    @abc.abstractmethod
    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        """Whether the host meets the condition."""

    def select(self, hosts: Sequence[HostState], spec: RequestSpec) -> list[HostState]:
        """Return the hosts that pass, in their order."""
        return [host for host in hosts if self.passes(host, spec)]

    @abc.abstractmethod
    def reason(self, hosts: Sequence[HostState], spec: RequestSpec, lost: int) -> str:
        """Say why ``lost`` of ``hosts``, which came this far, did not pass; no host is named."""

    def amounts(self, hosts: Sequence[HostState], spec: RequestSpec) -> Amounts | None:
        """Return what was asked for and what the best of ``hosts`` has; None: the condition is not about an amount."""
        return None


class HostFilter(Filter):
    """A filter of ours: its ``select`` is ``passes`` in one comprehension, so that 10,000 hosts are quick."""

    alone = True


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
