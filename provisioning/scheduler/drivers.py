"""How one of the suitable hosts is chosen: by weighers, by chance, by load.  All drivers ask the same filters."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Ranked
from provisioning.scheduler.driver import Driver, Options
from provisioning.scheduler.filters import ZoneSaidFilter
from provisioning.scheduler.order import best, shares
from provisioning.scheduler.spec import HostState, RequestSpec


class FilterDriver(Driver):
    """The host that the weighers like best; equals in an order that only chance decides."""

    name = "filter"
    alone = True

    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        given = shares(hosts, spec, options.weighers)
        totals = list(map(sum, zip(*given.values(), strict=True))) if given else [0.0] * len(hosts)
        return [
            Ranked(hosts[index], totals[index], {name: column[index] for name, column in given.items()})
            for index in best(totals, options.best, choose)
        ]


class ChanceDriver(Driver):
    """Any host that can take the guest."""

    name = "chance"
    alone = True

    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        return [Ranked(host, 0.0) for host in choose.sample(hosts, min(len(hosts), options.best))]


class AvailabilityZoneDriver(ChanceDriver):
    """Any host of the zone, which the request must say unless the settings do."""

    name = "availability-zone"

    def request(self, spec: RequestSpec, options: Options) -> RequestSpec:
        return spec if spec.availability_zone else replace(spec, availability_zone=options.default_zone)

    def filters(self, options: Options) -> tuple[Filter, ...]:
        return (_ZONE_SAID, *options.filters)


class SimpleDriver(Driver):
    """The least loaded host: with the fewest vCPUs in use, then with the fewest servers."""

    name = "simple"
    alone = True

    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        loads = [(-host.vcpus_allocated, -host.instances) for host in hosts]
        return [
            Ranked(hosts[index], loads[index][0], {"vcpus": loads[index][0], "instances": loads[index][1]})
            for index in best(loads, options.best, choose)
        ]


_ZONE_SAID = ZoneSaidFilter()
