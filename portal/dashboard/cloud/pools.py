"""The storage pools of all hosts and backends: the list, and the page of one pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, F, FloatField, OuterRef, Q, QuerySet
from django.db.models.expressions import ExpressionWrapper
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.safestring import SafeString

from portal.common import statuses
from portal.common.statuses import Status, volume_status
from portal.dashboard.cloud.things import troubles_of
from portal.dashboard.cloud.watched import WatchedPage
from portal.dashboard.graphs import sparklines
from portal.dashboard.graphs.bars import Bar
from portal.dashboard.graphs.parts import OF_HOSTS
from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import Column, Empty, Filter, RecordList, counted, fixed, same, searched
from portal.dashboard.lists.views import ListPage
from portal.dashboard.templatetags import novella as tags
from provisioning.common.context import RequestContext
from provisioning.doctor.overview.cloud import RULE as CLOUD
from provisioning.doctor.overview.cloud import faults_of_pool
from provisioning.hosts.models import Host
from provisioning.hosts.notifications import KIND
from provisioning.hosts.selectors import alive, is_alive
from provisioning.identity import policy
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.volumes.models import PoolHost, StoragePool, Volume
from provisioning.volumes.pools.pools import DRIVERS
from provisioning.volumes.selectors.pools import (
    MOST_VOLUMES,
    RULE,
    VOLUMES,
    condition_of,
    every_pool,
    pool_for,
    servings,
    volumes_in,
)

STATES = (("up", "Up"), ("down", "Down"), ("fault", "With a fault"), ("disabled", "Disabled or frozen"))
MOST_HOSTS = 3
"""Maximum number of hosts in a row of the list."""


@dataclass(frozen=True, slots=True)
class PoolBar(Bar):
    """Space of a pool in GiB."""

    name: str = ""

    @property
    def label(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool, prepared for templates. ``line``: the graph of its used space in the last day."""

    pool: StoragePool
    status: Status
    reason: str
    volumes: int
    line: SafeString = SafeString("")  # noqa: RUF009 - immutable

    @property
    def used(self) -> PoolBar:
        """The used space of its file system or cluster."""
        return PoolBar("gigabytes", round(self.pool.total_gb), round(self.used_gb), name="Used")

    @property
    def allocated(self) -> PoolBar:
        """The sizes of its volumes, and the limit with over-subscription."""
        pool = self.pool
        limit = pool.total_gb * (1 - pool.reserved_percentage / 100) * pool.max_over_subscription_ratio
        return PoolBar("gigabytes", round(limit), pool.allocated_gb, name="Allocated")

    @property
    def used_gb(self) -> float:
        return max(self.pool.total_gb - self.pool.free_gb, 0.0)

    @property
    def overcommit(self) -> float | None:
        """How often its size is allocated to volumes; None for a pool of unknown size."""
        return self.pool.allocated_gb / self.pool.total_gb if self.pool.total_gb > 0 else None

    @property
    def overcommit_text(self) -> str:
        return "" if self.overcommit is None else f"{self.overcommit:.1f}"

    @property
    def overcommitted(self) -> bool:
        return self.overcommit is not None and self.overcommit > 1

    @property
    def hosts(self) -> list[PoolHost]:
        return sorted(self.pool.servings.all(), key=lambda each: each.host.name)


def pool_row(pool: StoragePool, now: datetime, volumes: int, line: SafeString | None = None) -> PoolRow:
    """Return the row of a pool with its hosts."""
    condition, reason = condition_of(pool, now)
    return PoolRow(pool, statuses.POOL_STATUS[condition], reason, volumes, line or SafeString(""))


def _detail(_: RequestContext, pools: QuerySet[StoragePool]) -> QuerySet[StoragePool]:
    return pools.prefetch_related(servings()).annotate(many=_MANY)


def _rows(context: RequestContext, rows: Sequence[Any]) -> list[PoolRow]:
    now = timezone.now()
    lines = sparklines.of_pools(rows) if policy.allows(context, OF_HOSTS) else {}
    return [pool_row(each, now, each.many, lines.get(each.id)) for each in rows]


def _served() -> Exists:
    return Exists(PoolHost.objects.filter(alive(timezone.now(), "host__"), pool=OuterRef("pk"), serving=True))


def _state(_: RequestContext, value: str) -> Q:
    if value == "disabled":
        return Q(enabled=False) | Q(frozen=True)
    if value == "fault":
        reported = PoolHost.objects.filter(pool=OuterRef("pk"), serving=True).exclude(warning="")
        return ~Q(warning="") | Q(Exists(reported))
    return Q(_served()) if value == "up" else ~Q(_served())


def _hosts(_: RequestContext) -> list[tuple[str, str]]:
    return [(name, name) for name in Host.objects.order_by("name").values_list("name", flat=True)]


def _host(_: RequestContext, value: str) -> Q:
    return Q(Exists(PoolHost.objects.filter(pool=OuterRef("pk"), host__name=value)))


def _zones(_: RequestContext) -> list[tuple[str, str]]:
    zones = StoragePool.objects.order_by("availability_zone").values_list("availability_zone", flat=True).distinct()
    return [(zone, zone) for zone in zones]


def _name(row: PoolRow) -> object:
    below = f"{row.pool.driver}, shared" if row.pool.shared else row.pool.driver
    return cells.record(row.pool, "dashboard:pool", below=below)


def _status(row: PoolRow) -> object:
    return cells.status(row.status) + cells.sub(cells.bdi(row.reason))


def _overcommit(row: PoolRow) -> object:
    return f"{row.overcommit_text}\N{MULTIPLICATION SIGN}" if row.overcommit_text else ""


def _served_by(row: PoolRow) -> object:
    links = [cells.link(each.host.name, "dashboard:host", each.host_id) for each in row.hosts[:MOST_HOSTS]]
    more = len(row.hosts) - MOST_HOSTS
    return cells.join(", ", [*links, f"{more} more"] if more > 0 else links)


_MANY = counted(Volume.objects.all(), "pool_id")
_USED = ExpressionWrapper(F("total_gb") - F("free_gb"), output_field=FloatField())
POOLS = RecordList[StoragePool](
    key="pools",
    model=StoragePool,
    one="pool",
    noun="pools",
    rule=RULE,
    row_id="pool",
    records=lambda context, _: every_pool(context),
    detail=_detail,
    rows=_rows,
    default="name",
    columns=(
        Column("name", "Pool", _name, sort=Lower("name"), plain=lambda row: row.pool.name, css="name", titled=False),
        Column("state", "State", _status, plain=lambda row: row.status.word, titled=False),
        Column(
            "used",
            "Used",
            lambda row: tags.meter(row.used, bare=True),
            sort=_USED,
            plain=lambda row: round(row.used_gb, 1),
            css="usage",
            largest_first=True,
        ),
        Column(
            "allocated",
            "Allocated",
            lambda row: tags.meter(row.allocated, bare=True),
            sort="allocated_gb",
            plain=lambda row: row.pool.allocated_gb,
            css="usage",
            largest_first=True,
        ),
        Column("overcommit", "Overcommit", _overcommit, css="num"),
        Column(
            "free",
            "Free",
            lambda row: cells.gib(round(row.pool.free_gb)),
            sort="free_gb",
            plain=lambda row: round(row.pool.free_gb, 1),
            css="num text-nowrap",
            largest_first=True,
            optional=True,
        ),
        Column("volumes", "Volumes", lambda row: row.volumes, sort=_MANY, css="num", largest_first=True),
        Column(
            "hosts",
            "Hosts",
            _served_by,
            plain=lambda row: " ".join(each.host.name for each in row.hosts),
            css="on-a-line",
        ),
        Column("line", "Last day", lambda row: row.line, picture=True, rule=OF_HOSTS),
        Column(
            "zone",
            "Zone",
            lambda row: cells.bdi(row.pool.availability_zone),
            sort="availability_zone",
            optional=True,
        ),
        Column(
            "seen",
            "Last report",
            lambda row: cells.when(row.pool.last_seen_at, "seconds"),
            sort="last_seen_at",
            plain=lambda row: row.pool.last_seen_at,
            css="muted num text-nowrap",
            optional=True,
        ),
    ),
    search=searched("name", "driver"),
    filters=(
        Filter("state", "State", fixed(*STATES), _state, quick=True),
        Filter("driver", "Driver", fixed(*((name, name) for name in sorted(DRIVERS))), same("driver")),
        Filter("host", "Host", _hosts, _host, closed=False),
        Filter("zone", "Zone", _zones, same("availability_zone"), closed=False),
    ),
    empty=Empty("database", "No pools yet", "A pool stores volumes. Hosts report their pools when their agents start."),
    kinds=frozenset({KIND}),
)


class PoolList(ListPage):
    """The page *Pools*: the storage pools of all hosts, for operators."""

    records = POOLS
    lead = "The storage of volumes on all hosts and backends."


class PoolDetail(WatchedPage):
    """The page of one pool: state, capacity, faults, hosts and volumes."""

    section = "pools"
    rule = RULE
    back_to = "dashboard:pools"
    template = "dashboard/cloud/pool.html"
    live_templates = ("dashboard/cloud/_pool.html",)
    live_kind = "pool"
    key = "pool_id"
    record: StoragePool

    def target(self, **kwargs: Any) -> Mapping[str, object]:
        self.record = pool_for(self.context, kwargs["pool_id"])
        return {}

    def parts(self) -> Mapping[str, Any]:
        pool, now = self.record, timezone.now()
        volumes = volumes_in(pool) if self.allows(VOLUMES) else []
        projects = projects_by_id({each.project_id for each in volumes})
        row = pool_row(pool, now, pool.volumes.count())
        return {
            "pool": pool,
            "row": row,
            "hosts": [(each, host_state(each, now)) for each in row.hosts],
            "claims": list(pool.claims.select_related("host").order_by("host__name")),
            "capabilities": sorted(pool.capabilities.items()),
            "troubles": troubles_of(self.context, faults_of_pool(self.context, pool)) if self.allows(CLOUD) else [],
            "volumes": [(each, volume_status(each.status), projects.get(each.project_id)) for each in volumes],
            "more": len(volumes) == MOST_VOLUMES,
            "can": {
                "admin": self.allows("novella:admin"),
                "hosts": self.allows("os_compute_api:os-hypervisors:show"),
                "graphs": self.allows(OF_HOSTS),
                "volumes": self.allows(VOLUMES),
                "unmanaged": self.allows("volume_extension:list_manageable"),
            },
        }


def host_state(serving: PoolHost, now: datetime) -> Status:
    """Return the state of a pool on one of its hosts."""
    if not is_alive(serving.host, now):
        return Status("Does not answer", "bad", "question-circle-fill")
    if not serving.serving:
        return Status("Does not serve it now", "warn", "exclamation-triangle-fill")
    return Status("Serves it", "ok", "check-circle-fill")
