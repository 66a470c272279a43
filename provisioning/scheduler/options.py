"""The scheduler's options, created from the settings once and used for all decisions."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from provisioning.scheduler.affinity import (
    DifferentHostFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from provisioning.scheduler.condition import Filter
from provisioning.scheduler.cpu import CpuFeaturesFilter
from provisioning.scheduler.driver import Driver, Options
from provisioning.scheduler.drivers import AvailabilityZoneDriver, ChanceDriver, FilterDriver, SimpleDriver
from provisioning.scheduler.filters import (
    AvailabilityZoneFilter,
    ComputeFilter,
    IgnoredHostsFilter,
    RequestedHostFilter,
    RetryFilter,
)
from provisioning.scheduler.flavor_demands import AggregateInstanceExtraSpecsFilter, ComputeCapabilitiesFilter
from provisioning.scheduler.image_demands import HostNeedsFilter, ImagePropertiesFilter
from provisioning.scheduler.plugins import DEFAULT, SchedulerSettingError, create, distinct, expanded
from provisioning.scheduler.query import JsonFilter
from provisioning.scheduler.resources import CoreFilter, DiskFilter, IoOpsFilter, NumInstancesFilter, RamFilter
from provisioning.scheduler.spec import RequestSpec
from provisioning.scheduler.weighers import (
    BuildFailureWeigher,
    CPUWeigher,
    DiskWeigher,
    ImageCachedWeigher,
    IoOpsWeigher,
    RAMWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
    Weigher,
)

_OUR_FILTERS: tuple[type[Filter], ...] = (
    ComputeFilter,
    RequestedHostFilter,
    IgnoredHostsFilter,
    AvailabilityZoneFilter,
    ImagePropertiesFilter,
    HostNeedsFilter,
    CpuFeaturesFilter,
    AggregateInstanceExtraSpecsFilter,
    ComputeCapabilitiesFilter,
    JsonFilter,
    RetryFilter,
    SameHostFilter,
    DifferentHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    NumInstancesFilter,
    IoOpsFilter,
    CoreFilter,
    RamFilter,
    DiskFilter,
)
"""In order of execution: conditions that users can change most easily come last."""
_ALWAYS: tuple[type[Filter], ...] = (
    ComputeFilter,
    RequestedHostFilter,
    IgnoredHostsFilter,
    AvailabilityZoneFilter,
    HostNeedsFilter,
    CpuFeaturesFilter,
    RetryFilter,
    SameHostFilter,
    DifferentHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    CoreFilter,
    RamFilter,
    DiskFilter,
)
"""Always run, regardless of the settings: without them a guest might be placed where it cannot run, or against its
constraints.
"""
_OUR_WEIGHERS: dict[type[Weigher], str] = {
    RAMWeigher: "RAM_WEIGHT",
    CPUWeigher: "CPU_WEIGHT",
    DiskWeigher: "DISK_WEIGHT",
    IoOpsWeigher: "IO_WEIGHT",
    ServerGroupSoftAffinityWeigher: "SOFT_AFFINITY_WEIGHT",
    ServerGroupSoftAntiAffinityWeigher: "SOFT_ANTI_AFFINITY_WEIGHT",
    BuildFailureWeigher: "BUILD_FAILURE_WEIGHT",
    ImageCachedWeigher: "IMAGE_CACHED_WEIGHT",
}
"""Weigher → the setting of its multiplier."""
_OUR_DRIVERS: tuple[type[Driver], ...] = (FilterDriver, ChanceDriver, AvailabilityZoneDriver, SimpleDriver)
_RESOURCE_WEIGHERS = (RAMWeigher.name, CPUWeigher.name, DiskWeigher.name)
_PLACEMENTS = {"spread": 1.0, "pack": -1.0}

FILTERS: tuple[Filter, ...] = tuple(each() for each in _OUR_FILTERS)
"""All built-in filters; the number of servers on a host is unlimited unless an aggregate limits it."""
WEIGHERS: tuple[Weigher, ...] = tuple(each() for each in _OUR_WEIGHERS)
DEFAULTS = Options(FilterDriver(), FILTERS, WEIGHERS)
"""The options if no setting is set."""


class _Settings(NamedTuple):
    """The scheduler's settings as a hashable cache key."""

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
    """Return the options from ``settings.SCHEDULER_*``, with defaults for missing ones. Equal settings return the same
    object.

    Raises SchedulerSettingError with the name of the setting.
    """

    def setting(name: str, default: object) -> object:
        return getattr(settings, f"SCHEDULER_{name}", default)

    multipliers = tuple((each.name, setting(name, None)) for each, name in _OUR_WEIGHERS.items())
    return _made(
        _Settings(
            driver=str(setting("DRIVER", "filter")),
            filters=tuple(setting("FILTERS", [DEFAULT])),  # type: ignore[arg-type]
            weighers=tuple(setting("WEIGHERS", [DEFAULT])),  # type: ignore[arg-type]
            placement=str(setting("PLACEMENT", "spread")),
            multipliers=multipliers,  # type: ignore[arg-type]
            subset_size=setting("SUBSET_SIZE", 1),  # type: ignore[arg-type]
            max_instances_per_host=setting("MAX_INSTANCES_PER_HOST", 0),  # type: ignore[arg-type]
            max_io_ops_per_host=setting("MAX_IO_OPS_PER_HOST", 0),  # type: ignore[arg-type]
            default_zone=str(setting("DEFAULT_ZONE", "")),
        )
    )


@lru_cache(maxsize=64)
def _made(settings: _Settings) -> Options:
    drivers = {each.name: each for each in _OUR_DRIVERS}
    return Options(
        driver=create("NOVELLA_SCHEDULER_DRIVER", settings.driver, Driver, drivers),  # type: ignore[type-abstract]
        filters=_filters(settings),
        weighers=_weighers(settings),
        subset_size=settings.subset_size,
        max_instances_per_host=settings.max_instances_per_host,
        max_io_ops_per_host=settings.max_io_ops_per_host,
        default_zone=settings.default_zone,
        best=max(50, settings.subset_size),
    )


def _filters(settings: _Settings) -> tuple[Filter, ...]:
    setting = "NOVELLA_SCHEDULER_FILTERS"
    ours: dict[str, Callable[[], Filter]] = {each.name: each for each in _OUR_FILTERS}
    ours[NumInstancesFilter.name] = partial(NumInstancesFilter, settings.max_instances_per_host)
    ours[IoOpsFilter.name] = partial(IoOpsFilter, settings.max_io_ops_per_host)
    names = list(expanded(setting, settings.filters, list(ours)))
    missing = [each.name for each in _ALWAYS if each.name not in names]
    return distinct(setting, (create(setting, name, Filter, ours) for name in [*missing, *names]))  # type: ignore[type-abstract]


def _weighers(settings: _Settings) -> tuple[Weigher, ...]:
    setting = "NOVELLA_SCHEDULER_WEIGHERS"
    if settings.placement not in _PLACEMENTS:
        raise SchedulerSettingError(
            f"NOVELLA_SCHEDULER_PLACEMENT is {settings.placement!r}; it must be {' or '.join(_PLACEMENTS)}."
        )
    by_placement: Mapping[str, float] = dict.fromkeys(_RESOURCE_WEIGHERS, _PLACEMENTS[settings.placement])
    own = {name: by_placement.get(name) if value is None else value for name, value in settings.multipliers}
    ours = {each.name: partial(each, own[each.name]) for each in _OUR_WEIGHERS}
    names = expanded(setting, settings.weighers, list(ours))
    return distinct(setting, (create(setting, name, Weigher, ours) for name in names))  # type: ignore[type-abstract]


def facts_needed(spec: RequestSpec, options: Options) -> frozenset[str]:
    """Return the fields of ``Facts`` that a decision reads, and ``hardware`` if it reads architecture or hypervisor.

    With a custom driver, filter or weigher the result contains ``hardware``, because custom classes do not declare
    whether they read it.
    """
    filters = [each for each in options.driver.filters(options) if each.applies(spec)]
    weighers = [each for each in options.weighers if each.multiplier and each.applies(spec)]
    parts = (options.driver, *filters, *weighers)
    others = any(not type(each).__module__.startswith("provisioning.scheduler.") for each in parts)
    needed = frozenset({"hardware"} if others else ())
    return needed.union(*(each.needs for each in filters), *(each.needs for each in weighers))
