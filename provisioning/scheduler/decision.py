"""The result of a decision as plain values, for the claim, the records and the pages."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from provisioning.scheduler.spec import HostState


@dataclass(frozen=True, slots=True)
class FilterResult:
    """How many hosts a filter was given, how many passed, and why the others did not; contains no names of hosts."""

    name: str
    before: int
    after: int
    reason: str = ""
    """Empty when all passed."""
    words: str = ""
    """Common property of the hosts that passed, in singular or plural by ``after``: ``have enough memory``."""
    asked: int | None = None
    """The requested amount; None for filters without an amount, or if all passed."""
    most: int | None = None
    """The largest amount that one of the given hosts has; None for filters without an amount, or if all passed."""
    unit: str = ""
    """``MiB``, ``GiB`` or empty."""
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A suitable host and its weight, between 0 and the sum of the multipliers."""

    host: HostState
    weight: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """Weigher → its part of ``weight``; weighers that rated all hosts equal are omitted."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The hosts in the order in which they should be tried, and the result of each filter."""

    ranked: tuple[Ranked, ...]
    """The best suitable hosts, at most ``Options.best``; ``suitable`` is the number of all suitable hosts."""
    filters: tuple[FilterResult, ...]
    driver: str = "filter"
    hosts: int = 0
    """Number of hosts before the first filter."""
    suitable: int = 0
    losses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Filter → names of the first hosts that it rejected, for operators."""
