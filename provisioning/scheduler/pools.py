"""Chooses pools for volumes: pure functions from pool states and a request to ranked pools and an explanation.

The filters and weighers are Cinder's: availability zone, capabilities from the type's extra specs, capacity with
over-subscription, and the hints ``same_host`` and ``different_host``.
"""

import abc
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from provisioning.scheduler.decision import FilterResult
from provisioning.scheduler.operators import meets

ZONES = "RESKEY:availability_zones"
"""Extra spec with the comma-separated zones in which volumes of the type are created."""
NOT_CAPABILITIES = frozenset({"multiattach"})
"""Extra specs that describe the volume; a pool need not have them among its capabilities."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as the input of a decision; amounts in GiB."""

    id: uuid.UUID
    name: str
    driver: str
    zone: str
    total_gb: float
    free_gb: float
    allocated_gb: int
    reserved_percentage: int = 0
    max_over_subscription_ratio: float = 20.0
    capabilities: Mapping[str, str] = field(default_factory=dict)
    enabled: bool = True
    alive: bool = True
    frozen: bool = False
    warning: str = ""

    @property
    def limit_gb(self) -> float:
        """GiB that may be allocated to volumes in total."""
        return self.total_gb * (1 - self.reserved_percentage / 100) * self.max_over_subscription_ratio

    @property
    def left_gb(self) -> int:
        """Maximum size of a new volume in GiB: the unused part of the limit, but at most the free space with
        over-subscription.
        """
        really_free = max(self.free_gb - self.total_gb * self.reserved_percentage / 100, 0)
        return max(int(min(self.limit_gb - self.allocated_gb, really_free * self.max_over_subscription_ratio)), 0)


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """The requirements of a volume on its pool."""

    size_gb: int
    zone: str = ""
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    encrypted: bool = False
    multiattach: bool = False
    same: frozenset[uuid.UUID] | None = None
    """The only acceptable pools: the pools of the volumes in ``same_host``, or the pool of the volume or snapshot that
    is copied; None: any pool.
    """
    different: frozenset[uuid.UUID] = frozenset()
    failed: frozenset[uuid.UUID] = frozenset()
    """Pools that have failed this request before."""

    @property
    def zones(self) -> frozenset[str]:
        """The zones of the volume type; empty: any."""
        return zones_of(self.extra_specs)


def zones_of(extra_specs: Mapping[str, str]) -> frozenset[str]:
    """Return the zones in which volumes of a type with these extra specs are created; empty: any."""
    return frozenset(filter(None, (zone.strip() for zone in extra_specs.get(ZONES, "").split(","))))


class PoolFilter(abc.ABC):
    """A condition that a pool must meet."""

    name: ClassVar[str]
    kept: ClassVar[tuple[str, str]]
    """Verb phrases for one pool that passed and for several pools."""

    def applies(self, request: PoolRequest) -> bool:
        """Whether the request contains anything that the filter checks."""
        return True

    @abc.abstractmethod
    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        """Whether the pool meets the condition."""

    @abc.abstractmethod
    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        """Return why some of ``pools`` did not pass, without names of pools."""


class ServiceFilter(PoolFilter):
    """Pools that are enabled, not frozen, without a fault, and on a host that is up."""

    name = "ServiceFilter"
    kept = ("is in service", "are in service")

    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        return pool.enabled and pool.alive and not pool.frozen and not pool.warning

    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        silent = len([pool for pool in pools if not pool.alive])
        off = len([pool for pool in pools if pool.alive and not pool.enabled])
        frozen = len([pool for pool in pools if pool.alive and pool.enabled and pool.frozen])
        broken = len([pool for pool in pools if pool.alive and pool.enabled and not pool.frozen and pool.warning])
        counts = [
            (silent, "on a host that is down or not connected"),
            (off, "disabled by an operator"),
            (frozen, "frozen by an operator"),
            (broken, "with a fault"),
        ]
        return ", ".join(f"{many} {what}" for many, what in counts if many)


class AvailabilityZoneFilter(PoolFilter):
    """Pools in the requested zone, and in one of the type's zones."""

    name = "AvailabilityZoneFilter"
    kept = ("is in the zone", "are in the zone")

    def applies(self, request: PoolRequest) -> bool:
        return bool(request.zone or request.zones)

    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        return request.zone in ("", pool.zone) and (not request.zones or pool.zone in request.zones)

    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        places = [f"availability zone {request.zone}"] if request.zone else []
        places += [f"a zone of the type ({', '.join(sorted(request.zones))})"] if request.zones else []
        return f"none is in {' and '.join(places)}"


class CapabilitiesFilter(PoolFilter):
    """Pools with the capabilities that the type's extra specs require, with Cinder's operators.

    Scoped keys other than ``capabilities:`` are ignored.
    """

    name = "CapabilitiesFilter"
    kept = ("has what the type asks for", "have what the type asks for")

    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        if request.encrypted and pool.capabilities.get("encryption", "true") != "true":
            return False
        if request.multiattach and pool.capabilities.get("multiattach", "true") != "true":
            return False
        return all(_has(pool, name, required) for name, required in request.extra_specs.items())

    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        missing = [
            f"{name}={required}"
            for name, required in request.extra_specs.items()
            if not any(_has(pool, name, required) for pool in pools)
        ]
        what = ", ".join(missing) or "all of it together"
        return f"no pool offers {what}"


def _has(pool: PoolView, key: str, required: str) -> bool:
    scope, _, name = key.rpartition(":")
    if scope not in ("", "capabilities") or name in NOT_CAPABILITIES:
        return True
    if name == "volume_backend_name":
        return any(meets(text, required) for text in (pool.name, pool.driver))
    value = {"driver": pool.driver, "pool_name": pool.name, **pool.capabilities}.get(name)
    if value is None:
        return False
    sign, _, operand = required.strip().partition(" ")
    if sign == "<is>":
        return (value.lower() == "true") == (operand.strip().lower() == "true")
    return meets(value, required) or value.lower() == required.lower()


class RetryFilter(PoolFilter):
    """Pools that have not failed this request before."""

    name = "RetryFilter"
    kept = ("has not failed it", "have not failed it")

    def applies(self, request: PoolRequest) -> bool:
        return bool(request.failed)

    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        return pool.id not in request.failed

    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        return "the others have failed to create it"


class SameBackendFilter(PoolFilter):
    """The pools of the volumes in ``same_host``, or the pool of the volume or snapshot that is copied."""

    name = "SameBackendFilter"
    kept = ("is the requested pool", "are requested pools")

    def applies(self, request: PoolRequest) -> bool:
        return request.same is not None

    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        return request.same is None or pool.id in request.same

    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        return "the pool of the source, or of the volumes that same_host names, is not among them"


class DifferentBackendFilter(PoolFilter):
    """Pools without the volumes in ``different_host``."""

    name = "DifferentBackendFilter"
    kept = ("has none of the volumes named", "have none of the volumes named")

    def applies(self, request: PoolRequest) -> bool:
        return bool(request.different)

    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        return pool.id not in request.different

    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        return "the others have a volume that different_host names"


class CapacityFilter(PoolFilter):
    """Pools with enough capacity."""

    name = "CapacityFilter"
    kept = ("has the space", "have the space")

    def passes(self, pool: PoolView, request: PoolRequest) -> bool:
        return pool.left_gb >= request.size_gb

    def reason(self, pools: Sequence[PoolView], request: PoolRequest) -> str:
        most = max((pool.left_gb for pool in pools), default=0)
        return f"{request.size_gb} GiB requested, at most {most} GiB free"


FILTERS: tuple[PoolFilter, ...] = (
    ServiceFilter(),
    AvailabilityZoneFilter(),
    CapabilitiesFilter(),
    RetryFilter(),
    SameBackendFilter(),
    DifferentBackendFilter(),
    CapacityFilter(),
)
"""In order of execution: conditions that users can change most easily come last."""


@dataclass(frozen=True, slots=True)
class RankedPool:
    """A suitable pool; a greater weight is better."""

    pool: PoolView
    weight: float


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """The pools in the order in which they should be tried, and the result of each filter."""

    ranked: tuple[RankedPool, ...]
    filters: tuple[FilterResult, ...]
    pools: int
    losses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Filter → names of the first ten pools that it rejected, for operators."""


def decide_pool(
    pools: Sequence[PoolView], request: PoolRequest, *, choose: random.Random | None = None
) -> PoolDecision:
    """Rank the pools that pass all filters, the largest capacity first; equal pools are in random order."""
    chance = choose or random.Random()  # noqa: S311 - spreads load, keeps no secret
    left, results, losses = list(pools), list[FilterResult](), dict[str, tuple[str, ...]]()
    for judge in FILTERS:
        if not judge.applies(request) or not left:
            continue
        staying = [pool for pool in left if judge.passes(pool, request)]
        lost = [pool for pool in left if pool not in staying]
        words = judge.kept[len(staying) != 1]
        reason = judge.reason(left, request) if lost else ""
        results.append(FilterResult(judge.name, len(left), len(staying), reason=reason, words=words))
        if lost:
            losses[judge.name] = tuple(pool.name for pool in lost[:10])
        left = staying
    chance.shuffle(left)
    ranked = sorted((RankedPool(pool, float(pool.left_gb)) for pool in left), key=lambda each: -each.weight)
    return PoolDecision(tuple(ranked), tuple(results), len(pools), losses)


def explain_pool(decision: PoolDecision) -> str:
    """Return how many pools there were, how many passed each filter that rejected some, and why none is left.

    The text is for the volume's owner and contains no names of pools.
    """
    if not decision.pools:
        return "There are no storage pools in this cloud yet."
    losing = [result for result in decision.filters if result.after < result.before]
    stops = [_count(decision.pools), *(f"{result.after} {result.words}" for result in losing)]
    if decision.ranked:
        return f"{' → '.join(stops)}." if losing else f"{stops[0]}, all suitable."
    return f"{' → '.join(stops)}: {losing[-1].reason}."


def _count(many: int) -> str:
    return "1 storage pool" if many == 1 else f"{many} storage pools"
