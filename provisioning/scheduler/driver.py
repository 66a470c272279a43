"""What a driver is, and the options that it is given."""

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
    """Orders the hosts that all filters let pass; so no driver can give a guest to a host that must not have it."""

    name: str
    alone: ClassVar[bool] = False
    """Whether ``order`` leaves no suitable host out, however many there are: then places are counted quickly."""

    def request(self, spec: RequestSpec, options: Options) -> RequestSpec:
        """Return the request as this driver reads it."""
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
    """What the settings say of choosing hosts."""

    driver: Driver
    filters: tuple[Filter, ...]
    """In running order."""
    weighers: tuple[Weigher, ...]
    subset_size: int = 1
    """One of this many best hosts, chosen at random, is put in front, so that schedulers working side by side do not
    all run to the same host."""
    max_instances_per_host: int = 0
    """For hosts whose aggregates say nothing else; 0: any number."""
    max_io_ops_per_host: int = 0
    default_zone: str = ""
    """For requests that name none, with the driver ``availability-zone``."""
    best: int = 50
    """How many hosts are ranked, at most."""
