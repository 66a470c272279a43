"""The decision: filters one after the other, then weighers, then one of the best few at random in front."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.filters import FILTERS
from provisioning.scheduler.neighbours import SoftGroupWeigher
from provisioning.scheduler.spec import HostState, RequestSpec
from provisioning.scheduler.weighers import RamWeigher, Weigher

WEIGHERS: tuple[Weigher, ...] = (RamWeigher(), SoftGroupWeigher())


@dataclass(frozen=True, slots=True)
class FilterResult:
    """One filter's work: how many hosts came, how many stayed, and why the others did not (empty when all stayed)."""

    name: str
    before: int
    after: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A host that can take the guest, and how well it suits: 0 is least, the sum of the multipliers most."""

    host: HostState
    weight: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Hosts in the order in which they should be tried, and how it came to that."""

    ranked: tuple[Ranked, ...]
    filters: tuple[FilterResult, ...]


def rank(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    *,
    subset_size: int = 1,
    choose: random.Random | None = None,
    filters: Sequence[Filter] = FILTERS,
    weighers: Sequence[Weigher] = WEIGHERS,
) -> Decision:
    """Rank the hosts that pass all filters, best first; equals in an order that only chance decides.

    ``subset_size``: one of that many best hosts, chosen at random, is put in front, so that schedulers working side by
    side do not all run to the same host.
    """
    chance = choose or random.Random()  # noqa: S311 - spreads load, keeps no secret
    left, results = list(hosts), []
    for judge in filters:
        if not judge.applies(spec):
            continue
        staying = [host for host in left if judge.passes(host, spec)]
        lost = len(staying) < len(left)
        results.append(FilterResult(judge.name, len(left), len(staying), judge.reason(left, spec) if lost else ""))
        left = staying
        if not left:
            break
    chance.shuffle(left)
    ranked = sorted(_weighed(left, spec, weighers), key=lambda item: -item.weight)
    if ranked and subset_size > 1:
        lucky = chance.randrange(min(subset_size, len(ranked)))
        ranked.insert(0, ranked.pop(lucky))
    return Decision(tuple(ranked), tuple(results))


def _weighed(hosts: Sequence[HostState], spec: RequestSpec, weighers: Sequence[Weigher]) -> list[Ranked]:
    totals = [0.0] * len(hosts)
    for weigher in weighers:
        raw = [weigher.weigh(host, spec) for host in hosts]
        low, span = min(raw, default=0.0), max(raw, default=0.0) - min(raw, default=0.0)
        for index, value in enumerate(raw):
            totals[index] += weigher.multiplier * ((value - low) / span if span else 0.0)
    return [Ranked(host, weight) for host, weight in zip(hosts, totals, strict=True)]


def explain(decision: Decision) -> str:
    """Say in one sentence for the server's owner why there is no host, naming none; empty when there is one."""
    if decision.ranked:
        return ""
    if not decision.filters or decision.filters[0].before == 0:
        return "There are no hosts in this cloud yet."
    total, last = decision.filters[0].before, decision.filters[-1]
    earlier = [f"{result.reason}" for result in decision.filters[:-1] if result.reason]
    parts = [*earlier, last.reason]
    counts = ", ".join(f"{result.name} {result.before}→{result.after}" for result in decision.filters)
    sentence = "; ".join(parts)
    return f"Of {total} {'host' if total == 1 else 'hosts'}: {sentence} ({counts})."
