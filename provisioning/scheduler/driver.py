"""The base class of drivers, and their options."""

from __future__ import annotations

import abc
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.decision import Ranked
from provisioning.scheduler.spec import HostState, RequestSpec
from provisioning.scheduler.weighers import Weigher


class Driver(abc.ABC):
    """Ranks the hosts that passed all filters. A driver cannot choose a host that a filter rejected."""

    name: str
    ranks_all: ClassVar[bool] = False
    """Whether ``order`` returns all suitable hosts up to ``options.best``; guests can then be counted faster."""

    def request(self, spec: RequestSpec, options: Options) -> RequestSpec:
        """Return the request, changed by the driver before the filters run."""
        return spec

    def filters(self, options: Options) -> tuple[Filter, ...]:
        """Return the filters in order of execution."""
        return options.filters

    @abc.abstractmethod
    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        """Return at most ``options.best`` of ``hosts``, best first. ``hosts`` is not empty, and each of them has passed
        all filters.
        """


@dataclass(frozen=True, slots=True)
class Options:
    """The scheduler's options from the settings."""

    driver: Driver
    filters: tuple[Filter, ...]
    """In order of execution."""
    weighers: tuple[Weigher, ...]
    subset_size: int = 1
    """Number of best hosts among which the first one is chosen at random, so that concurrent workers do not all choose
    the same host.
    """
    max_instances_per_host: int = 0
    """Maximum number of servers on a host whose aggregates set no limit; 0: unlimited. ``max_io_ops_per_host`` does the
    same for builds, copies and migrations in progress.
    """
    max_io_ops_per_host: int = 0
    default_zone: str = ""
    """The driver ``availability-zone`` uses this zone for requests without a zone."""
    best: int = 50
    """Maximum number of ranked hosts."""
