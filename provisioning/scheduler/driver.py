"""The base class of drivers, and the options that they are given."""

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
    """Ranks the hosts that passed all filters; so no driver can choose a host that a filter rejects."""

    name: str
    ranks_all: ClassVar[bool] = False
    """Whether ``order`` leaves out no suitable host up to ``options.best``: then places are counted quickly."""

    def request(self, spec: RequestSpec, options: Options) -> RequestSpec:
        """Return the request with what this driver adds to it."""
        return spec

    def filters(self, options: Options) -> tuple[Filter, ...]:
        """Return the filters in running order."""
        return options.filters

    @abc.abstractmethod
    def order(
        self, hosts: Sequence[HostState], spec: RequestSpec, options: Options, choose: random.Random
    ) -> list[Ranked]:
        """Return the best ``options.best`` of ``hosts``, which all can take the guest, best first; there is one at
        least.
        """


@dataclass(frozen=True, slots=True)
class Options:
    """The scheduler's part of the settings."""

    driver: Driver
    filters: tuple[Filter, ...]
    """In running order."""
    weighers: tuple[Weigher, ...]
    subset_size: int = 1
    """One of this many best hosts, chosen at random, is tried first, so that workers deciding at the same moment do not
    all choose the same host."""
    max_instances_per_host: int = 0
    """For hosts whose aggregates set no limit of their own; 0: any number."""
    max_io_ops_per_host: int = 0
    default_zone: str = ""
    """For requests that name none, with the driver ``availability-zone``."""
    best: int = 50
    """How many hosts are ranked, at most."""
