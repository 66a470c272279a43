"""The result of a decision as plain values, for the claim, the records and the pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioning.scheduler.spec import HostState


@dataclass(frozen=True, slots=True)
class FilterResult:
    """How many hosts one filter was given, how many passed, and why the others did not; no host is named."""

    name: str
    before: int
    after: int
    reason: str = ""
    """Empty when all passed."""
    words: str = ""
    """What the hosts that passed have in common, in singular or plural by ``after``: ``have the memory``."""
    asked: int | None = None
    """What was asked for, where the filter is about an amount."""
    most: int | None = None
    """The most that one of the hosts given has, where some did not pass."""
    unit: str = ""
    """``MiB``, ``GiB`` or empty."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A host that can take the guest, and how well it suits: 0 is least, the sum of the multipliers most."""

    host: HostState
    weight: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """Weigher → its share of ``weight``, without weighers for which all hosts were equal."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The hosts in the order in which they should be tried, and what each filter did."""

    ranked: tuple[Ranked, ...]
    """The best of the suitable hosts; ``suitable`` counts all of them."""
    filters: tuple[FilterResult, ...]
    driver: str = "filter"
    hosts: int = 0
    """How many there were before the first filter."""
    suitable: int = 0
    losses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Filter → names of the first hosts that it rejected, for operators."""
