"""Makes decisions: runs the filters, lets the driver rank the remaining hosts, and puts one of the best first."""

import random
from collections.abc import Sequence
from time import perf_counter

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Decision, FilterResult
from provisioning.scheduler.driver import Options
from provisioning.scheduler.spec import HostState, RequestSpec

NAMED_LOSSES = 10
"""Maximum number of rejected hosts whose names are recorded for each filter."""


def decide(
    hosts: Sequence[HostState], spec: RequestSpec, options: Options, *, choose: random.Random | None = None
) -> Decision:
    """Rank the hosts that pass all filters, best first. ``choose`` is the source of random numbers; None: a new
    source.
    """
    chance = choose or random.Random()  # noqa: S311 - spreads load, keeps no secret
    driver = options.driver
    request = driver.request(spec, options)
    left, results, losses = apply_filters(hosts, request, driver.filters(options))
    ranked = list(driver.order(left, request, options, chance)) if left else []
    if ranked and options.subset_size > 1:
        ranked.insert(0, ranked.pop(chance.randrange(min(options.subset_size, len(ranked)))))
    return Decision(tuple(ranked), tuple(results), driver.name, len(hosts), len(left), losses)


def apply_filters(
    hosts: Sequence[HostState], spec: RequestSpec, filters: Sequence[Filter]
) -> tuple[list[HostState], list[FilterResult], dict[str, tuple[str, ...]]]:
    """Return the hosts that pass all filters, one result for each filter that ran, and the names of rejected hosts by
    filter.

    No other filter runs once no host is left.
    """
    left, results, losses = list(hosts), list[FilterResult](), dict[str, tuple[str, ...]]()
    for judge in filters:
        if not judge.applies(spec):
            continue
        begun = perf_counter()
        staying = judge.select(left, spec)
        lost = len(staying) < len(left)
        if lost:
            losses[judge.name] = _names(left, staying)
        results.append(_result(judge, left, staying, spec, begun))
        left = staying
        if not left:
            break
    return left, results, losses


def _result(
    judge: Filter, came: Sequence[HostState], staying: Sequence[HostState], spec: RequestSpec, begun: float
) -> FilterResult:
    before, after = len(came), len(staying)
    words = judge.kept_by(spec)[after != 1]
    if after == before:
        return FilterResult(judge.name, before, after, words=words, seconds=perf_counter() - begun)
    amounts = judge.amounts(came, spec)
    return FilterResult(
        judge.name,
        before,
        after,
        reason=judge.reason(came, spec, before - after),
        words=words,
        asked=amounts.asked if amounts else None,
        most=amounts.most if amounts else None,
        unit=amounts.unit if amounts else "",
        seconds=perf_counter() - begun,
    )


def _names(came: Sequence[HostState], staying: Sequence[HostState]) -> tuple[str, ...]:
    """Return the names of the first hosts that a filter rejected. ``staying``, the accepted hosts, are in the same
    order as ``came``.
    """
    names: list[str] = []
    rest = iter(staying)
    awaited = next(rest, None)
    for host in came:
        if host is awaited:
            awaited = next(rest, None)
            continue
        names.append(host.name)
        if len(names) == NAMED_LOSSES:
            break
    return tuple(names)
