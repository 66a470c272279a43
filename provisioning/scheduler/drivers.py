"""Built-in drivers, which rank the suitable hosts by weight, at random or by load. All run the same filters."""

import heapq
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Ranked
from provisioning.scheduler.driver import Driver, Options
from provisioning.scheduler.filters import RequireZoneFilter
from provisioning.scheduler.spec import HostState, RequestSpec
from provisioning.scheduler.weighers import Weigher

Key = TypeVar("Key", float, tuple[int, int])


class FilterDriver(Driver):
    """Ranks hosts by the sum of their weights; hosts of equal weight are in random order."""

    name = "filter"
    ranks_all = True

    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        weights = shares(hosts, spec, options.weighers)
        totals = list(map(sum, zip(*weights.values(), strict=True))) if weights else [0.0] * len(hosts)
        return [
            Ranked(hosts[index], totals[index], {name: column[index] for name, column in weights.items()})
            for index in best(totals, options.best, choose)
        ]


class ChanceDriver(Driver):
    """Ranks hosts at random."""

    name = "chance"
    ranks_all = True

    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        return [Ranked(host, 0.0) for host in choose.sample(hosts, min(len(hosts), options.best))]


class AvailabilityZoneDriver(ChanceDriver):
    """Ranks the hosts of a zone at random; the request or the settings must name the zone."""

    name = "availability-zone"

    def request(self, spec: RequestSpec, options: Options) -> RequestSpec:
        return spec if spec.availability_zone else replace(spec, availability_zone=options.default_zone)

    def filters(self, options: Options) -> tuple[Filter, ...]:
        return (_REQUIRE_ZONE, *options.filters)


class SimpleDriver(Driver):
    """Ranks hosts by load: the fewest vCPUs in use first, then the fewest servers."""

    name = "simple"
    ranks_all = True

    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        loads = [(-host.vcpus_allocated, -host.instances) for host in hosts]
        return [
            Ranked(hosts[index], loads[index][0], {"vcpus": loads[index][0], "instances": loads[index][1]})
            for index in best(loads, options.best, choose)
        ]


_REQUIRE_ZONE = RequireZoneFilter()


def shares(hosts: Sequence[HostState], spec: RequestSpec, weighers: Sequence[Weigher]) -> dict[str, list[float]]:
    """Return weigher → its part of the weight of each host, between 0 and its multiplier. Weighers that rate all hosts
    equal are omitted.
    """
    result = {}
    for weigher in weighers:
        if not weigher.multiplier or not weigher.applies(spec):
            continue
        raw = weigher.weigh_all(hosts, spec)
        low, high = min(raw), max(raw)
        if low < high:
            scale = weigher.multiplier / (high - low)
            result[weigher.name] = [(value - low) * scale for value in raw]
    return result


def best(keys: Sequence[Key], most: int, choose: random.Random) -> list[int]:
    """Return the indexes of the ``most`` greatest keys, greatest first; equal keys are in random order."""
    if len(keys) <= most:
        order = list(range(len(keys)))
        choose.shuffle(order)
        return sorted(order, key=keys.__getitem__, reverse=True)
    edge = heapq.nlargest(most, keys)[-1]
    above = [index for index, key in enumerate(keys) if key > edge]
    choose.shuffle(above)
    above.sort(key=keys.__getitem__, reverse=True)
    level = [index for index, key in enumerate(keys) if key == edge]
    return above + choose.sample(level, most - len(above))
