"""What a look at the hosts has found: plain values, for the claim, the records and the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioning.scheduler.spec import HostState


@dataclass(frozen=True, slots=True)
class FilterResult:
    """One filter's work: how many hosts came, how many stayed, and why the others did not; no host is named."""

    name: str
    before: int
    after: int
    reason: str = ""
    """Empty when all stayed."""
    words: str = ""
    """What is said of those that stayed, in the number of ``after``: ``have the memory``."""
    asked: int | None = None
    """What was asked for, where the filter is about an amount."""
    most: int | None = None
    """What the best of those that came has, where some did not stay."""
    unit: str = ""
    """``MiB``, ``GiB`` or empty."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A host that can take the guest, and how well it suits: 0 is least, the sum of the multipliers most."""

    host: HostState
    weight: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """What each weigher that could tell hosts apart gave it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Hosts in the order in which they should be tried, and how it came to that."""

    ranked: tuple[Ranked, ...]
    """The best of those that can take the guest; ``suitable`` is how many can."""
    filters: tuple[FilterResult, ...]
    driver: str = "filter"
    hosts: int = 0
    """How many were looked at."""
    suitable: int = 0
    losses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Filter → names of the first hosts that it took away, for operators."""
