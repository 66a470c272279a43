"""How many guests of one kind find a place, one after the other: the scheduler itself, and nothing is written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Decision
from provisioning.scheduler.driver import Options
from provisioning.scheduler.neighbours import AFFINITY
from provisioning.scheduler.ranking import decide, sift
from provisioning.scheduler.spec import HostState, RawId, RequestSpec


@dataclass(frozen=True, slots=True)
class Count:
    """How many of ``most`` guests find a place, and where: name of a host → how many."""

    fits: int
    most: int
    where: Mapping[str, int]
    decision: Decision
    """Of the first guest that found no place; of the first guest when all did."""


@dataclass(slots=True)
class _Books:
    """The hosts as they are with the guests that have been placed, and the request of the next one."""

    spec: RequestSpec
    changed: dict[RawId, HostState] = field(default_factory=dict)
    where: Counter[str] = field(default_factory=Counter)
    fits: int = 0

    def place(self, host: HostState) -> HostState:
        """Write down one more guest, and return the host as it is then."""
        self.changed[host.raw_id] = after = placed(host, self.spec)
        self.where[host.name] += 1
        self.fits += 1
        self.spec = joined(self.spec, host)
        return after

    def now(self, hosts: Sequence[HostState]) -> list[HostState]:
        """Return the hosts as they are now."""
        return [self.changed.get(host.raw_id, host) for host in hosts]


def how_many(
    hosts: Sequence[HostState],
    spec: RequestSpec,
    options: Options,
    most: int,
    *,
    choose: random.Random | None = None,
) -> Count:
    """Place guests one after the other until one finds no place or ``most`` have one; a group takes them all in.

    Where every filter judges each host by itself, a host takes what it takes whatever the others do: then the filters
    go over all hosts once, and not once for each guest.
    """
    chance = choose or random.Random()  # noqa: S311 - spreads load, keeps no secret
    first = decide(hosts, spec, options, choose=chance)
    if not first.ranked or most < 1:
        return Count(0, max(most, 0), {}, first)
    filters, books = options.driver.filters(options), _Books(spec)
    if not (options.driver.alone and all(map(_judges_alone, filters))):
        _one_by_one(hosts, books, options, most, chance)
    elif _to_one_host(spec):
        _fill([first.ranked[0].host], books, options, most)
    elif len(first.ranked) >= most or not _filled(hosts, books, options, most):
        enough = len(first.ranked) >= most or len(first.ranked) == first.suitable
        best = first if enough else decide(hosts, spec, replace(options, best=most), choose=chance)
        _one_by_one([ranked.host for ranked in best.ranked], books, options, most, chance)
    last = first if books.fits == most else decide(books.now(hosts), books.spec, options, choose=chance)
    return Count(books.fits, most, books.where, last)


def _filled(hosts: Sequence[HostState], books: _Books, options: Options, most: int) -> bool:
    """Fill all hosts, when that takes no more than ``most`` guests; else nothing is written down."""
    tried = _Books(books.spec)
    fitting, _, _ = sift(hosts, options.driver.request(tried.spec, options), options.driver.filters(options))
    _fill(fitting, tried, options, most + 1)
    if tried.fits > most:
        return False
    books.spec, books.changed, books.where, books.fits = tried.spec, tried.changed, tried.where, tried.fits
    return True


def _fill(fitting: Sequence[HostState], books: _Books, options: Options, most: int) -> None:
    """Fill one host after the other, all of which take one guest at least, until there are ``most``."""
    filters = options.driver.filters(options)
    for host in fitting:
        state = books.place(host)
        while books.fits < most and _passes(state, options.driver.request(books.spec, options), filters):
            state = books.place(state)
        if books.fits == most:
            return


def _one_by_one(hosts: Sequence[HostState], books: _Books, options: Options, most: int, choose: random.Random) -> None:
    """Ask the scheduler for each guest anew."""
    for _ in range(most):
        ranked = decide(books.now(hosts), books.spec, options, choose=choose).ranked
        if not ranked:
            return
        books.place(ranked[0].host)


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


def _passes(host: HostState, spec: RequestSpec, filters: Sequence[Filter]) -> bool:
    return all(judge.passes(host, spec) for judge in filters if judge.applies(spec))


def _judges_alone(judge: Filter) -> bool:
    return judge.alone or type(judge).select is Filter.select


def _to_one_host(spec: RequestSpec) -> bool:
    """Whether the first guest decides where all others have to be."""
    return spec.group is not None and spec.group.policy == AFFINITY and not spec.group.members
