"""What a filter is, and the words that their reasons share."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from provisioning.scheduler.spec import HostState, RequestSpec


class Filter(abc.ABC):
    """One condition.  ``name`` is what decisions and pages call it."""

    name: str

    def applies(self, spec: RequestSpec) -> bool:
        """Whether the request says anything that this filter looks at; else it is not run, and not told of."""
        return True

    @abc.abstractmethod
    def passes(self, host: HostState, spec: RequestSpec) -> bool:
        """Whether the host meets the condition."""

    @abc.abstractmethod
    def reason(self, hosts: Sequence[HostState], spec: RequestSpec) -> str:
        """Say why none (or fewer) of ``hosts``, which came this far, passed; no host is named."""

    def lost(self, hosts: Sequence[HostState], spec: RequestSpec) -> int:
        """How many of ``hosts`` do not pass."""
        return sum(1 for host in hosts if not self.passes(host, spec))


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
