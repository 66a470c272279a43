"""How this cloud chooses hosts: made of the settings once, and the same for every decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from provisioning.scheduler.condition import Filter
from provisioning.scheduler.driver import Driver, Options
from provisioning.scheduler.drivers import AvailabilityZoneDriver, ChanceDriver, FilterDriver, SimpleDriver
from provisioning.scheduler.filters import (
    AliveFilter,
    AvailabilityZoneFilter,
    IgnoredHostsFilter,
    RequestedHostFilter,
    RetryFilter,
)
from provisioning.scheduler.flavor_demands import AggregateSpecsFilter, CapabilitiesFilter
from provisioning.scheduler.image_demands import ArchitectureFilter, HypervisorFilter
from provisioning.scheduler.neighbours import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
)
from provisioning.scheduler.plugins import DEFAULT, SchedulerSettingError, listed, made, unlike
from provisioning.scheduler.query import QueryFilter
from provisioning.scheduler.room import DiskFilter, InstancesFilter, IoOpsFilter, RamFilter, VcpuFilter
from provisioning.scheduler.spec import RequestSpec
from provisioning.scheduler.weighers import (
    BuildFailureWeigher,
    CpuWeigher,
    DiskWeigher,
    ImageCachedWeigher,
    IoOpsWeigher,
    RamWeigher,
    SoftAffinityWeigher,
    SoftAntiAffinityWeigher,
    Weigher,
)

_OUR_FILTERS: tuple[type[Filter], ...] = (
    AliveFilter,
    RequestedHostFilter,
    IgnoredHostsFilter,
    AvailabilityZoneFilter,
    ArchitectureFilter,
    HypervisorFilter,
    AggregateSpecsFilter,
    CapabilitiesFilter,
    QueryFilter,
    RetryFilter,
    SameHostFilter,
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    InstancesFilter,
    IoOpsFilter,
    VcpuFilter,
    RamFilter,
    DiskFilter,
)
"""In running order: the cheapest answer for a person to act on comes last."""
_ALWAYS: tuple[type[Filter], ...] = (
    AliveFilter,
    RequestedHostFilter,
    IgnoredHostsFilter,
    AvailabilityZoneFilter,
    RetryFilter,
    SameHostFilter,
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    VcpuFilter,
    RamFilter,
    DiskFilter,
)
"""Run whatever the settings say: without them a guest could not live there, or a promise would be broken."""
_OUR_WEIGHERS: tuple[type[Weigher], ...] = (
    RamWeigher,
    CpuWeigher,
    DiskWeigher,
    IoOpsWeigher,
    SoftAffinityWeigher,
    SoftAntiAffinityWeigher,
    BuildFailureWeigher,
    ImageCachedWeigher,
)
_OUR_DRIVERS: tuple[type[Driver], ...] = (FilterDriver, ChanceDriver, AvailabilityZoneDriver, SimpleDriver)
_ROOM_WEIGHERS = ("ram", "cpu", "disk")
_PLACEMENTS = {"spread": 1.0, "pack": -1.0}

FILTERS: tuple[Filter, ...] = tuple(each() for each in _OUR_FILTERS)
"""All of ours, with no limit to the number of servers on a host."""
WEIGHERS: tuple[Weigher, ...] = tuple(each() for each in _OUR_WEIGHERS)
DEFAULTS = Options(FilterDriver(), FILTERS, WEIGHERS)
"""What holds without settings."""


class _Said(NamedTuple):
    """The settings, as a key to what was made of them."""

    driver: str
    filters: tuple[str, ...]
    weighers: tuple[str, ...]
    placement: str
    multipliers: tuple[tuple[str, float | None], ...]
    subset_size: int
    max_instances_per_host: int
    max_io_ops_per_host: int
    default_zone: str


def options_of(settings: object) -> Options:
    """Return what ``settings.SCHEDULER_*`` say; what is missing has its default.  The same settings give the same
    object.  Raises SchedulerSettingError with a sentence that names the setting.
    """

    def said(name: str, default: object) -> object:
        return getattr(settings, f"SCHEDULER_{name}", default)

    multipliers = tuple((each.name, said(f"{each.name.upper()}_WEIGHT", None)) for each in _OUR_WEIGHERS)
    return _made(
        _Said(
            driver=str(said("DRIVER", "filter")),
            filters=tuple(said("FILTERS", [DEFAULT])),  # type: ignore[arg-type]
            weighers=tuple(said("WEIGHERS", [DEFAULT])),  # type: ignore[arg-type]
            placement=str(said("PLACEMENT", "spread")),
            multipliers=multipliers,  # type: ignore[arg-type]
            subset_size=said("SUBSET_SIZE", 1),  # type: ignore[arg-type]
            max_instances_per_host=said("MAX_INSTANCES_PER_HOST", 0),  # type: ignore[arg-type]
            max_io_ops_per_host=said("MAX_IO_OPS_PER_HOST", 0),  # type: ignore[arg-type]
            default_zone=str(said("DEFAULT_ZONE", "")),
        )
    )


@lru_cache(maxsize=64)
def _made(said: _Said) -> Options:
    drivers = {each.name: each for each in _OUR_DRIVERS}
    return Options(
        driver=made("NOVELLA_SCHEDULER_DRIVER", said.driver, Driver, drivers),  # type: ignore[type-abstract]
        filters=_filters(said),
        weighers=_weighers(said),
        subset_size=said.subset_size,
        max_instances_per_host=said.max_instances_per_host,
        max_io_ops_per_host=said.max_io_ops_per_host,
        default_zone=said.default_zone,
        best=max(50, said.subset_size),
    )


def _filters(said: _Said) -> tuple[Filter, ...]:
    setting = "NOVELLA_SCHEDULER_FILTERS"
    ours: dict[str, Callable[[], Filter]] = {each.name: each for each in _OUR_FILTERS}
    ours[InstancesFilter.name] = partial(InstancesFilter, said.max_instances_per_host)
    ours[IoOpsFilter.name] = partial(IoOpsFilter, said.max_io_ops_per_host)
    names = list(listed(setting, said.filters, list(ours)))
    missing = [each.name for each in _ALWAYS if each.name not in names]
    return unlike(setting, (made(setting, name, Filter, ours) for name in [*missing, *names]))  # type: ignore[type-abstract]


def _weighers(said: _Said) -> tuple[Weigher, ...]:
    setting = "NOVELLA_SCHEDULER_WEIGHERS"
    if said.placement not in _PLACEMENTS:
        raise SchedulerSettingError(
            f"NOVELLA_SCHEDULER_PLACEMENT is {said.placement!r}; it must be {' or '.join(_PLACEMENTS)}."
        )
    by_placement: Mapping[str, float] = dict.fromkeys(_ROOM_WEIGHERS, _PLACEMENTS[said.placement])
    own = {name: by_placement.get(name) if value is None else value for name, value in said.multipliers}
    ours = {each.name: partial(each, own[each.name]) for each in _OUR_WEIGHERS}
    names = listed(setting, said.weighers, list(ours))
    return unlike(setting, (made(setting, name, Weigher, ours) for name in names))  # type: ignore[type-abstract]


def facts_needed(spec: RequestSpec, options: Options) -> frozenset[str]:
    """Return the fields of Facts that a decision looks at, and ``hardware`` when it looks at architecture or
    hypervisor; the others need not be read.  An operator's own classes may look at the hardware unsaid.
    """
    filters = [each for each in options.driver.filters(options) if each.applies(spec)]
    weighers = [each for each in options.weighers if each.multiplier and each.applies(spec)]
    parts = (options.driver, *filters, *weighers)
    others = any(not type(each).__module__.startswith("provisioning.scheduler.") for each in parts)
    needed = frozenset({"hardware"} if others else ())
    return needed.union(*(each.needs for each in filters), *(each.needs for each in weighers))
