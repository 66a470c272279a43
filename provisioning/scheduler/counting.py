"""How many guests of one kind find a place, one after the other: the scheduler itself, and nothing is written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Decision
from provisioning.scheduler.neighbours import AFFINITY
from provisioning.scheduler.options import Options
from provisioning.scheduler.ranking import decide, sift
from provisioning.scheduler.spec import HostState, RequestSpec


@dataclass(frozen=True, slots=True)
class Count:
    """How many of ``most`` guests find a place, and where: name of a host → how many."""

    fits: int
    most: int
    where: Mapping[str, int]
    first: Decision
    """What the scheduler would do about the first of them."""


def how_many(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    options: Options,
    most: int,
    *,
    choose: random.Random | None = None,
) -> Count:
    """Place guests one after the other until none finds a place or ``most`` have one; a group takes them all in.

    Where every filter judges each host by itself, a host takes what it takes whatever the others do: then the filters
    go over all hosts once, and not once for each guest.
    """
    chance = choose or random.Random()  # noqa: S311 - spreads load, keeps no secret
    first = decide(hosts, spec, options, choose=chance)
    if not first.ranked or most < 1:
        return Count(0, max(most, 0), {}, first)
    filters = options.driver.filters(options)
    if not (options.driver.alone and all(map(_judges_alone, filters))):
        where = _one_by_one(hosts, spec, options, most, chance)
    elif _to_one_host(spec):
        where = _on_each([first.ranked[0].host], options.driver.request(spec, options), filters, most)
    else:
        where = _together(hosts, spec, options, most, chance)
    return Count(sum(where.values()), most, where, first)


def placed(host: HostState, spec: RequestSpec) -> HostState:
    """Return the host as it is with one more guest of this kind, which is being built."""
    ops = {**host.facts.io_ops, host.raw_id: host.io_ops + 1}
    return host._replace(
        vcpus_allocated=host.vcpus_allocated + spec.vcpus,
        memory_mb_allocated=host.memory_mb_allocated + spec.memory_mb,
        disk_gb_allocated=host.disk_gb_allocated + spec.disk_gb,
        instances=host.instances + 1,
        facts=replace(host.facts, io_ops=ops),
    )


def joined(spec: RequestSpec, host: HostState) -> RequestSpec:
    """Return the request of the next guest, when one has been placed on the host."""
    if spec.group is None:
        return spec
    members = {**spec.group.members, host.id: spec.group.members.get(host.id, 0) + 1}
    return replace(spec, group=replace(spec.group, members=members))


def _together(
    hosts: Sequence[HostState], spec: RequestSpec, options: Options, most: int, choose: random.Random
) -> Counter[str]:
    """Count what each host takes; when that is more than ``most``, let the driver choose among the best hosts."""
    wanted, filters = options.driver.request(spec, options), options.driver.filters(options)
    fitting, _, _ = sift(hosts, wanted, filters)
    where = _on_each(fitting, wanted, filters, most + 1)
    if sum(where.values()) <= most:
        return where
    best = options.driver.order(fitting, wanted, replace(options, best=most), choose)
    return _one_by_one([ranked.host for ranked in best], spec, options, most, choose)


def _on_each(fitting: Sequence[HostState], spec: RequestSpec, filters: Sequence[Filter], most: int) -> Counter[str]:
    """Fill one host after the other, all of which take one guest at least, until there are ``most``."""
    where: Counter[str] = Counter()
    left = most
    for host in fitting:
        state, asks = host, spec
        while left and (state is host or _passes(state, asks, filters)):
            state, asks = placed(state, asks), joined(asks, state)
            where[host.name] += 1
            left -= 1
        if not left:
            break
    return where


def _one_by_one(
    hosts: Sequence[HostState], spec: RequestSpec, options: Options, most: int, choose: random.Random
) -> Counter[str]:
    """Ask the scheduler for each guest anew."""
    left, where, asks = {host.raw_id: host for host in hosts}, Counter[str](), spec
    for _ in range(most):
        ranked = decide(list(left.values()), asks, options, choose=choose).ranked
        if not ranked:
            break
        chosen = ranked[0].host
        where[chosen.name] += 1
        left[chosen.raw_id] = placed(chosen, asks)
        asks = joined(asks, chosen)
    return where


def _passes(host: HostState, spec: RequestSpec, filters: Sequence[Filter]) -> bool:
    return all(judge.passes(host, spec) for judge in filters if judge.applies(spec))


def _judges_alone(judge: Filter) -> bool:
    return judge.alone or type(judge).select is Filter.select


def _to_one_host(spec: RequestSpec) -> bool:
    """Whether the first guest decides where all others have to be."""
    return spec.group is not None and spec.group.policy == AFFINITY and not spec.group.members
