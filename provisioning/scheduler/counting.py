"""Counts how many guests of one kind would fit, by the scheduler's own rules; writes nothing."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from provisioning.scheduler.affinity import AFFINITY
from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Decision
from provisioning.scheduler.driver import Options
from provisioning.scheduler.ranking import apply_filters, decide
from provisioning.scheduler.spec import HostState, RawId, RequestSpec

MOST_ONE_BY_ONE = 100


@dataclass(frozen=True, slots=True)
class Count:
    """How many of ``most`` guests fit; ``where`` maps the name of each host with new guests to their number."""

    fits: int
    most: int
    where: Mapping[str, int]
    decision: Decision
    """Decision for the first guest that did not fit, or for the first guest when all fit."""


@dataclass(slots=True)
class _Placements:
    """The guests placed so far, the states of their hosts, and the request of the next guest."""

    spec: RequestSpec
    changed: dict[RawId, HostState] = field(default_factory=dict)
    where: Counter[str] = field(default_factory=Counter)
    fits: int = 0

    def place(self, host: HostState) -> HostState:
        """Place a guest on the host, and return the host's new state."""
        self.changed[host.raw_id] = after = placed(host, self.spec)
        self.where[host.name] += 1
        self.fits += 1
        self.spec = joined(self.spec, host)
        return after

    def now(self, hosts: Sequence[HostState]) -> list[HostState]:
        """Return the hosts, with the states changed by the guests placed so far."""
        return [self.changed.get(host.raw_id, host) for host in hosts]


def how_many(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    options: Options,
    most: int,
    *,
    choose: random.Random | None = None,
) -> Count:
    """Place guests one after the other until one does not fit or ``most`` are placed. Each placed guest becomes a
    member of the request's server group.

    If every filter judges each host independently, the filters run over all hosts once, not once for each guest.
    """
    chance = choose or random.Random()  # noqa: S311 - spreads load, keeps no secret
    first = decide(hosts, spec, options, choose=chance)
    if not first.ranked or most < 1:
        return Count(0, max(most, 0), {}, first)
    filters, placements = options.driver.filters(options), _Placements(spec)
    if not (options.driver.ranks_all and all(map(_judges_independently, filters))):
        _one_by_one(hosts, placements, options, most, chance)
    elif _to_one_host(spec):
        _fill([first.ranked[0].host], placements, options, most)
    elif len(first.ranked) >= most or not _filled(hosts, placements, options, most):
        enough = len(first.ranked) >= most or len(first.ranked) == first.suitable
        best = first if enough else decide(hosts, spec, replace(options, best=most), choose=chance)
        _one_by_one([ranked.host for ranked in best.ranked], placements, options, most, chance)
    last = first if placements.fits == most else decide(placements.now(hosts), placements.spec, options, choose=chance)
    return Count(placements.fits, most, placements.where, last)


def room_for(hosts: Sequence[HostState], spec: RequestSpec, options: Options, most: int) -> int:
    """Return how many guests of one kind fit in total, at most ``most``, for overviews of the capacity.

    Unlike ``how_many``, guests that are placed do not count as builds in progress. The filters run three times over all
    hosts: for the first guest, and for the last one and one more by each host's free resources. Where they disagree
    with the resources, the number is found by doubling and halving. If a filter compares hosts with each other, the
    guests are placed one by one.
    """
    filters, request = options.driver.filters(options), options.driver.request(spec, options)
    if not (options.driver.ranks_all and all(map(_judges_independently, filters))):
        return how_many(hosts, spec, options, min(most, MOST_ONE_BY_ONE)).fits
    fitting = _kept(hosts, request, filters)
    guesses = {host.raw_id: _by_resources(host, request, most) for host in fitting}
    last = _kept([_with_guests(host, request, guesses[host.raw_id] - 1) for host in fitting], request, filters)
    larger = _kept([_with_guests(host, request, guesses[host.raw_id]) for host in fitting], request, filters)
    right = {host.raw_id for host in last} - {host.raw_id for host in larger if guesses[host.raw_id] < most}
    counts = (
        guesses[host.raw_id] if host.raw_id in right else _room_on(host, request, filters, most) for host in fitting
    )
    return min(sum(counts), most)


def _kept(hosts: Sequence[HostState], spec: RequestSpec, filters: Sequence[Filter]) -> Sequence[HostState]:
    return apply_filters(hosts, spec, filters)[0]


def _by_resources(host: HostState, spec: RequestSpec, most: int) -> int:
    """Return how many guests the free processors, memory and disk allow, from 1 to ``most``."""
    free = (
        (host.vcpus_limit - host.vcpus_allocated, spec.vcpus),
        (host.memory_mb_limit - host.memory_mb_allocated, spec.memory_mb),
        (host.disk_gb_limit - host.disk_gb_allocated, spec.disk_gb),
    )
    allowed = min((left // each for left, each in free if each), default=most)
    return min(max(allowed, 1), most)


def _room_on(host: HostState, spec: RequestSpec, filters: Sequence[Filter], most: int) -> int:
    """Return how many guests fit on a host that has capacity for at least one guest; at most ``most``."""
    fits, fails = 1, most + 1
    while fits < most and fails - fits > 1:
        tried = min(2 * fits, most) if fails > most else (fits + fails) // 2
        if _passes(_with_guests(host, spec, tried - 1), spec, filters):
            fits = tried
        else:
            fails = tried
    return fits


def _with_guests(host: HostState, spec: RequestSpec, many: int) -> HostState:
    return host._replace(
        vcpus_allocated=host.vcpus_allocated + many * spec.vcpus,
        memory_mb_allocated=host.memory_mb_allocated + many * spec.memory_mb,
        disk_gb_allocated=host.disk_gb_allocated + many * spec.disk_gb,
        instances=host.instances + many,
    )


def _filled(hosts: Sequence[HostState], placements: _Placements, options: Options, most: int) -> bool:
    """Fill all hosts if at most ``most`` guests fit on them in total. Otherwise place no guest and return False."""
    tried = _Placements(placements.spec)
    fitting, _, _ = apply_filters(hosts, options.driver.request(tried.spec, options), options.driver.filters(options))
    _fill(fitting, tried, options, most + 1)
    if tried.fits > most:
        return False
    placements.spec, placements.changed, placements.where, placements.fits = (
        tried.spec,
        tried.changed,
        tried.where,
        tried.fits,
    )
    return True


def _fill(fitting: Sequence[HostState], placements: _Placements, options: Options, most: int) -> None:
    """Fill one host after the other until ``most`` guests are placed. Each host has capacity for at least one."""
    filters = options.driver.filters(options)
    for host in fitting:
        state = placements.place(host)
        while placements.fits < most and _passes(state, options.driver.request(placements.spec, options), filters):
            state = placements.place(state)
        if placements.fits == most:
            return


def _one_by_one(
    hosts: Sequence[HostState], placements: _Placements, options: Options, most: int, choose: random.Random
) -> None:
    """Place up to ``most`` guests, with a new decision for each guest."""
    for _ in range(most):
        ranked = decide(placements.now(hosts), placements.spec, options, choose=choose).ranked
        if not ranked:
            return
        placements.place(ranked[0].host)


def placed(host: HostState, spec: RequestSpec) -> HostState:
    """Return the host's state with one more guest, counted as a build in progress."""
    ops = {**host.facts.io_ops, host.raw_id: host.io_ops + 1}
    return host._replace(
        vcpus_allocated=host.vcpus_allocated + spec.vcpus,
        memory_mb_allocated=host.memory_mb_allocated + spec.memory_mb,
        disk_gb_allocated=host.disk_gb_allocated + spec.disk_gb,
        instances=host.instances + 1,
        facts=replace(host.facts, io_ops=ops),
    )


def joined(spec: RequestSpec, host: HostState) -> RequestSpec:
    """Return the request for the next guest: the group has one more member on the host."""
    if spec.group is None:
        return spec
    members = {**spec.group.members, host.id: spec.group.members.get(host.id, 0) + 1}
    return replace(spec, group=replace(spec.group, members=members))


def _passes(host: HostState, spec: RequestSpec, filters: Sequence[Filter]) -> bool:
    return all(judge.passes(host, spec) for judge in filters if judge.applies(spec))


def _judges_independently(judge: Filter) -> bool:
    return judge.independent or type(judge).select is Filter.select


def _to_one_host(spec: RequestSpec) -> bool:
    """Whether all guests must follow the first one to its host."""
    return spec.group is not None and spec.group.policy == AFFINITY and not spec.group.members
